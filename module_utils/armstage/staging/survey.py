"""Whether a release is still what was published: everything in its folder, without opening a file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .record import RECORD, Release

NOT_CONTENT = ("__pycache__", RECORD)
"""Names that say nothing about whether a release is intact: Python writes bytecode where it runs."""


@dataclass(frozen=True)
class Survey:
    """What a folder holds: bytes and number of its files, and one digest over its listing."""

    size: int
    files: int
    tree: str


def survey(folder: str | Path) -> Survey:
    """Walk a folder without opening a file: type, size, executable bit and link target of each entry.

    Enough to notice whatever is missing, cut short or replaced, at the price of one lstat each.
    """
    size, lines = 0, []
    for path, entry in _walk(os.fspath(folder), ""):
        if entry.is_symlink():
            lines.append(f"{path}\0-> {os.readlink(entry.path)}")
            continue
        status = entry.stat(follow_symlinks=False)
        size += status.st_size
        lines.append(f"{path}\0{status.st_size} {'x' if status.st_mode & stat.S_IXUSR else '-'}")
    listing = "\n".join(sorted(lines)).encode("utf-8", "surrogateescape")
    return Survey(size, len(lines), hashlib.sha256(listing).hexdigest())


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in NOT_CONTENT or entry.name.startswith(".nfs"):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name, entry


def what_is_wrong(release: Release) -> str:
    """Why a published release is not what was published, or an empty string when it is."""
    assert release.path is not None
    found = survey(release.path)
    if found.tree == release.tree:
        return ""
    return (
        f"`{release.path}` held {release.files} files with {release.size} bytes when it was published, "
        f"and holds {found.files} with {found.size} now"
        + ("" if (found.files, found.size) != (release.files, release.size) else ": names, links or modes differ")
    )
