"""Nodes of the lab for tests that run aarch64 programs, and a toolchain staged once for all of them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import archives, inventory, nodes, podman, prerequisites
from lab.host import cache_folder, read_host

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def shared():
    """A folder with the same path here and in `node`, on the filesystem of the caches: wheels are linked there."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="tests-", dir=cache_folder()))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def node(shared):
    """The name of a node without network; gone at the end."""
    prerequisites.install(read_host())
    name = f"armstage-test-{os.getpid()}"
    nodes.up(nodes.Node(name, shared=[str(shared)]))
    yield name
    nodes.down(name)


@pytest.fixture(scope="session")
def mirror_folder(tmp_path_factory):
    """A mirror's folder and the archives in it, by component."""
    folder = tmp_path_factory.mktemp("mirror")
    return folder, {archive.component: archive for archive in archives.lay_out(folder, read_host())}


@pytest.fixture
def clip():
    """The project's clip and, beside it, the values to expect."""
    return PROJECT / "roles/job_env/files/clip.mp4"


@dataclass(frozen=True)
class Played:
    """A run of a playbook: its exit status, its output, and the recap as host -> {ok, changed, failed, ...}."""

    status: int
    text: str

    @property
    def recap(self):
        rows = re.findall(r"^(\S+) +: (ok=\d+ .*)$", self.text, re.MULTILINE)
        return {host: {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", row)} for host, row in rows}

    @property
    def changed(self):
        """What every host changed, in all."""
        return sum(row["changed"] for row in self.recap.values())

    @property
    def changed_tasks(self):
        return re.findall(r"^TASK \[(.*)\] \**\n(?:.*\n)*?changed: ", self.text, re.MULTILINE)


@pytest.fixture(scope="session")
def play(shared, node):
    """Run a playbook of the project with this machine as stager and `node` as node: play("stage", root, *options)."""

    def run(playbook, root, *options, prefix=(), **variables):
        hosts = shared / f"inventory-{playbook}.yml"
        inventory.write(hosts, str(root), [node], **variables)
        command = [*prefix, "ansible-playbook", "-i", str(hosts), str(PROJECT / f"playbooks/{playbook}.yml"), *options]
        environment = {
            **os.environ,
            **podman.environment(),
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "COLUMNS": "200",
        }
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return Played(done.returncode, done.stdout)

    return run


@pytest.fixture(scope="session")
def staged(shared, play):
    """A root that the main job staged with nothing but defaults: (root, the run that made it)."""
    root = shared / "work" / ".local"
    played = play("stage", root)
    assert played.status == 0, played.text
    return root, played


@pytest.fixture
def copy_of_staged(staged):
    """A root to break. Its files are links to the staged ones: what is changed must be replaced, never rewritten."""
    root, _played = staged
    copy = root.parent / f"copy-{os.urandom(4).hex()}"
    subprocess.run(["cp", "-al", root, copy], check=True)
    env_sh = (copy / "env.sh").read_text()
    (copy / "env.sh").unlink()
    (copy / "env.sh").write_text(env_sh.replace(str(root), str(copy)))
    yield copy
    shutil.rmtree(copy)
