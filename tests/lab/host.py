"""What kind of machine this is: the facts that the lab's decisions rest on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

CAP_SYS_RESOURCE = 24  # include/uapi/linux/capability.h


@dataclass(frozen=True)
class Host:
    """`distribution`, `version`, `codename` and `like` are those of os-release; `version` is () where it has none."""

    distribution: str = ""
    version: tuple[int, ...] = ()
    codename: str = ""
    like: tuple[str, ...] = ()
    machine: str = "x86_64"
    root: bool = True
    systemd: bool = True
    unified_cgroups: bool = True
    raises_limits: bool = True
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def emulates(self) -> bool:
        """Whether arm64 programs need an emulator here."""
        return self.machine not in ("aarch64", "arm64")

    @property
    def uses_apt(self) -> bool:
        return self.distribution in ("debian", "ubuntu") or bool({"debian", "ubuntu"} & set(self.like))


def parse_os_release(text: str) -> dict[str, str]:
    """os-release(5): `KEY=value` lines, the value perhaps in quotes."""
    values = {}
    for line in text.splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith("#"):
            values[key] = value.strip().strip("\"'")
    return values


def parse_version(text: str) -> tuple[int, ...]:
    """`24.04` -> (24, 4); anything else than numbers and dots -> ()."""
    parts = text.split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


def can_raise_limits(status: str) -> bool:
    """Whether /proc/PID/status shows CAP_SYS_RESOURCE in the effective set."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> CAP_SYS_RESOURCE & 1)
    return False


def parse_hard_limits(text: str) -> dict[str, int]:
    """`nofile` and `nproc` as the hard limits of /proc/PID/limits; no entry for one that is unlimited."""
    names = {"Max open files": "nofile", "Max processes": "nproc"}
    limits = {}
    for line in text.splitlines():
        for title, name in names.items():
            fields = line.removeprefix(title).split()
            if line.startswith(title) and fields[1].isdigit():
                limits[name] = int(fields[1])
    return limits


def read_host() -> Host:
    """This machine."""
    release = {}
    for path in (Path("/etc/os-release"), Path("/usr/lib/os-release")):
        if path.exists():
            release = parse_os_release(path.read_text())
            break
    return Host(
        distribution=release.get("ID", ""),
        version=parse_version(release.get("VERSION_ID", "")),
        codename=release.get("VERSION_CODENAME", ""),
        like=tuple(release.get("ID_LIKE", "").split()),
        machine=platform.machine(),
        root=os.geteuid() == 0,
        systemd=Path("/run/systemd/system").is_dir(),
        unified_cgroups=Path("/sys/fs/cgroup/cgroup.controllers").exists(),
        raises_limits=can_raise_limits(Path("/proc/self/status").read_text()),
        limits=parse_hard_limits(Path("/proc/self/limits").read_text()),
    )


def cache_folder() -> Path:
    """`$ARMSTAGE_CACHE`, else armstage's folder under the user's cache folder (XDG Base Directory)."""
    named = os.environ.get("ARMSTAGE_CACHE")
    if named:
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "armstage"
