"""One Slurm cluster for the whole suite."""

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "module_utils")]

from lab.host import read_host  # noqa: E402
from lab.slurm import cluster as lab  # noqa: E402


@pytest.fixture(scope="session")
def cluster():
    """Two aarch64 nodes that run, one that never registered."""
    host = read_host()
    if reason := lab.unsuitable(host):
        pytest.skip(reason)
    with lab.running(host) as running:
        running.install_project()
        yield running


@pytest.fixture
def run_inventory(cluster):
    """run_inventory(option=value): what ansible-inventory lists, as the unprivileged user."""

    def call(**options):
        config = cluster.home / "listed.slurm.yml"
        config.write_text(json.dumps({"plugin": "slurm", **options}))
        listed = cluster.home / "listed.json"
        program = cluster.program("ansible-inventory")
        cluster.call(program, "-i", str(config), "--list", "--output", str(listed), user=True)
        return json.loads(listed.read_text())

    return call


@dataclass(frozen=True)
class Played:
    """A run of ansible-playbook: exit status, output, and what it asked of the controller."""

    status: int
    text: str
    requests: Counter

    @property
    def steps(self):
        return self.requests["REQUEST_JOB_STEP_CREATE"]


class Player:
    """Plays on the lab's nodes, as the unprivileged user on the login node, who has conda and a virtualenv active."""

    LEAKS = {
        "CONDA_PREFIX": "/login/conda",
        "VIRTUAL_ENV": "/login/venv",
        "PYTHONPATH": "/login/python",
        "LD_LIBRARY_PATH": "/login/lib",
        "SLURM_NTASKS": "7",
        "SRUN_CPUS_PER_TASK": "3",
    }

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder

    def start(self, tasks, hosts=("gb01",), **variables):
        """The running process of a play; nothing waits for it."""
        self.folder.mkdir(exist_ok=True)
        # Without a look for interpreters: this is about the connection.
        connection = {"ansible_connection": "srun", "ansible_python_interpreter": "/usr/bin/python3"}
        inventory = {"all": {"hosts": dict.fromkeys(hosts), "vars": {**connection, **variables}}}
        (self.folder / "hosts.json").write_text(json.dumps(inventory))
        play = [{"hosts": "all", "gather_facts": False, "tasks": tasks}]
        (self.folder / "play.yml").write_text(json.dumps(play))
        self.before = self.cluster.requests()
        program = self.cluster.program("ansible-playbook")
        return subprocess.Popen(
            self.cluster.as_user(program, "-i", str(self.folder / "hosts.json"), str(self.folder / "play.yml")),
            env=self.cluster.environment(COLUMNS="1000", **self.LEAKS),
            cwd=self.cluster.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def finish(self, process, timeout=120):
        text, _ = process.communicate(timeout=timeout)
        return Played(process.returncode, text, self.cluster.requests() - self.before)

    def __call__(self, tasks, hosts=("gb01",), **variables):
        return self.finish(self.start(tasks, hosts, **variables))


@pytest.fixture
def play(cluster):
    """play(tasks, hosts, variable=value)."""
    player = Player(cluster, cluster.home / "play")
    yield player
    assert wait_until(lambda: not cluster.jobs(), 15), cluster.call("squeue")


def wait_until(is_so, seconds=20):
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
