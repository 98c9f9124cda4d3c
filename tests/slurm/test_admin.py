"""What an admin runs: batches that drain and resume, and the prolog."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab.slurm.cluster import PROJECT


@pytest.fixture
def batches(cluster):
    """batches(tasks of the change, ...): run playbooks/slurm_batches.yml over both nodes, one at a time."""

    def call(*tasks):
        change = cluster.folder / "change.yml"
        change.write_text(json.dumps(list(tasks)))
        hosts = cluster.folder / "admin.json"
        # There is no ssh in the lab, and a drained node takes no job: the change itself runs here.
        hosts.write_text(
            json.dumps({"nodes": {"hosts": dict.fromkeys(cluster.nodes), "vars": {"ansible_connection": "local"}}})
        )
        variables = {
            "slurm_batch": 1,
            "slurm_verify": False,
            "slurm_change": str(change),
            "slurm_drain_reason": "driver 590",
            "slurm_drain_wait": 20,
            "ansible_python_interpreter": sys.executable,
        }
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        playbook = str(PROJECT / "playbooks/slurm_batches.yml")
        done = subprocess.run(
            [program, "-i", str(hosts), playbook, "-e", json.dumps(variables)],
            env={
                **cluster.environment(HOME=str(Path.home())),
                "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
                "COLUMNS": "300",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    yield call
    for node in cluster.nodes:
        if "DRAIN" in cluster.state(node):
            cluster.call("scontrol", "update", f"NodeName={node}", "State=RESUME")


def drained(cluster):
    return [node for node in cluster.nodes if "DRAIN" in cluster.state(node)]


SHOW = {"command": "sinfo -h -o '%n %T %E' -N", "register": "seen"}
TELL = {"debug": {"var": "seen.stdout_lines"}}


def test_one_batch_is_drained_at_a_time_and_resumed_afterwards(cluster, batches):
    status, text = batches(SHOW, TELL)
    assert status == 0, text
    for node, other in (("gb01", "gb02"), ("gb02", "gb01")):
        assert f'"{node} drained armstage: driver 590' in text
        # The reason of a node that was resumed is gone in 22.05, and stays in 24.11.
        assert re.search(rf'"{other} idle\*? (none|armstage: driver 590)"', text)
    assert drained(cluster) == []


def test_a_node_that_another_drained_stays_theirs(cluster, batches):
    cluster.call("scontrol", "update", "NodeName=gb02", "State=DRAIN", "Reason=xid 79")
    status, text = batches(SHOW, TELL)
    assert status == 0, text
    assert re.search(r"gb02 drained\*? xid 79", text)
    assert drained(cluster) == ["gb02"]


def test_a_batch_that_fails_stays_drained_and_stops_the_rest(cluster, batches):
    status, text = batches({"command": "false"})
    assert status != 0, text
    assert drained(cluster) == ["gb01"]


def test_a_change_waits_for_the_jobs_of_the_node(cluster, batches):
    job = cluster.call("sbatch", "--parsable", "-w", "gb01", "--wrap", "sleep 4", user=True).strip()
    time.sleep(1)
    status, text = batches({"command": f"squeue -h -j {job} -o %T", "register": "seen", "failed_when": False}, TELL)
    assert status == 0, text
    assert "RUNNING" not in text


# --- the prolog, which needs no Slurm


@pytest.fixture(scope="module", params=[True, False], ids=["drains", "only tells"])
def prolog(request, tmp_path_factory):
    """The prolog as the role writes it: (whether it drains, run); run(its shell text) -> (status, seconds)."""
    folder = tmp_path_factory.mktemp("prolog")
    path, root = folder / "prolog.sh", folder / "root"
    (root / "bin").mkdir(parents=True)
    settings = {
        "slurm_prolog_path": str(path),
        "armstage_root": str(root),
        "slurm_prolog_timeout": 1,
        "slurm_prolog_drains": request.param,
    }
    program = str(Path(sys.executable).with_name("ansible"))
    role = ["-m", "include_role", "-a", "name=slurm_prolog", "-e", json.dumps(settings)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")}
    subprocess.run([program, "localhost", "-c", "local", *role], env=environment, check=True, capture_output=True)
    assert "scontrol" not in path.read_text()

    def run(script):
        preflight = root / "bin/armstage-preflight"
        preflight.unlink(missing_ok=True)
        if script is not None:
            preflight.write_text(f"#!/bin/sh\n{script}\n")
            preflight.chmod(0o755)
        started = time.monotonic()
        status = subprocess.run([str(path)], check=False, env={"PATH": os.environ["PATH"]}).returncode
        return status, time.monotonic() - started

    return request.param, run


@pytest.mark.parametrize(
    ("script", "blocked"),
    [("exit 0", 0), ("exit 1", 0), ("exit 2", 1), ('[ "$*" = "--only A1,A2" ] || exit 2', 0), (None, 0)],
)
def test_the_prolog_drains_only_where_it_is_told_to(prolog, script, blocked):
    drains, run = prolog
    assert run(script)[0] == (blocked if drains else 0)


def test_a_preflight_that_hangs_holds_no_job(prolog):
    _drains, run = prolog
    status, seconds = run("trap '' TERM; sleep 60 & wait; sleep 60")
    assert status == 0
    assert seconds < 8
