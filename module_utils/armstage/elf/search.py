"""Where the dynamic loader looks for a library on one system, from files alone.

Source: glibc 2.40, ``elf/dl-load.c``, ``elf/ldconfig.c`` and ``sysdeps/generic/dl-cache.h``.
"""

from __future__ import annotations

import fnmatch
import os
import struct
import sys
from collections.abc import Iterator

from ..errors import ArmstageError
from ..files import read_text
from .reader import ElfFile, read

MAX_CACHE = 16 * 1024 * 1024
"""Bytes of ld.so.cache that are read; a full desktop has 200 kB."""

MAX_INCLUDES = 4
"""Depth of files that include files."""

MAX_LINKS = 40

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER_SIZE = 48
_ENTRY = struct.Struct("=iIIIQ")


def default_folders(machine: str) -> tuple[str, ...]:
    """The folders built into glibc's loader: Debian's own first, then those of other distributions."""
    triplet = f"{machine}-linux-gnu"
    return (f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


class Root:
    """The folder that stands for ``/``, so that the tree of another system can be looked at."""

    def __init__(self, path: str = "/") -> None:
        self.path = os.path.abspath(path)

    def real(self, inside: str) -> str:
        """The file on this host behind an absolute path of the system, links followed inside it."""
        ahead, behind, links = inside.split("/")[::-1], "", 0
        while ahead:
            part = ahead.pop()
            if part == "..":
                behind = behind.rpartition("/")[0]
            elif part and part != ".":
                step = f"{behind}/{part}"
                try:
                    target = os.readlink(self.outside(step))
                except OSError:
                    behind = step
                    continue
                links += 1
                if links > MAX_LINKS:
                    raise ArmstageError(
                        f"`{self.outside(inside)}` goes through more than {MAX_LINKS} symbolic links",
                        hint="One of them leads back to itself",
                    )
                behind = "" if target.startswith("/") else behind
                ahead.extend(target.split("/")[::-1])
        return self.outside(behind)

    def outside(self, inside: str) -> str:
        """Where an absolute path of the system is on this host, links left alone."""
        return self.path.rstrip("/") + inside or "/"

    def inside(self, path: str) -> str | None:
        """The path in the system of a file on this host; None for one elsewhere."""
        prefix = self.path.rstrip("/") + "/"
        return path[len(prefix) - 1 :] if path.startswith(prefix) else None


class System:
    """The libraries that a system offers to every program.

    The loader reads its cache, not ``/etc/ld.so.conf``: the folders configured there count only
    where there is no cache. What was listed and read is kept: one System is one look at the disk.
    """

    def __init__(self, root: Root, machine: str) -> None:
        self.root = root
        self._listings: dict[str, frozenset[str]] = {}
        self._canonical: dict[str, str] = {}
        self._files: dict[str, ElfFile] = {}
        self._cached = read_cache(root.real("/etc/ld.so.cache"))
        configured = [] if self._cached else list(self._configured("/etc/ld.so.conf"))
        folders = (root.real(folder) for folder in (*configured, *default_folders(machine)))
        self._folders = list(dict.fromkeys(folders))

    def candidates(self, name: str) -> Iterator[str]:
        """The files of this name on this host, in the loader's order."""
        for path in self._cached.get(name, ()):
            folder, _, last = path.rpartition("/")
            yield os.path.join(self.root.real(folder), last)
        for folder in self._folders:
            if self.holds(folder, name):
                yield os.path.join(folder, name)

    def names(self) -> set[str]:
        """Every file name that a search could meet."""
        return set(self._cached).union(*(self.listing(folder) for folder in self._folders))

    def holds(self, folder: str, name: str) -> bool:
        return name in self.listing(folder)

    def listing(self, folder: str) -> frozenset[str]:
        """The names in a folder of this host; none where it cannot be listed, as for the loader."""
        if folder not in self._listings:
            try:
                self._listings[folder] = frozenset(os.listdir(folder))
            except OSError:
                self._listings[folder] = frozenset()
        return self._listings[folder]

    def canonical(self, folder: str) -> str:
        """A folder of this host without links and ``..``."""
        if folder not in self._canonical:
            self._canonical[folder] = os.path.realpath(folder)
        return self._canonical[folder]

    def read(self, path: str) -> ElfFile:
        """A file of this host, read once. Raises ArmstageError as ``reader.read`` does."""
        if path not in self._files:
            self._files[path] = read(path)
        return self._files[path]

    def _configured(self, file: str, depth: int = 0) -> Iterator[str]:
        """The folders that ld.so.conf names, those of the files that it includes in their place."""
        for line in (read_text(self.root.real(file)) or "").splitlines():
            words = line.partition("#")[0].split()
            if words[:1] == ["include"] and depth < MAX_INCLUDES:
                folder = os.path.dirname(file)
                for pattern in words[1:]:
                    for path in self._matching(os.path.join(folder, pattern)):
                        yield from self._configured(path, depth + 1)
            elif words and words[0].startswith("/"):
                yield words[0].partition("=")[0]

    def _matching(self, pattern: str) -> list[str]:
        folder, _, last = pattern.rpartition("/")
        names = fnmatch.filter(self.listing(self.root.real(folder)), last)
        return [f"{folder}/{name}" for name in sorted(names)]


def read_cache(path: str) -> dict[str, list[str]]:
    """The libraries in an ld.so.cache, name to paths; empty where the loader would ignore the file."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CACHE)
    except OSError:
        return {}
    start = data.find(_MAGIC)
    if start < 0:
        return {}
    data = data[start:]
    count = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 4], sys.byteorder)
    table = data[_HEADER_SIZE : _HEADER_SIZE + count * _ENTRY.size]
    libraries: dict[str, list[str]] = {}
    for _flags, key, value, _version, _capability in _ENTRY.iter_unpack(table[: len(table) - len(table) % _ENTRY.size]):
        name, path = (_text(data, offset) for offset in (key, value))
        if name and path:
            libraries.setdefault(name, []).append(path)
    return libraries


def _text(data: bytes, offset: int) -> str:
    return os.fsdecode(data[offset : data.find(b"\0", offset)])
