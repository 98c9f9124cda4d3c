"""Names of variables: what an operator may give, and what else was meant."""

import re
from itertools import chain
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.variables import OF_THE_RUN, check, nearest

ROOT = Path(__file__).resolve().parents[3]
KNOWN = yaml.safe_load((ROOT / "roles/armstage/meta/argument_specs.yml").read_text())["argument_specs"]["main"][
    "options"
]
NO_VARIABLES = {"armstage_prove", "armstage_summary"}
"""A tag and a plugin."""


def names_in(*folders, only=("*.yml", "*.j2")):
    """Every `armstage_NAME` of the files below the folders; those that begin with underscores are not among them."""
    files = chain.from_iterable((ROOT / folder).rglob(kind) for folder in folders for kind in only)
    found = set(re.findall(r"\barmstage_[a-z_]+[a-z]\b", "\n".join(path.read_text() for path in files)))
    return found - NO_VARIABLES


def refused(*given):
    with pytest.raises(ArmstageError) as error:
        check(given, KNOWN)
    return error.value.message, error.value.hint


def test_the_roles_use_what_is_specified_and_what_a_run_settles():
    used = names_in("roles", "playbooks", "vars")
    assert used == set(KNOWN) | set(OF_THE_RUN)


def test_whatever_is_given_in_this_project_is_known():
    given = names_in("inventory", "molecule", ".config") | names_in("docs", only=["*.md"])
    given |= names_in("molecule", "tests/lab", "tests/slurm", only=["*.py"])
    assert len(given) > 10
    check(given, KNOWN)


def test_what_is_known_and_what_is_others_is_taken():
    check(KNOWN, KNOWN)
    others = (
        "ansible_host preflight_checks torch_root slurm_state stage_root airstage_root backstage_token my_armstage_x"
    )
    check([*others.split(), "__armstage_probe", "stage", "arm"], KNOWN)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("armstage_torchh", ["armstage_torch_also", "armstage_torch_version"]),
        ("armstage_torch", ["armstage_torch_also", "armstage_torch_version"]),
        ("armstage_rot", ["armstage_root"]),
        ("Armstage-Root", ["armstage_root"]),
        ("armtage_root", ["armstage_root"]),
        ("armstages_root", ["armstage_root"]),
        ("armstage_stackname", ["armstage_stack_name"]),
        ("armstage_cuda", ["armstage_cuda_version"]),
        ("armstage_python_version", ["armstage_cpython_version"]),
        ("armstage_torch_vision_version", ["armstage_torchvision_version"]),
        ("armstage_driver", ["armstage_driver_version", "armstage_driver_timeout"]),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(given, meant):
    assert nearest(given, KNOWN) == meant
    message, hint = refused(given, "armstage_root")
    assert message == f"There is no variable `{given}`"
    assert hint.startswith(f"Give {' or '.join(f'`{name}`' for name in meant)} instead of `{given}`. What there is: ")


def test_one_wrong_letter_anywhere_leads_back():
    for name in KNOWN:
        if name == "armstage_uv":  # with one of its two letters wrong nothing of it is left
            continue
        for at in range(len("armstage_"), len(name)):
            before, letter, after = name[:at], name[at], name[at + 1 :]
            typed = {before + after, before + letter + letter + after, before + "x" + after}
            typed.add(before + after[:1] + letter + after[1:])
            assert {nearest(each, KNOWN)[0] for each in typed.difference(KNOWN)} <= {name}


def test_where_nothing_is_near_it_is_said_where_to_look():
    assert refused("armstage_zzz")[1] == ("Take `armstage_zzz` out. What there is: ./armstage stage --help")
    assert refused("armstage_")[0] == "There is no variable `armstage_`"


@pytest.mark.parametrize("name", OF_THE_RUN)
def test_what_a_run_settles_is_refused_with_what_to_do_instead(name):
    message, hint = refused(name)
    assert message == f"`{name}` is settled by the run and can't be given"
    assert hint.startswith(OF_THE_RUN[name])
    assert set(re.findall(r"armstage_[a-z_]+", hint)) <= set(KNOWN)


def test_all_that_is_wrong_is_said_at_once():
    message, hint = refused("armstage_rot", "armstage_plan", "armstage_keeep")
    assert [line.split("`")[1] for line in message.splitlines()] == ["armstage_keeep", "armstage_plan", "armstage_rot"]
    assert "`armstage_keep`" in hint
    assert "`armstage_index`" in hint
    assert "`armstage_root`" in hint
