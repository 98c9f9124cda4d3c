"""The role `armstage` as Ansible runs it: what it refuses, and hosts that are two things at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def play(tmp_path):
    """Run tasks on this host: the exit status, and what Ansible printed as one line."""

    def run(*tasks, **variables):
        path = tmp_path / "play.yml"
        path.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": list(tasks)}]))
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [program, path, "-i", ROOT / "inventory/localhost", "-e", json.dumps(variables)]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


def role(tasks_from, **more):
    return {"include_role": {"name": "armstage", "tasks_from": tasks_from}, **more}


def test_a_root_that_is_no_full_path_is_refused(play):
    given = ["~/x", "", " /x", "work/x", "$HOME/x", 5, ["/x"], None]
    roots = [role("root", vars={"armstage_root": each}) for each in given]
    _status, said = play(*({"block": [each], "rescue": [{"meta": "noop"}]} for each in roots))
    assert said.count("fatal: ") == len(given)
    for each in given:
        assert f"Expected a full path in `armstage_root`, but received: `{'' if each is None else each}`" in said
    assert "hint: Write it out" in said


def test_a_root_in_which_a_variable_was_empty_is_refused(play):
    """`/work/{{ USER }}/.local` without a USER would be everybody's."""
    status, said = play(role("root", vars={"armstage_root": "/work//.local"}))
    assert status != 0
    assert "`/work//.local` has nothing between two slashes" in said


def test_a_root_that_path_can_t_hold_is_refused(play):
    status, said = play(role("root", vars={"armstage_root": "/srv/a:b"}))
    assert status != 0
    assert "Expected a path without colons in `armstage_root`, but received: `/srv/a:b`" in said


def test_a_root_that_is_a_full_path(play):
    given = ["/x", "/srv/with space/d\u00e9p\u00f4t"]
    status, said = play(*(role("root", vars={"armstage_root": each}) for each in given))
    assert status == 0, said


def test_a_stager_that_is_a_node_itself_is_looked_at_though_nodes_are_assumed(play):
    known = {"debug": {"msg": "{{ ansible_facts['user_dir'] }} {{ ansible_facts['cuda'].cuda_version }}"}}
    status, said = play(role("load"), role("detect"), known, armstage_assume_nodes=True, armstage_cuda_version="13.0")
    assert status == 0, said
    assert f"{Path.home()} 13.0" in said
