"""`./armstage stage|verify`: what is translated before ansible-playbook sees it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("scripts_playbook", ROOT / "scripts/playbook.py")
SCRIPT = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(SCRIPT)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gb[01-03,07]", "gb01,gb02,gb03,gb07"),
        ("r[1-2]n[08-09]", "r1n08,r1n09,r2n08,r2n09"),
        ("login1,gb[1-2]:!gb[2,3]", "login1,gb1,gb2,!gb2,!gb3"),
        ("nodes[0]", "nodes[0]"),
        ("nodes[0:2]", "nodes[0:2]"),
        ("~gb[0-9]+", "~gb[0-9]+"),
        ("all:!gb01", "all:!gb01"),
    ],
)
def test_a_limit_may_hold_hostlists(pattern, names):
    assert SCRIPT.translate(["--limit", pattern, "-v"]) == ["--limit", names, "-v"]
    assert SCRIPT.translate([f"--limit={pattern}"]) == [f"--limit={names}"]


def test_everything_else_is_ansibles():
    words = ["-i", "inventory/slurm", "-e", "x=gb[01-02]", "--check", "-vv"]
    assert SCRIPT.translate(words) == words


def test_no_allocation_asks_no_node():
    assert SCRIPT.translate(["--no-allocation"]) == [
        "-e",
        "armstage_assume_nodes=true",
        "--skip-tags",
        "armstage_prove",
    ]


def test_a_wrong_hostlist_is_an_error_without_a_traceback():
    command = [sys.executable, str(ROOT / "scripts/playbook.py"), "stage", "--limit", "gb[04-01]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "runs backwards" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("verb", "role"), [("stage", "armstage"), ("verify", "armstage"), ("preflight", "preflight")])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_the_verbs_own(verb, role, option):
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/playbook.py", verb, "-i", "nowhere", option], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: ./armstage {verb} [-i INVENTORY]")
    options = yaml.safe_load((ROOT / f"roles/{role}/meta/argument_specs.yml").read_text())["argument_specs"]["main"]
    for name in options["options"]:
        assert f"\n  {name} " in done.stdout


def test_defaults_are_given_where_they_say_something():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/playbook.py", "preflight", "--help"], capture_output=True, text=True
    )
    words = " ".join(done.stdout.split())
    assert "or that gave no answer. Default: true." in words
    assert "that each check may take. Default: 30." in words
    assert "{{" not in words
    assert "Default: ." not in words
