"""Modules and module_utils import in tests under the names they have on a node."""

import json
import sys
from pathlib import Path

import ansible.module_utils
import ansible.module_utils._internal
import hypothesis
import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
OF_EVERY_MODULE = {"changed", "diff", "exception", "failed", "msg", "warnings"}

# The same examples every time, and no time limit for one: machines that run this are slow and shared.
hypothesis.settings.register_profile("armstage", derandomize=True, deadline=None)
hypothesis.settings.load_profile("armstage")

sys.path.insert(0, str(ROOT / "library"))
ansible.module_utils.__path__.append(str(ROOT / "module_utils"))


@pytest.fixture
def fixtures():
    """The folder of recorded inputs."""
    return FIXTURES


@pytest.fixture
def run_module(capfd, monkeypatch):
    """Run a module's ``main()`` with arguments: its JSON result, as Ansible would read it.

    ``run_module(module, check=True, diff=True, option=value)``; the result holds ``failed`` when
    the exit status is not 0. What it returns must be documented.
    """

    # Tests of plugins make this process a control node, where a module's warnings would not be in its result.
    monkeypatch.setattr(ansible.module_utils._internal, "is_controller", False, raising=False)

    def call(module, check=False, diff=False, **arguments):
        arguments.update(_ansible_check_mode=check, _ansible_diff=diff)
        capfd.readouterr()
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            module.main()
        result = json.loads(capfd.readouterr().out)
        result.pop("invocation", None)  # of ansible-core up to 2.20
        assert bool(ended.value.code) == bool(result.get("failed"))
        assert set(result) <= OF_EVERY_MODULE | set(yaml.safe_load(module.RETURN))
        return result

    return call
