"""What `./armstage project fix` says at its end."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location(
    "project_filters", Path(__file__).resolve().parents[3] / "filter_plugins" / "project.py"
)
FILTERS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(FILTERS)

WANTED = {
    "versions": {"torch": "2.11.0"},
    "tag": "cu130",
    "index": {},
    "reason": "PyPI was asked for",
    "widened": {"torch": "==2.10.0"},
    "locked": {"torch": "2.10.0"},
}
RELOCKED = {
    "changed": True,
    "changes": {"aarch64": ["torch 2.10.0 -> 2.11.0"], "x86_64": []},
    "kept": {"aarch64": 30, "x86_64": 31},
}
MADE = {"changed": True, "environment": "/work/demo/.venv-aarch64", "commands": ["uv run --no-sync python train.py"]}
SKIPPED = {"changed": False, "skipped": True}


def test_a_lock_that_was_made_says_what_holds_and_how_to_run_it():
    assert FILTERS.project_summary(WANTED, "own", RELOCKED, MADE) == [
        "On aarch64: torch 2.11.0 (cu130) from PyPI: PyPI was asked for",
        "torch==2.10.0 now holds for the others only: no build for the nodes meets it",
        "uv.lock, aarch64: torch 2.10.0 -> 2.11.0; 30 stay as they are",
        "uv.lock, x86_64: all 31 stay as they are",
        "On a node, after sourcing env.sh:",
        "  uv run --no-sync python train.py",
    ]


def test_a_check_says_what_would_be_and_no_command_for_what_is_not_there():
    said = FILTERS.project_summary(WANTED, "own", RELOCKED, MADE, check=True)
    assert said[1] == "torch==2.10.0 would hold for the others only: no build for the nodes meets it"
    assert said[4:] == [
        "/work/demo/.venv-aarch64 would be made. Nothing was changed. Next: the same without --check",
    ]
    assert FILTERS.project_summary(WANTED, "own", RELOCKED, SKIPPED, check=True)[4:] == [
        "Nothing was changed. Next: the same without --check"
    ]


@pytest.mark.parametrize("lock", ["own", "shared"])
def test_a_check_of_what_is_done_already_says_what_a_run_says(lock):
    done = {**RELOCKED, "changed": False, "changes": {"aarch64": [], "x86_64": []}}
    made = {**MADE, "changed": False}
    relocked = done if lock == "own" else SKIPPED
    without_check = FILTERS.project_summary(WANTED, lock, relocked, made)
    assert FILTERS.project_summary(WANTED, lock, relocked, made, check=True) == without_check
    assert without_check[-2:] == ["On a node, after sourcing env.sh:", "  uv run --no-sync python train.py"]


def test_the_first_lock_has_nothing_that_stays():
    first = {**RELOCKED, "changes": {"aarch64": []}, "kept": {"aarch64": 0}}
    assert "uv.lock, aarch64: locked for the first time" in FILTERS.project_summary(WANTED, "own", first, SKIPPED)
