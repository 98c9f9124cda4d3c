"""Releases to stage, and the module on a root of its own."""

import pytest
import staged_release
from ansible.module_utils.armstage.staging import transport

from .looking import sha


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF", 0.0)


@pytest.fixture
def program(tar, elf):
    """An archive of a release: ``program("1.0")``."""

    def make(version="1.0", machine="aarch64"):
        return tar(
            {
                "uv-dist/uv": elf(machine, version.encode()),
                "uv-dist/lib/libx.so.1": elf(machine),
                "uv-dist/README": b"x",
            }
        )

    return make


@pytest.fixture
def source(server):
    """Serve an archive; the source that names it."""

    def make(content, path="/uv.tar.gz", **options):
        return {"url": server.put(path, content), "sha256": sha(content), "strip_components": 1, **options}

    return make


@pytest.fixture
def root(tmp_path):
    return tmp_path / "work" / "root"


@pytest.fixture
def stage(run_module, root):
    def call(*sources, check=False, **options):
        given = {
            "name": "uv",
            "version": "1.0",
            "dest": str(root),
            "link": "bin/uv-aarch64",
            "link_target": "uv",
            **options,
        }
        return run_module(staged_release, check=check, diff=True, sources=list(sources), **given)

    return call


@pytest.fixture
def staged(stage, source, program, root):
    given = source(program())
    stage(given)
    return given, root / "store" / f"uv-1.0-{given['sha256'][:12]}"
