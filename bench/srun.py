"""A play of 12 tasks on one Slurm node: one step for all, a step a task, and the same tasks without Slurm in between.

Seconds, and what was asked of the controller that all users share. On the Slurm lab of the tests: root and Debian only.
`local` runs the same modules with the node's own Python, emulated as there: what Ansible itself costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "module_utils")]

from lab import emulation  # noqa: E402
from lab.host import read_host  # noqa: E402
from lab.slurm import cluster as lab  # noqa: E402

TASKS = [{"raw": f"echo {number}"} for number in range(10)] + [{"command": "uname -m"}, {"stat": {"path": "/"}}]
WAYS = {
    "one step for the play": {"srun_persist": 60},
    "a step a task": {"srun_persist": False},
    "local, without Slurm": {"ansible_connection": "local"},
}
STEP = "REQUEST_JOB_STEP_CREATE"


def play(cluster, job, variables):
    """(seconds, requests by name) of the twelve tasks."""
    connection = {"ansible_connection": "srun", "ansible_python_interpreter": "/usr/bin/python3", "srun_job_id": job}
    local = "ansible_connection" in variables
    if local:
        variables = {**variables, "ansible_python_interpreter": str(node_python(cluster))}
    hosts = cluster.home / "bench.json"
    hosts.write_text(json.dumps({"all": {"hosts": {"gb01": None}, "vars": {**connection, **variables}}}))
    playbook = cluster.home / "bench.yml"
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": TASKS}]))
    command = [cluster.program("ansible-playbook"), "-i", str(hosts), str(playbook)]
    before, started = cluster.requests(), time.perf_counter()
    # The node's files lie in root's cache: without Slurm it is root who reads them.
    account = {"HOME": str(Path.home())} if local else {}
    subprocess.run(
        command if local else cluster.as_user(*command),
        env=cluster.environment(**account),
        cwd=cluster.home,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started, cluster.requests() - before


def node_python(cluster):
    """A program that runs the node's Python on this machine, with the node's libraries."""
    path = cluster.folder / "node-python"
    settings = " ".join(f"{key}={value}" for key, value in emulation.environment(cluster.host).items())
    path.write_text(
        f'#!/bin/sh\nexec env {settings} QEMU_LD_PREFIX={cluster.root} {cluster.root}/usr/bin/python3 "$@"\n'
    )
    path.chmod(0o755)
    return path


def main():
    host = read_host()
    if reason := lab.unsuitable(host):
        print(f"skipped: {reason}")
        return
    with lab.running(host, nodes=("gb01",), absent=()) as cluster:
        cluster.install_project()
        submitted = cluster.call("sbatch", "--parsable", "--wrap", "sleep 600", user=True).strip()
        while "RUNNING" not in cluster.call("squeue", "-h", "-o", "%T", "-j", submitted):
            time.sleep(0.2)
        measured = {way: play(cluster, submitted, variables) for way, variables in WAYS.items()}
    print(f"{len(TASKS)} tasks on one node{'':12} seconds  steps  requests to the controller")
    for way, (seconds, requests) in measured.items():
        print(f"{way:32} {seconds:7.1f} {requests[STEP]:6} {requests.total():6}")


if __name__ == "__main__":
    main()
