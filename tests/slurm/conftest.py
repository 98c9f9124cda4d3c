"""One Slurm cluster for the whole suite."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "module_utils")]

from lab.host import read_host  # noqa: E402
from lab.slurm import cluster as lab  # noqa: E402

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def cluster():
    """Two aarch64 nodes that run, one that never registered."""
    host = read_host()
    if reason := lab.unsuitable(host):
        pytest.skip(reason)
    with lab.running(host) as running:
        yield running


@pytest.fixture
def run_inventory(cluster):
    """run_inventory(option=value): what ansible-inventory lists, as the unprivileged user."""

    def call(**options):
        config = cluster.home / "listed.slurm.yml"
        config.write_text(json.dumps({"plugin": "slurm", **options}))
        program = str(Path(sys.executable).with_name("ansible-inventory"))
        environment = cluster.environment(ANSIBLE_CONFIG=str(PROJECT / "ansible.cfg"))
        done = subprocess.run(
            cluster.as_user(program, "-i", str(config), "--list"), env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call
