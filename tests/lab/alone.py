"""What the processes of a lab share (packages, the image, the kernel's emulator) is made by one at a time."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator

from .host import cache_folder


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process is in here. Not to be entered twice by one process: it would wait for itself."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with open(cache_folder() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
