"""Releases that a process of this host still works with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .record import Release


def not_open(store: Path, releases: list[Release]) -> list[Release]:
    """Those of the releases that no process of this host has open; looks only when there are any."""
    in_use = open_folders(store) if releases else set()
    return [release for release in releases if os.path.basename(str(release.path)) not in in_use]


def open_folders(store: Path) -> set[str]:
    """Names of the store's folders from which a process of this host runs, works or has a file open.

    Another user's processes are seen by root only; other hosts' not at all.
    """
    prefix, found = os.path.realpath(store) + os.sep, set()
    processes = os.listdir("/proc") if os.path.isdir("/proc") else []
    for process in filter(str.isdigit, processes):
        for path in _process_paths(f"/proc/{process}"):
            if path.startswith(prefix):
                found.add(path[len(prefix) :].partition(os.sep)[0])
    return found


def _process_paths(process: str) -> Iterator[str]:
    links = [f"{process}/exe", f"{process}/cwd"]
    with contextlib.suppress(OSError):
        links += [f"{process}/fd/{number}" for number in os.listdir(f"{process}/fd")]
    for link in links:
        with contextlib.suppress(OSError):
            yield os.readlink(link)
    with contextlib.suppress(OSError), open(f"{process}/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            _numbers, slash, path = line.partition("/")
            if slash:
                yield slash + path.rstrip("\n")
