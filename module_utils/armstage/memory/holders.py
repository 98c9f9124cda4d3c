"""Processes that hold the GPU: found by the device files they have open, never by their names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..errors import ArmstageError
from ..files import read_text

DAEMONS = ("nvidia-persistenced", "nvidia-smi", "nv-hostengine", "nv-fabricmanager", "nvidia-imex", "dcgm-exporter")
"""Services that keep a device open all day without running anything on it."""

MODESET = "/dev/nvidia-modeset"
COMM_LENGTH = 15
"""The kernel cuts a process's name here (TASK_COMM_LEN - 1): `VLLM::EngineCor`."""


@dataclass(frozen=True)
class Holder:
    """A process with /dev/nvidia* open. ``devices`` are sorted and each named once."""

    pid: int
    name: str
    uid: int
    devices: tuple[str, ...]

    @property
    def busy(self) -> bool:
        """Whether it may be computing: CUDA opens nvidia-uvm, a display nvidia-modeset, a daemon neither."""
        if any(device.startswith("/dev/nvidia-uvm") for device in self.devices):
            return True
        return not self._daemon and MODESET not in self.devices

    @property
    def display(self) -> bool:
        """Whether it draws on a screen."""
        return not self._daemon and MODESET in self.devices

    @property
    def _daemon(self) -> bool:
        return self.name in {name[:COMM_LENGTH] for name in DAEMONS}

    def as_dict(self) -> dict[str, object]:
        return {"pid": self.pid, "name": self.name, "uid": self.uid, "devices": list(self.devices), "busy": self.busy}


@dataclass(frozen=True)
class Holders:
    """``unseen`` counts processes of other users that could not be looked at.

    ``hidden`` says that /proc shows this user no process but its own (hidepid), so that there
    may be more than were counted.
    """

    found: tuple[Holder, ...] = ()
    unseen: int = 0
    hidden: bool = False

    @property
    def busy(self) -> tuple[Holder, ...]:
        return tuple(holder for holder in self.found if holder.busy)

    @property
    def blind_spot(self) -> str:
        """What could not be seen, as a sentence without a full stop, or empty."""
        if self.hidden:
            return "Other users' processes are hidden (`hidepid`), so whether one holds the GPU is unknown"
        if self.unseen:
            count = f"{self.unseen} process{'es' if self.unseen > 1 else ''} of other users"
            return f"{count} could not be looked at: whether the GPU is held there is unknown"
        return ""


def names(holders: Iterable[Holder]) -> str:
    """``VLLM::EngineCor (pid 4242), python3 (pid 17)``."""
    return ", ".join(f"`{holder.name}` (pid {holder.pid})" for holder in holders)


def gpu_holders(root: str = "/") -> Holders:
    """Every process below ``root``/proc that has an NVIDIA device open, and who could not be seen."""
    found: list[Holder] = []
    unseen = 0
    for pid, folder in processes(root):
        try:
            devices = _devices(f"{folder}/fd")
        except PermissionError:
            unseen += _is_program(folder)
            continue
        except OSError:
            continue  # it ended while being looked at
        if devices:
            found.append(Holder(pid, _name(folder), _uid(folder), devices))
    return Holders(tuple(found), unseen, os.geteuid() != 0 and _hides_processes(root))


def processes(root: str = "/") -> Iterator[tuple[int, str]]:
    """``(pid, folder)`` of every process but this one, by number."""
    proc = os.path.join(root, "proc")
    try:
        entries = os.listdir(proc)
    except OSError:
        return
    for pid in sorted(int(entry) for entry in entries if entry.isdigit()):
        if pid != os.getpid() or os.path.realpath(proc) != "/proc":
            yield pid, f"{proc}/{pid}"


def _devices(folder: str) -> tuple[str, ...]:
    targets = set()
    for entry in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{entry}")
        except FileNotFoundError:
            continue
        if target.startswith("/dev/nvidia"):
            targets.add(target)
    return tuple(sorted(targets))


def _name(folder: str) -> str:
    return (_readable(f"{folder}/comm") or "?").strip()


def _uid(folder: str) -> int:
    try:
        return os.stat(folder).st_uid
    except OSError:
        return -1


def _is_program(folder: str) -> bool:
    """False for kernel threads, which have no command line, and for what has ended."""
    return bool(_readable(f"{folder}/cmdline"))


def _hides_processes(root: str) -> bool:
    mounts = _readable(os.path.join(root, "proc/self/mounts")) or ""
    return bool(re.search(r"^\S+ /proc proc \S*\bhidepid=(?!0|off)", mounts, re.MULTILINE))


def _readable(path: str) -> str | None:
    try:
        return read_text(path)
    except ArmstageError:
        return None
