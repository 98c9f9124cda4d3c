"""The filters of the plan: what can't be chosen comes as a text for the task that refuses, with its hint."""

import runpy
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
FILTERS = runpy.run_path(str(ROOT / "filter_plugins/stage_plan.py"))["FilterModule"]().filters()
COMPATIBILITY = yaml.safe_load((ROOT / "vars/compatibility.yml").read_text())["armstage_compatibility"]
FACTS = {"status": "ok", "arch": "aarch64", "cuda_version": "12.8", "gpus": [{"compute_capability": "10.0"}]}
MISMATCH = {
    **FACTS,
    "status": "driver-library-mismatch",
    "message": "The loaded kernel module is 570.172.08, the libraries are 580.95.05",
    "hint": "Reboot, or reload the module",
}


def test_an_index_is_chosen_for_a_node():
    assert FILTERS["chosen_index"](FACTS, COMPATIBILITY, torch="2.11.0")["tag"] == "cu128"


def test_a_node_without_one_gets_the_reason_and_the_hint():
    refusal = FILTERS["chosen_index"](MISMATCH, COMPATIBILITY, torch="2.11.0")["refusal"]
    message, _line, hint = refusal.partition("\n")
    assert MISMATCH["message"] in message
    assert hint == "hint: Reboot, or reload the module"


def test_the_environment_that_is_linked_is_taken():
    choice = FILTERS["chosen_index"]({**FACTS, "cuda_version": "13.3"}, COMPATIBILITY, torch="2.11.0")
    assert FILTERS["staged_index"](choice, "13.3", ["cu128"])["tag"] == "cu128"
