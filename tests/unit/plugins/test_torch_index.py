"""The filter as a playbook uses it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FACTS = {"status": "ok", "arch": "aarch64", "cuda_version": "12.8", "gpus": [{"compute_capability": "10.0"}]}


@pytest.fixture
def templated(tmp_path):
    """The value of an expression over `facts`, `armstage_compatibility` and `armstage_stack`, by ansible itself."""

    def call(expression):
        playbook = [
            {
                "hosts": "localhost",
                "gather_facts": False,
                "vars": {"facts": FACTS},
                "vars_files": [str(ROOT / "vars/compatibility.yml"), str(ROOT / "vars/stacks/2026.05.yml")],
                "tasks": [{"name": "Say", "ansible.builtin.debug": {"msg": "{{ " + expression + " }}"}}],
            }
        ]
        path = tmp_path / "play.yml"
        path.write_text(json.dumps(playbook))
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(path)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    return call


def test_a_choice_and_the_checks_of_a_stack_reach_a_playbook(templated):
    run = templated(
        "[facts | torch_index(torch='2.11.0', torchvision='0.26.0', torchcodec='0.11.1',"
        " compatibility=armstage_compatibility),"
        " armstage_stack | stack_problems(armstage_compatibility),"
        " armstage_stack.torch | torch_requirements(armstage_compatibility, 'cu128')]"
    )
    assert run.returncode == 0, run.stdout + run.stderr
    answer = json.loads(run.stdout[run.stdout.index("=> ") + 3 : run.stdout.rindex("}") + 1])["msg"]
    choice, problems, requirements = answer
    assert choice["tag"] == "cu128"
    assert [rejected["tag"] for rejected in choice["rejected"]] == ["cu132", "cu130", "cu129"]
    assert problems == []
    assert "nvidia-npp-cu12==12.4.1.87" in requirements


def test_a_refusal_is_an_error_of_the_filter_with_the_hint_on_its_own_line(templated):
    run = templated("facts | torch_index(torch='2.12.0', compatibility=armstage_compatibility)")
    assert run.returncode != 0
    text = run.stdout + run.stderr
    assert "No PyTorch wheel index serves torch 2.12.0" in text
    assert "hint: Stage torch 2.11.0 from cu128" in text
    assert "Traceback" not in text
