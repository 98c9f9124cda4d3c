"""Evict named files from the page cache: posix_fadvise(POSIX_FADV_DONTNEED), no root needed.

Success is measured, not assumed: pages of the file in memory before and after. What DONTNEED
leaves alone is named with its reason: pages that are mapped or not yet written. Files whose only
copy is memory (tmpfs) are not even tried.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import ArmstageError
from ..files import read_text
from .residency import mapped_by, may_measure, resident_bytes

LEFT = 0.05
"""Share of a file's pages that may stay before it is reported."""

LISTED = 20
"""Files named in a result, the largest first."""

ONLY_IN_MEMORY = ("tmpfs", "ramfs")
"""Filesystems without a disk to read a page from again."""


@dataclass(frozen=True)
class File:
    """A regular file to evict. ``measurable``: see residency.may_measure."""

    path: str
    size: int
    device: int
    inode: int
    own: bool
    measurable: bool


@dataclass(frozen=True)
class Eviction:
    """What became of one file. ``before`` and ``after`` are resident bytes, None where unknown."""

    file: File
    before: int | None
    after: int | None
    problem: str = ""


@dataclass(frozen=True)
class Evicted:
    """All of them. ``skipped`` holds ``(path, reason)`` of what was not even tried."""

    evictions: tuple[Eviction, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def before(self) -> int:
        return sum(eviction.before or 0 for eviction in self.evictions)

    @property
    def after(self) -> int:
        return sum(eviction.after or 0 for eviction in self.evictions)

    @property
    def unmeasured(self) -> int:
        return sum(eviction.before is None for eviction in self.evictions)

    @property
    def left(self) -> list[Eviction]:
        """Files of which more than a few pages stayed, the largest rest first."""
        staying = [each for each in self.evictions if each.problem or (each.after or 0) > LEFT * each.file.size]
        return sorted(staying, key=lambda each: -(each.after or 0))

    def as_dict(self) -> dict[str, object]:
        left = [
            {"path": shown(each.file.path), "resident_bytes": each.after or 0, "reason": each.problem}
            for each in self.left[:LISTED]
        ]
        return {
            "files": len(self.evictions),
            "size_bytes": sum(each.file.size for each in self.evictions),
            "resident_before_bytes": self.before,
            "resident_after_bytes": self.after,
            "unmeasured_files": self.unmeasured,
            "left": left,
            "left_files": len(self.left),
            "skipped": [{"path": shown(path), "reason": reason} for path, reason in self.skipped[:LISTED]],
            "skipped_files": len(self.skipped),
        }


def shown(path: str) -> str:
    """A name that is not UTF-8 can't be JSON: its odd bytes come out as ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def find_files(paths: Sequence[str]) -> tuple[list[File], list[tuple[str, str]]]:
    """Regular files at and below ``paths``, each once, and what was skipped with the reason.

    Links to files are followed, as in a model cache whose names link to its blobs; links to
    folders below a named folder are not. Raises ArmstageError for a path that is not there.
    """
    files: dict[tuple[int, int], File] = {}
    skipped: list[tuple[str, str]] = []
    filesystems = _filesystems()
    for path in _walk(paths, skipped):
        try:
            status = os.stat(path)
        except OSError as error:
            skipped.append((path, error.strerror or str(error)))
            continue
        if not stat.S_ISREG(status.st_mode):
            skipped.append((path, "not a regular file"))
        elif (filesystem := filesystems.get(status.st_dev)) in ONLY_IN_MEMORY:
            skipped.append((path, f"its filesystem is {filesystem}: memory is the only copy"))
        elif status.st_size:
            own = os.geteuid() in (0, status.st_uid)
            file = File(path, status.st_size, status.st_dev, status.st_ino, own, may_measure(path, status))
            files.setdefault((file.device, file.inode), file)
    return list(files.values()), skipped


def _walk(paths: Sequence[str], skipped: list[tuple[str, str]]) -> Iterator[str]:
    def unreadable(error: OSError) -> None:
        skipped.append((str(error.filename), error.strerror or str(error)))

    for path in paths:
        try:
            os.stat(path)
        except OSError as error:
            raise ArmstageError(
                f"Failed to find the file or folder `{shown(path)}`: {error.strerror}",
                hint="Name files or folders that exist on the host itself and that this user may see",
            ) from error
        if not os.path.isdir(path):
            yield path
            continue
        for folder, _folders, names in os.walk(path, onerror=unreadable):
            yield from (os.path.join(folder, name) for name in sorted(names))


def measure(files: Sequence[File]) -> Evicted:
    """Resident bytes of each file, nothing changed."""
    return _each(files, None)


def evict(files: Sequence[File], timeout: float) -> Evicted:
    """Write out what is this user's own, evict, and measure. No file is begun after ``timeout`` seconds.

    A file of someone else is evicted as far as it is already written: writing it out is not ours.
    """
    return _explain(_each(files, time.monotonic() + timeout))


def _drop_pages(handle: int, file: File) -> None:
    if file.own:
        os.fdatasync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def _each(files: Sequence[File], deadline: float | None) -> Evicted:
    evictions = []
    skipped = []
    for file in files:
        if deadline and time.monotonic() > deadline:
            skipped.append((file.path, "the time limit was reached before it"))
            continue
        try:
            handle = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            skipped.append((file.path, error.strerror or str(error)))
            continue
        try:
            evictions.append(_one(handle, file, deadline is not None))
        finally:
            os.close(handle)
    return Evicted(tuple(evictions), tuple(skipped))


def _one(handle: int, file: File, drop: bool) -> Eviction:
    before = after = None
    try:
        before = after = resident_bytes(handle, file.size) if file.measurable else None
        if drop:
            _drop_pages(handle, file)
            after = resident_bytes(handle, file.size) if file.measurable else None
    except OSError as error:
        return Eviction(file, before, after, error.strerror or str(error))
    return Eviction(file, before, after)


def _explain(evicted: Evicted) -> Evicted:
    """Say why pages stayed, for the files of which many did."""
    unexplained = [each.file for each in evicted.left if not each.problem]
    if not unexplained:
        return evicted
    users = mapped_by((os.path.realpath(file.path), file.device, file.inode) for file in unexplained)
    filesystems = _filesystems()
    reasons = {file: _reason(file, users, filesystems) for file in unexplained}
    named = tuple(replace(each, problem=reasons.get(each.file, each.problem)) for each in evicted.evictions)
    return replace(evicted, evictions=named)


def _reason(file: File, users: Mapping[str, Sequence[str]], filesystems: Mapping[int, str]) -> str:
    mapping = users.get(os.path.realpath(file.path))
    if filesystems.get(file.device) == "zfs":
        return "its filesystem is zfs, which caches in the ARC"
    if mapping:
        return f"mapped by {', '.join(mapping)}"
    if not file.own:
        return "not yours: pages that are not yet written to disk stay"
    return "locked, being written, or mapped by a process that may not be looked at"


def _filesystems() -> dict[int, str]:
    """Device number -> filesystem type, from /proc/self/mountinfo."""
    lines = re.finditer(r"^\d+ \d+ (\d+):(\d+) .*? - (\S+) ", read_text("/proc/self/mountinfo") or "", re.MULTILINE)
    return {os.makedev(int(line[1]), int(line[2])): line[3] for line in lines}
