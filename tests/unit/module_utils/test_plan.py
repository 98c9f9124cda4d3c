"""The plan of a stager: from nodes' facts and sources that answer or don't, to what is staged."""

from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.plan import plan, staged_index

VARS = Path(__file__).resolve().parents[3] / "vars"
COMPATIBILITY = yaml.safe_load((VARS / "compatibility.yml").read_text())["armstage_compatibility"]
STACKS = {path.stem: yaml.safe_load(path.read_text())["armstage_stack"] for path in (VARS / "stacks").glob("*.yml")}
PYTHON = {"executable": "/usr/bin/python3", "version": {"major": 3, "minor": 13}}
REACHED = {"available": True, "skipped_sources": []}
UNREACHED = {"available": False, "skipped_sources": [{"kind": "upstream", "url": "https://x", "reason": "no route"}]}


def node(cuda="13.0", capability="10.0", python=PYTHON, **facts):
    gpus = [{"compute_capability": capability}] if capability else []
    return {"cuda": {"status": "ok", "arch": "aarch64", "cuda_version": cuda, "gpus": gpus, **facts}, "python": python}


def wishes(stack="2026.05", torch=None, **changes):
    data = STACKS[stack]
    wanted = {name: dict(data[name]) for name in ("uv", "cpython", "ffmpeg", "torch")}
    wanted["torch"].update(torch or {})
    return {
        "root": "/work/u/.local",
        "uv": "/usr/bin/uv",
        "index": "",
        "mirror": "",
        "stack": wanted,
        "locked": data["torch"],
        "locks": {"cu130": "torch==2.11.0 --hash=sha256:..."},
        "constraints": "numpy==2.5.5",
        **changes,
    }


def made(nodes, cpython=REACHED, probed=None, **changes):
    return plan(wishes(**changes), nodes, COMPATIBILITY, probed or {}, cpython)


def test_one_environment_for_nodes_that_agree():
    result = made({"gb01": node(), "gb02": node()})
    assert [environment["tag"] for environment in result["environments"]] == ["cu130"]
    assert {name: choice["tag"] for name, choice in result["nodes"].items()} == {"gb01": "cu130", "gb02": "cu130"}
    assert result["warnings"] == []


def test_a_rolling_upgrade_has_one_environment_per_index():
    result = made({"gb01": node("12.8"), "gb02": node("13.3")})
    assert [environment["tag"] for environment in result["environments"]] == ["cu128", "cu130"]


def test_what_torchcodec_links_undeclared_follows_the_cuda():
    result = made({"gb01": node("12.8"), "gb02": node("13.0")})
    named = {environment["tag"]: " ".join(environment["requirements"]) for environment in result["environments"]}
    assert "nvidia-npp-cu12" in named["cu128"]
    assert "nvidia-npp>=13" in named["cu130"]
    assert "npp" not in str(made({"gb01": node()}, stack="2026.11")["environments"][0]["requirements"])


def test_pypi_is_a_source_only_where_its_wheels_are_of_the_same_cuda():
    result = made({"gb01": node("12.8"), "gb02": node("13.0")})
    kinds = {entry["tag"]: [source["kind"] for source in entry["sources"]] for entry in result["environments"]}
    assert kinds == {"cu128": ["upstream"], "cu130": ["upstream", "pypi"]}


def test_a_mirror_comes_first_under_the_upstreams_own_path():
    result = made({"gb01": node()}, mirror="http://mirror:8000/")
    assert result["environments"][0]["sources"][0] == {
        "kind": "mirror",
        "index_url": "http://mirror:8000/download.pytorch.org/whl/cu130",
    }


def test_another_torch_gives_up_the_stacks_own_lock():
    own = made({"gb01": node()})["environments"][0]
    other = made({"gb01": node()}, torch={"torch": "2.12.1", "torchvision": "0.27.1", "torchcodec": "0.16.0"})
    assert own["sources"][-1]["lock"]
    assert own["constraints"]
    assert "lock" not in other["environments"][0]["sources"][-1]
    assert other["environments"][0]["constraints"] == ""


def test_the_staged_python_is_named_as_uv_names_it():
    python = made({"gb01": node()})["python"]
    assert python == {
        "staged": True,
        "version": "3.12",
        "link": "python/cpython-3.12.12-linux-aarch64-gnu",
        "path": "/work/u/.local/python/cpython-3.12.12-linux-aarch64-gnu/bin/python3.12",
    }


def test_without_cpython_the_nodes_own_is_used_and_said():
    result = made({"gb01": node()}, cpython=UNREACHED)
    assert (result["python"]["staged"], result["python"]["path"]) == (False, "/usr/bin/python3.13")
    assert "3.12.12" in result["warnings"][0]
    assert "no route" in result["warnings"][0]
    assert "/usr/bin/python3.13" in result["warnings"][0]


def test_without_cpython_nodes_must_agree_on_their_own():
    other = {"executable": "/usr/bin/python3", "version": {"major": 3, "minor": 11}}
    with pytest.raises(ArmstageError, match=r"gb01 has /usr/bin/python3\.13, gb02 has /usr/bin/python3\.11") as error:
        made({"gb01": node(), "gb02": node(python=other)}, cpython=UNREACHED)
    assert "armstage_mirror" in error.value.hint


@pytest.mark.parametrize(
    ("facts", "torch", "words"),
    [
        (node("12.8"), {"torch": "2.12.1", "torchvision": "0.27.1", "torchcodec": "0.16.0"}, ["2.11.0", "580"]),
        (node("13.0", status="driver-library-mismatch"), {}, ["Reboot"]),
        (node(None, status="no-driver"), {}, ["armstage_cuda_version"]),
    ],
)
def test_a_node_that_can_not_be_served_is_named_with_the_way_out(facts, torch, words):
    with pytest.raises(ArmstageError, match="gb01: ") as error:
        made({"gb01": facts}, torch=torch)
    assert all(word in error.value.hint for word in words)


@pytest.mark.parametrize(
    ("torch", "pair"),
    [
        (
            {"torchcodec": "0.11.1", "torch": "2.14.1", "torchvision": "0.29.1"},
            ["torchcodec `0.11.1`", "torch `2.14.1`"],
        ),
        ({"torchvision": "0.27.1"}, ["torchvision `0.27.1`", "torch `2.11.0`"]),
    ],
)
def test_parts_that_do_not_belong_together_are_named(torch, pair):
    with pytest.raises(ArmstageError) as error:
        made({"gb01": node()}, torch=torch)
    assert all(word in error.value.message for word in pair)


def test_a_forced_index_is_used_and_said():
    result = made({"gb01": node("13.3")}, index="cu128")
    assert result["nodes"]["gb01"]["tag"] == "cu128"
    assert any("forced" in warning for warning in result["warnings"])


def test_what_did_not_answer_is_passed_on():
    probed = {"https://a": {"reachable": False, "reason": "refused"}, "https://b": {"reachable": True, "reason": ""}}
    assert made({"gb01": node()}, probed=probed)["unreachable"] == {"https://a": "refused"}


def test_a_broken_node_does_not_hold_the_others_up():
    mismatch = node(
        "13.0",
        status="driver-library-mismatch",
        message="The loaded kernel module is 570.172.08, the libraries are 580.95.05",
        hint="Reboot, or reload the module",
        python={"executable": "/usr/bin/python3", "version": {"major": 3, "minor": 9}},
    )
    result = made({"gb01": mismatch, "gb02": node("12.8")}, cpython=UNREACHED)
    assert set(result["nodes"]) == set(result["seen"]) == {"gb02"}
    assert [environment["tag"] for environment in result["environments"]] == ["cu128"]
    for words in ("gb01", "570.172.08", "580.95.05", "Reboot"):
        assert words in f"{result['left_out']}"
        assert words in result["warnings"][0]
    with pytest.raises(ArmstageError, match=r"gb01: .*570\.172\.08.*580\.95\.05"):
        made({"gb01": mismatch})


def test_every_node_that_can_not_be_served_is_named_once():
    wedged = {"status": "wedged", "message": "The driver did not answer within 30 s", "hint": "Reboot the node"}
    with pytest.raises(ArmstageError) as error:
        made({"gb01": node("12.1"), "gb02": node("12.1"), "gb03": node("13.0"), "gb04": node("12.2")})
    first, second = error.value.message.splitlines()
    assert first.startswith("gb01, gb02: ")
    assert "12.1" in first
    assert second.startswith("gb04: ")
    assert "12.2" in second
    with pytest.raises(ArmstageError) as error:
        made({"gb01": node(status="driver-not-loaded"), "gb02": node(**wedged)})
    assert [line[:6] for line in error.value.message.splitlines()] == ["gb01: ", "gb02: "]
    assert "Load the nvidia module" in error.value.hint
    assert "Reboot the node" in error.value.hint


def test_what_was_seen_of_a_node_is_put_on_record():
    result = made({"gb01": node("13.0", kernel_driver="580.95.05"), "gb02": node("12.8", kernel_driver=None)})
    assert result["seen"] == {
        "gb01": {"driver": "580.95.05", "cuda": "13.0", "index": "cu130"},
        "gb02": {"driver": "", "cuda": "12.8", "index": "cu128"},
    }


@pytest.mark.parametrize(
    ("staged", "cuda", "tag", "instead_of"),
    [
        (["cu128", "cu130"], "13.3", "cu130", None),
        (["cu126", "cu128"], "13.3", "cu128", "cu130"),
        (["cu128", "cu132"], "13.0", "cu128", "cu130"),
        (["cu132"], "13.0", "cu130", None),
        (["cu-mine", "cpu"], "13.0", "cu130", None),
        ([], "13.0", "cu130", None),
        (["cu128"], None, "cu130", None),
    ],
)
def test_a_node_runs_the_newest_environment_that_is_linked(staged, cuda, tag, instead_of):
    found = staged_index({"tag": "cu130", "reason": "newest"}, cuda, staged)
    assert (found["tag"], found.get("instead_of")) == (tag, instead_of)


def test_a_forced_environment_is_not_replaced():
    assert staged_index({"tag": "cu130", "forced": True}, "13.0", ["cu128"])["tag"] == "cu130"
