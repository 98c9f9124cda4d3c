"""A small text file that says how far a long step is: `done total label`, for whoever watches."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from .fetch import Progress

INTERVAL = 1.0
"""Seconds between two writes."""


class Reporter:
    """Rewrites the file at ``path`` in one step; without a path it does nothing.

    Progress is a courtesy: a file that can't be written stops no staging.
    """

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._due = 0.0

    def step(self, label: str) -> Progress:
        """What a step calls with the bytes done and, where known, the bytes there will be."""
        self._due = 0.0

        def report(done: int, total: int | None) -> None:
            if self._path and time.monotonic() >= self._due:
                self._due = time.monotonic() + INTERVAL
                self._write(f"{done} {'-' if total is None else total} {label}\n")

        report(0, None)
        return report

    def say(self, text: str) -> None:
        """A step that counts nothing: waiting."""
        self.step(text)

    def close(self) -> None:
        if self._path:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _write(self, text: str) -> None:
        beside = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(beside, self._path)


@contextlib.contextmanager
def reporter(path: str) -> Iterator[Reporter]:
    """A Reporter whose file is gone afterwards."""
    report = Reporter(path)
    try:
        yield report
    finally:
        report.close()
