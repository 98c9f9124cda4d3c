"""podman, with settings of the lab's own that fit this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from armstage.errors import ArmstageError
from armstage.files import write_atomic
from armstage.run import Completed, run

from . import emulation
from .command import output_of
from .host import Host, cache_folder, read_host

LABEL = "armstage.lab"
MOST_OPEN_FILES = 20000
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def settings(host: Host, has_runc: bool, variables: Mapping[str, str]) -> str:
    """containers.conf(5) for this machine: nothing but what it needs to differ from podman's own defaults.

    A machine whose cgroups are not all version 2, or where root may not raise limits, cannot use crun: it fails in
    setrlimit. One without systemd has neither its journal nor its cgroup manager.
    """
    engine, containers = [], []
    if has_runc and not (host.unified_cgroups and host.raises_limits):
        engine.append('runtime = "runc"')
    if not host.systemd:
        engine += ['cgroup_manager = "cgroupfs"', 'events_logger = "file"']
    if not host.raises_limits:
        limits = {name: min(host.limits.get(name, MOST_OPEN_FILES), MOST_OPEN_FILES) for name in ("nofile", "nproc")}
        values = ", ".join(f'"{name}={value}:{value}"' for name, value in limits.items())
        containers.append(f"default_ulimits = [{values}]")
    if variables:
        # A containers.conf that sets `env` replaces podman's own PATH.
        values = ", ".join(f'"{name}={value}"' for name, value in {**variables, "PATH": PATH}.items())
        containers.append(f"env = [{values}]")
    sections = {"engine": engine, "containers": containers, "network": ['network_backend = "netavark"']}
    return "".join(f"[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections.items() if lines)


@cache
def environment() -> dict[str, str]:
    """The variables that podman, and ansible-playbook for its podman connection, need besides the caller's own."""
    host = read_host()
    path = cache_folder() / "containers.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = settings(host, shutil.which("runc") is not None, emulation.environment(host))
    if not path.exists() or path.read_text() != text:
        write_atomic(path, text)
    return {"CONTAINERS_CONF": str(path)}


def attempt(*arguments: str, timeout: float = 120) -> Completed:
    return run(["podman", *arguments], timeout=timeout, env={**os.environ, **environment()})


def succeeds(*arguments: str) -> bool:
    return attempt(*arguments).ok


def call(*arguments: str, timeout: float = 300) -> str:
    """podman's standard output; an error where it fails."""
    return output_of(["podman", *arguments], timeout=timeout, env={**os.environ, **environment()})


def lines(*arguments: str) -> list[str]:
    return call(*arguments).split()


def require() -> Path:
    found = shutil.which("podman")
    if not found:
        raise ArmstageError("Expected `podman`, but it is not installed", hint="Run: python tests/lab/lab.py prepare")
    return Path(found)
