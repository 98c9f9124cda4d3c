"""Nodes and torches of a public report, and what is chosen for them."""

from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage import torch_index
from ansible.module_utils.armstage.compatibility import Compatibility
from ansible.module_utils.armstage.errors import ArmstageError

VARS = Path(__file__).resolve().parents[3] / "vars"
DATA = yaml.safe_load((VARS / "compatibility.yml").read_text())["armstage_compatibility"]
KNOWN = Compatibility(DATA)

GH200, GB200, GB300, GB10, THOR = ["9.0"], ["10.0"] * 4, ["10.3"] * 4, ["12.1"], ["11.0"]
MAY = {"torch": "2.11.0", "torchvision": "0.26.0", "torchcodec": "0.11.1"}
NOVEMBER = {"torch": "2.14.1", "torchvision": "0.29.1", "torchcodec": "0.17.0"}


def facts(cuda, capabilities=(), **changes):
    gpus = [{"index": index, "compute_capability": capability} for index, capability in enumerate(capabilities)]
    return {"status": "ok", "arch": "aarch64", "cuda_version": cuda, "gpus": gpus, **changes}


def choose(cuda, capabilities=(), **wanted):
    return torch_index.choose(facts(cuda, capabilities), DATA, **wanted)


def refusal(given, **wanted):
    with pytest.raises(ArmstageError) as caught:
        torch_index.choose(given, DATA, **wanted)
    assert caught.value.hint
    return caught.value
