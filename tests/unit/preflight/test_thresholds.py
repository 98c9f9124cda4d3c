"""What the nodes judge by is what vars/compatibility.yml says."""

from pathlib import Path

import yaml
from ansible.module_utils.armstage.preflight.thresholds import THRESHOLDS, WHEEL_ARCHITECTURES

DATA = yaml.safe_load((Path(__file__).resolve().parents[3] / "vars/compatibility.yml").read_text())[
    "armstage_compatibility"
]


def test_thresholds():
    assert DATA["preflight"] == THRESHOLDS


def test_architectures_of_the_wheels():
    held = {tag: {key: index[key] for key in ("architectures", "ptx")} for tag, index in DATA["indexes"].items()}
    assert held == WHEEL_ARCHITECTURES
