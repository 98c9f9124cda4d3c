"""Recorded hosts and planted environments."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from elf.planted import Root

from .hosts import Host


class Environment(Root):
    """A staged root with an environment that has all of torch's family, and a record beside it."""

    def __init__(self, base, **options):
        super().__init__(base, **options)
        self.package("torchvision", "0.26.0", "0.26.0+cu130", ["torch==2.11.0"])
        self.ffmpeg(7, "ffmpeg-linuxarm64")
        self.record()

    def package(self, name, version, own_version=None, requires=()):
        """Install a distribution, or another version of it."""
        for old in self.site.glob(f"{name.replace('-', '_')}-*.dist-info"):
            (old / "METADATA").unlink()
            old.rmdir()
        self.distribution(name, version)
        metadata = self.site / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        lines = "".join(f"Requires-Dist: {each}\n" for each in requires)
        metadata.write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}\nProse: Requires-Dist: torch==1\n"
        )
        if own_version:
            (self.site / name).mkdir(exist_ok=True)
            (self.site / name / "version.py").write_text(f"__version__ = '{own_version}'\n")

    def record(self):
        """Write down what is installed as what was staged."""
        folders = [path.name.removesuffix(".dist-info") for path in self.site.glob("*.dist-info")]
        installed = {name.replace("_", "-"): version for name, _, version in (each.rpartition("-") for each in folders)}
        builds = dict.fromkeys(("torch", "torchvision", "torchcodec"), "cu130")
        content = {
            "schema": 1,
            "name": "env-cu130",
            "version": "2.11.0",
            "digest": "0123456789ab",
            "source": {"kind": "pypi"},
            "created": "2026-11-30T12:00:00Z",
            "extra": {"installed": installed, "builds": builds},
        }
        (self.env / ".armstage.json").write_text(json.dumps(content))


@pytest.fixture
def host(tmp_path):
    """An aarch64 host without a GPU."""
    return Host(tmp_path)


@pytest.fixture
def spark(tmp_path):
    return Host(tmp_path).spark()


@pytest.fixture
def staged(tmp_path):
    """A staged root whose environment is as it should be."""
    return Environment(tmp_path / "staged")


@pytest.fixture
def look_into(host, staged):
    """Run one check on the host, with the staged environment."""

    def call(number, environ=None, **options):
        return host.look(number, environ, **{"env": str(staged.env), "staged": str(staged.base), **options})

    return call
