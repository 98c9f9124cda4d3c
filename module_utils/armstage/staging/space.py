"""Room on a filesystem, asked for before it is needed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ..errors import ArmstageError

FULL = (errno.ENOSPC, errno.EDQUOT)

MARGIN = 64 * 1024 * 1024
"""Bytes left free beside what was asked for: a filesystem filled to the last block fails elsewhere."""


def require_space(folder: Path, size: int, purpose: str) -> None:
    """Raise ArmstageError unless ``size`` more bytes fit into this folder's filesystem.

    A quota shows only when it is hit: `full` words that case alike.
    """
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if size + MARGIN > free:
        needed = f"{human(size)} needed and " if size else ""
        raise ArmstageError(
            f"Not enough space in `{folder}` {purpose}: {needed}{human(MARGIN)} to spare, {human(free)} free",
            hint=f"Make room there (df -h {folder}), or choose another root",
        )


def full(error: OSError, folder: Path, purpose: str) -> ArmstageError | None:
    """The error to raise when ``error`` is a full disk or quota, else None."""
    if error.errno not in FULL:
        return None
    limit = "disk quota" if error.errno == errno.EDQUOT else "disk"
    return ArmstageError(
        f"The {limit} was full in `{folder}` {purpose}",
        hint="Make room there (df -h, df -i, quota -s), then run again: nothing half-done was published",
    )


def human(size: float) -> str:
    """Bytes as people write them: `4.6 GB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
