"""Names of processes, and who holds `/dev/nvidia*` where neither NVML nor nvidia-smi says it.

Both are read from /proc and call no driver, so they work on a host whose driver hangs.
"""

from __future__ import annotations

import os

from ..errors import ArmstageError
from ..files import read_text
from ..memory.holders import gpu_holders
from .reading import PROCESS_FIELDS, Reading, record


def holders(root: str = "/") -> Reading:
    """The processes with an open `/dev/nvidia*`; the line says what could not be seen."""
    seen = gpu_holders(root)
    found = [record(PROCESS_FIELDS, pid=holder.pid, name=holder.name) for holder in seen.found]
    line = f"{len(found)} processes hold /dev/nvidia*"
    return Reading(found, "/proc/*/fd", "; ".join(filter(None, [line, seen.blind_spot])))


def name_of(root: str, pid: int) -> str | None:
    """The kernel's name of a process (at most 15 characters), or None when it has ended."""
    try:
        return (read_text(os.path.join(root, "proc", str(pid), "comm")) or "").strip() or None
    except ArmstageError:
        return None
