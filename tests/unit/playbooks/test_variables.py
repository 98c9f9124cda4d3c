"""What an operator gives and does not exist is refused by each playbook before anything else happens."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
SPECIFICATION = yaml.safe_load((ROOT / "roles/armstage/meta/argument_specs.yml").read_text())
OPTIONS = SPECIFICATION["argument_specs"]["main"]["options"]
HERE = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
CHECK = {"import_playbook": str(ROOT / "playbooks/check_inventory.yml"), "vars": {"needed_groups": ["nodes"]}}


@pytest.fixture
def play(tmp_path):
    """Run a playbook, or plays, on gb01 and gb02, which are this host: exit status, and all that was printed."""

    def run(playbook, *options, **variables):
        hosts = {"gb01": HERE, "gb02": HERE}
        inventory = {"stagers": {"hosts": {"localhost": HERE}}, "nodes": {"hosts": hosts}}
        (tmp_path / "hosts.json").write_text(json.dumps(inventory))
        if isinstance(playbook, list):
            (tmp_path / "play.yml").write_text(json.dumps(playbook))
            playbook = tmp_path / "play.yml"
        program = Path(sys.executable).with_name("ansible-playbook")
        given = ["-e", json.dumps(variables)] if variables else []
        command = [program, playbook, "-i", tmp_path / "hosts.json", *given, *options]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("name", ["preflight", "project", "rollback", "slurm_batches", "stage", "verify"])
def test_no_playbook_begins_with_an_unknown_variable(play, name):
    status, said = play(ROOT / f"playbooks/{name}.yml", "--check", armstage_torchh="2.11")
    assert status == 2, said
    assert (
        "There is no variable `armstage_torchh`\nhint: Give `armstage_torch_also` or `armstage_torch_version`" in said
    )
    assert said.count("\nTASK [") == 1


@pytest.mark.parametrize("place", ["group_vars/all", "group_vars/nodes", "host_vars/gb02", "extra"])
@pytest.mark.parametrize("limit", [(), ("--limit", "gb02")], ids=["all", "limited"])
def test_it_is_found_wherever_it_is_given(play, tmp_path, place, limit):
    """A limit that leaves out localhost leaves out the plays for it."""
    file = tmp_path / f"{place}.yml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("armstage_mirorr: https://mirror.example.org\n")
    options = ["-e", f"@{file}"] if place == "extra" else []
    status, said = play([CHECK], *limit, *options)
    assert status == 2, said
    assert "There is no variable `armstage_mirorr`\nhint: Give `armstage_mirror` instead" in said


def test_what_a_run_settles_itself_can_t_be_given(play):
    status, said = play(ROOT / "playbooks/stage.yml", armstage_stack="2026.11", armstage_seen_by="localhost")
    assert status == 2, said
    assert "`armstage_seen_by` is settled by the run and can't be given\n`armstage_stack` is settled" in said
    assert "hint: Give `armstage_stager`. Give `armstage_stack_name`, or one component's version" in said


def test_every_variable_that_there_is_may_be_given(play):
    status, said = play([CHECK], **dict.fromkeys(OPTIONS, "x"))
    assert status == 0, said


def test_what_the_roles_set_is_no_mistake_in_a_second_playbook(play):
    """playbooks/stage.yml ends with playbooks/verify.yml, which checks again."""
    role = {"include_role": {"name": "armstage", "tasks_from": "load"}}
    settle = {"hosts": "nodes", "gather_facts": False, "tasks": [role, {"set_fact": {"armstage_plan": {}}}]}
    status, said = play([CHECK, settle, CHECK])
    assert status == 0, said
    assert said.count("TASK [armstage : Load the stack") == 1


def test_every_host_keeps_facts_of_its_own(play):
    """With ansible-core 2.21 a fact set once for all hosts, as their first, makes them share what modules find."""
    read = {"cuda_facts": {"driver_version": "{{ {'gb01': '570.172.08', 'gb02': '580.95.05'}[inventory_hostname] }}"}}
    show = {"debug": {"msg": "{{ inventory_hostname }} has {{ ansible_facts.cuda.kernel_driver }}"}}
    status, said = play([CHECK, {"hosts": "nodes", "gather_facts": False, "tasks": [read, show]}])
    assert status == 0, said
    assert "gb01 has 570.172.08" in said
    assert "gb02 has 580.95.05" in said


@pytest.mark.parametrize("limit", [(), ("--limit", "gb02")], ids=["all", "limited"])
def test_it_is_remembered_without_a_localhost_in_the_run(play, limit):
    settle = {"hosts": "nodes", "gather_facts": False, "tasks": [{"set_fact": {"armstage_plan": {}}}]}
    status, said = play([CHECK, settle, CHECK], *limit)
    assert status == 0, said
