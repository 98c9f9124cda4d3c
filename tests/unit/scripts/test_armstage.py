"""`./armstage` itself: the environment in which the verbs run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif(not shutil.which("locale"), reason="needs locale(1)")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"LANG": "C"},
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LC_ALL": "xx_XX.UTF-8"},
        {"LANG": "de_DE.ISO-8859-1"},
        {"LC_ALL": "C.UTF-8"},
    ],
)
def test_the_locale_is_one_that_is_there_and_utf_8(given):
    """An ssh session brings its own along, and Ansible does not start in one that is not there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    done = subprocess.run(
        [ROOT / "armstage", "exec", "locale", "charmap"],
        env={**environment, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "UTF-8"


def told(*arguments):
    """Exit status, and all that was printed."""
    done = subprocess.run([ROOT / "armstage", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("stge", "stage"),
        ("roll-back", "rollback"),
        ("drop_cache", "drop-cache"),
        ("prefligth", "preflight"),
        ("tset", "test"),
        ("*", None),
        ("", None),
        ("--check", None),
    ],
)
def test_a_wrong_verb_is_answered_with_the_nearest(word, meant):
    asked = f"; did you mean `{meant}`?" if meant else ""
    assert told(word) == (3, f"armstage: there is no verb `{word}`, see ./armstage help{asked}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["exec"], "exec: expected a command"),
        (["exec", "no-such-command"], "exec: there is no command `no-such-command`"),
        (["stage", "-i", "inventory/spak"], "There is no inventory `inventory/spak`"),
        (["verify", "--fleet", "-i", "inventory/spak"], "There is no inventory `inventory/spak`"),
        (["preflight", "-iinventory/spak"], "There is no inventory `inventory/spak`"),
        (["rollback", "--to", "previous", "-i", "inventory/spak"], "There is no inventory `inventory/spak`"),
        (["drop-cache", "--inventory=inventory/spak"], "There is no inventory `inventory/spak`"),
        (["project", "fix", ".", "--lock", "own", "-i", "inventory/spak"], "There is no inventory `inventory/spak`"),
    ],
)
def test_what_can_not_be_run_is_said_in_a_line_and_a_hint_at_most(arguments, words):
    status, text = told(*arguments)
    assert status == 3
    assert text.startswith(f"armstage: {words}")
    assert len(text.splitlines()) <= 2


@pytest.mark.parametrize(
    ("verb", "wrong", "message"),
    [
        ("rollback", "", "the following arguments are required: --to"),
        ("drop-cache", "--run", "argument --run: expected one argument"),
        ("verify --fleet", "--timeout soon", "argument --timeout: invalid int value: 'soon'"),
        ("project", "", "the following arguments are required: audit|fix"),
        ("project audit", ". --rulez", "unrecognized arguments: --rulez"),
        ("project fix", ".", "the following arguments are required: --lock"),
        ("indexes", "--what", "unrecognized arguments: --what"),
        ("lock", "3", "unrecognized arguments: 3"),
        ("bench", "nothing", "there is no benchmark `nothing`, there are cuda_facts, "),
        ("test", "units", "there is no suite `units`, there are lint, unit, "),
    ],
)
def test_a_command_line_that_is_not_understood_is_answered_alike_by_every_verb(verb, wrong, message):
    status, text = told(*verb.split(), *wrong.split())
    first, hint = text.splitlines()
    assert status == 3
    assert first.startswith(f"armstage: {message}")
    assert hint == f"hint: ./armstage {verb} --help"
    assert told(*verb.split(), "--help")[0] == 0
