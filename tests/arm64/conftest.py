"""Nodes of the lab for tests that run aarch64 programs."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import archives, nodes, prerequisites
from lab.host import read_host

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder that has the same path here and in `node`."""
    return tmp_path_factory.mktemp("work")


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
