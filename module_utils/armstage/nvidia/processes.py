"""Who holds `/dev/nvidia*`, read from /proc: the answer where neither NVML nor nvidia-smi has one.

Reading a link in /proc calls no driver, so this works on a host whose driver hangs.
"""

from __future__ import annotations

import os
from typing import Any

from ..errors import ArmstageError
from ..files import read_text
from .reading import PROCESS_FIELDS, Reading, record

DEVICE = "/dev/nvidia"


def holders(root: str = "/") -> Reading:
    """The processes with an open `/dev/nvidia*`; the line says how many could not be looked into."""
    proc = os.path.join(root, "proc")
    found: list[dict[str, Any]] = []
    hidden = 0
    try:
        pids = sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    except OSError:
        pids = []
    for pid in pids:
        try:
            devices = _devices(os.path.join(proc, str(pid), "fd"))
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue  # it has ended
        if devices:
            found.append(record(PROCESS_FIELDS, pid=pid, name=name_of(root, pid)))
    line = f"{len(found)} of {len(pids)} processes hold {DEVICE}*"
    if hidden:
        line += f"; {hidden} could not be looked into (this needs root)"
    return Reading(found, "/proc/*/fd", line)


def name_of(root: str, pid: int) -> str | None:
    """The kernel's name of a process (at most 15 characters), or None when it has ended."""
    try:
        return (read_text(os.path.join(root, "proc", str(pid), "comm")) or "").strip() or None
    except ArmstageError:
        return None


def _devices(folder: str) -> list[str]:
    targets = (_target(entry.path) for entry in os.scandir(folder))
    return [target for target in targets if target.startswith(DEVICE)]


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""  # closed meanwhile
