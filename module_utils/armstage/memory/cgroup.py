"""What the cgroup of a process lets it use: the limit of a Slurm job, a container or a systemd unit.

Documentation/admin-guide/cgroup-v2.rst (memory.max, memory.high) and cgroup-v1/memory.rst (memory.limit_in_bytes).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import ArmstageError
from ..files import read_text

FOLDER = "sys/fs/cgroup"
V2_NAMES = ("memory.max", "memory.high")
UNLIMITED = 1 << 60
"""From here on a v1 limit is none: without one it shows the largest number of pages there can be."""


@dataclass(frozen=True)
class Limit:
    """The lowest limit above a process: ``size`` in bytes, and the file that says it.

    One of memory.high is ``soft``: above it a program is slowed down, not ended.
    """

    size: int
    file: str

    @property
    def soft(self) -> bool:
        return self.file.endswith("/memory.high")


def memory_limit(root: str = "/") -> Limit | None:
    """The limit that holds for this process (below another ``root``: for the one recorded there), or None."""
    limits = [limit for file in _files(root) if (limit := _read(root, file)) is not None]
    return min(limits, key=lambda limit: limit.size, default=None)


def _files(root: str) -> Iterator[str]:
    """The files that may hold a limit, the process's own cgroup first. In a container the path that /proc
    shows may be the host's, and only the top is there."""
    for line in (_text(os.path.join(root, "proc/self/cgroup"))).splitlines():
        match = re.fullmatch(r"\d+:([^:]*):(/.*)", line)
        if match is None or (match[1] and "memory" not in match[1].split(",")):
            continue
        folder, names = (f"{FOLDER}/memory", ("memory.limit_in_bytes",)) if match[1] else (FOLDER, V2_NAMES)
        parts = [part for part in match[2].split("/") if part not in ("", "..")]
        for length in range(len(parts), -1, -1):
            yield from ("/".join([folder, *parts[:length], name]) for name in names)


def _read(root: str, file: str) -> Limit | None:
    text = _text(os.path.join(root, file)).strip()
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or int(text) >= UNLIMITED:
        return None  # "max", or no such file
    return Limit(int(text), f"/{file}")


def _text(path: str) -> str:
    try:
        return read_text(path) or ""
    except ArmstageError:
        return ""
