"""Nodes that do not answer, as a new user's inventory has them: what is said, and how often."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HERE = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
AWAY = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
UNKNOWN = {"ansible_connection": "ssh", "ansible_host": "gb02.invalid"}
OF_AWAY = "hint: See that `ssh 127.0.0.1` works from here, or correct the address in the inventory"
OF_UNKNOWN = "hint: Correct the name `gb02.invalid` in the inventory, or give an IP address there (ansible_host)"


pytestmark = pytest.mark.skipif(not shutil.which("ssh"), reason="needs OpenSSH's client")


@pytest.fixture
def play(tmp_path):
    """Run a playbook on stagers and nodes: exit status, and what was printed."""

    def run(playbook, stagers, nodes, *options):
        hosts = tmp_path / "hosts.json"
        hosts.write_text(json.dumps({"stagers": {"hosts": stagers}, "nodes": {"hosts": nodes}}))
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [program, ROOT / f"playbooks/{playbook}.yml", "-i", hosts, "--check", *options]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_stager_whose_nodes_are_all_away_names_them(play):
    status, said = play("stage", {"localhost": HERE}, {"gb01": AWAY, "gb02": UNKNOWN})
    assert status != 0
    assert "No node answered of those that see what `localhost` stages: gb01, gb02\nhint: What stopped each" in said
    assert "Put the nodes into group" not in said
    assert [said.count(f"\n{line}\n") for line in (OF_AWAY, OF_UNKNOWN)] == [1, 1]


def test_a_host_that_stages_for_itself_and_is_away_gets_one_hint(play):
    """As the boxes of inventory/spark, before their names are put in."""
    status, said = play("stage", {"gb02": {}}, {"gb02": UNKNOWN})
    assert status == 4
    assert said.count("hint: ") == 1
    assert f"\n{OF_UNKNOWN}\n" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--limit", "login2"],
            "`--limit login2` leaves out every node that sees what `login2` stages\nhint: Name one",
        ),
        ([], "No node sees what `login2` stages\nhint: Put the nodes into group `nodes`, with armstage_stager=login2"),
    ],
    ids=["limited", "not limited"],
)
def test_a_stager_without_nodes_is_told_why(play, options, message):
    """The first stager, which every node without one of its own belongs to, ends at its root."""
    stagers = {"login1": {**HERE, "armstage_root": "no full path"}, "login2": HERE}
    assumed = ["-e", "armstage_assume_nodes=true", "-e", "armstage_cuda_version=13.0"]
    status, said = play("stage", stagers, {"gb01": HERE}, *assumed, *options)
    assert status == 2, said
    assert message in said
    assert "No node answered" not in said


def test_a_preflight_reports_the_node_that_is_away_beside_the_other(play, tmp_path):
    """With the default root, which lies in a home folder that an unreachable node does not tell."""
    report = ["-e", f"preflight_report={tmp_path}/report", "-e", '{"preflight_checks": ["A1"]}']
    _status, said = play("preflight", {"gb01": HERE}, {"gb01": HERE, "gb02": UNKNOWN}, *report)
    assert "gb02: no answer\n" in said
    assert "\nA1 " in said
    assert "user_dir" not in said
    assert said.count(f"\n{OF_UNKNOWN}\n") == 1
    hosts = json.loads((tmp_path / "report/report.json").read_text())["hosts"]
    assert [host["name"] for host in hosts] == ["gb01", "gb02"]


def test_a_verify_needs_no_stager_in_the_inventory(play, tmp_path):
    """Nodes alone are enough where somebody else stages."""
    known = {"armstage_assume_nodes": True, "armstage_cuda_version": "13.0", "armstage_root": str(tmp_path / "root")}
    status, said = play("verify", {}, {"gb01": {**HERE, **known}})
    assert status == 2, said
    assert "has no attribute" not in said
    assert f"`{tmp_path}/root/envs/cu130` is not staged, and `gb01` needs it" in said
