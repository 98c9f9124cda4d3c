"""The module on a root of its own, with a folder of wheels and one uv cache for all tests."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import python_env

from .wheels import tool, torch


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """A folder of wheels: torch for CUDA 13.0, which needs tool."""
    folder = tmp_path_factory.mktemp("wheels")
    torch(folder)
    tool(folder)
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A uv cache for all of them."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def uv():
    return shutil.which("uv") or str(Path(sys.executable).with_name("uv"))


@pytest.fixture
def root(tmp_path):
    return tmp_path / "a root"


@pytest.fixture(autouse=True)
def no_retries(monkeypatch):
    """uv asks an address that is down once; and this host's own settings don't matter."""
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")


@pytest.fixture
def options(root, cache, wheels, uv):
    """Options that stage torch from the folder of wheels."""
    return {
        "dest": str(root),
        "tag": "cu130",
        "requirements": ["torch==2.11.0"],
        "python": "/usr/bin/python3.13",
        "mirror": str(wheels),
        "cache_dir": str(cache),
        "uv": uv,
    }


@pytest.fixture
def options_of_this_host():
    """Options with this host's Python in place of the target's, so that what was staged can be run."""
    return {
        "python": os.path.realpath(sys.executable),
        "python_version": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "requirements": ["tool"],
        "python_platform": "x86_64-manylinux_2_28",
    }


@pytest.fixture
def run(run_module, options):
    """Run the module with `options`, changed by those that are given; one that is None is left out."""

    def call(check=False, diff=False, **changed):
        given = {name: value for name, value in {**options, **changed}.items() if value is not None}
        return run_module(python_env, check=check, diff=diff, **given)

    return call
