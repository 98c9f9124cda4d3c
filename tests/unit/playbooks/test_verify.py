"""playbooks/verify.yml on an environment planted for aarch64, whose Python is a stand-in that runs here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from elf.planted import Root

ROOT = Path(__file__).resolve().parents[3]
PROOF = {
    **{"torch": "2.11.0+cu130", "torch_cuda": "13.0", "torchcodec": "0.11.1", "ffmpeg_major": 7, "frames": 60},
    **{"shape": [3, 180, 320], "gpu": None, "wrong": [], "ok": True},
}
HERE = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}


@pytest.fixture
def verify(tmp_path):
    """Run it for one node that is taken for a GB200 node: exit status, and all that was printed."""

    def run(*options):
        known = {
            "armstage_root": str(tmp_path / "root"),
            "armstage_cuda_version": "13.0",
            "armstage_assume_nodes": True,
        }
        stagers, nodes = {"hosts": {"localhost": HERE}}, {"hosts": {"gb01": {**HERE, **known}}}
        (tmp_path / "hosts.json").write_text(json.dumps({"stagers": stagers, "nodes": nodes}))
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [program, ROOT / "playbooks/verify.yml", "-i", tmp_path / "hosts.json", *options]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": "C.UTF-8"}
        with open(tmp_path / "printed", "w") as printed:
            status = subprocess.run(command, env=environment, stdout=printed, stderr=printed, check=False).returncode
        return status, (tmp_path / "printed").read_text()

    return run


@pytest.fixture
def root(tmp_path):
    """A root whose proof succeeds where what is to come has been printed before it begins."""
    planted = Root(tmp_path / "root")
    planted.ffmpeg(7, "ffmpeg-linuxarm64")
    (planted.base / "envs").mkdir()
    (planted.base / "envs/cu130").symlink_to(f"../store/{planted.env.name}")
    program = planted.base / "stand-in/python"
    program.parent.mkdir()
    said = f"grep -q 'Begin the proof: .*torch is imported' '{tmp_path}/printed'"
    program.write_text(f"#!/bin/sh\n{said} && echo '{json.dumps(PROOF)}'\n")
    program.chmod(0o755)
    (planted.base / "env.sh").write_text(f"PATH='{program.parent}':$PATH\n")
    return planted.base


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("options", [(), ("--check",)])
def test_before_the_proof_begins_it_is_said_what_is_waited_for(verify, options):
    status, printed = verify(*options)
    assert status == 0, printed
    assert "gb01: torch 2.11.0+cu130 (CUDA 13.0) and torchcodec 0.11.1 with FFmpeg 7 decoded 60 frames" in printed


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_a_root_without_the_environment_is_no_success(verify, tmp_path, options):
    status, printed = verify(*options)
    assert status == 2, printed
    assert f"`{tmp_path}/root/envs/cu130` is not staged, and `gb01` needs it" in printed
    assert "Begin the proof" not in printed
