"""How much of a file the page cache holds, by mincore(2), and who has it mapped."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
from collections.abc import Iterable

from ..errors import ArmstageError
from ..files import read_text
from .holders import processes

PAGE = os.sysconf("SC_PAGE_SIZE")
WINDOW = 1024 * 1024 * 1024
"""Bytes of a file looked at in one call: its answer is one byte a page."""

PROT_READ, MAP_SHARED, MAP_FAILED = 1, 1, ctypes.c_void_p(-1).value
LOWEST_BIT = bytes(value & 1 for value in range(256))
"""Only the lowest bit of mincore's bytes has a meaning."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


def may_measure(path: str, status: os.stat_result) -> bool:
    """Whether mincore tells this user the truth about the file.

    Since Linux 5.2 it claims every page resident to whoever neither owns the file nor may write it.
    """
    return os.geteuid() in (0, status.st_uid) or os.access(path, os.W_OK)


def resident_bytes(handle: int, size: int) -> int:
    """Bytes of an open file in the page cache, in whole pages. Raises OSError."""
    pages = 0
    for offset in range(0, size, WINDOW):
        pages += _resident_pages(handle, offset, min(WINDOW, size - offset))
    return pages * PAGE


def _resident_pages(handle: int, offset: int, length: int) -> int:
    address = _libc.mmap(None, length, PROT_READ, MAP_SHARED, handle, offset)
    if address == MAP_FAILED:
        raise _error("mmap")
    try:
        answer = ctypes.create_string_buffer(-(-length // PAGE))
        if _libc.mincore(address, length, answer) != 0:
            raise _error("mincore")
        return answer.raw.translate(LOWEST_BIT).count(1)
    finally:
        _libc.munmap(address, length)


def _error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


def mapped_by(files: Iterable[tuple[str, int, int]]) -> dict[str, list[str]]:
    """Who maps which of ``files`` (path, device, inode): path -> [``python3 (pid 17)``].

    Only processes that this user may look at are found. The path is compared too, since btrfs
    and overlayfs show another device in maps than in stat.
    """
    wanted = {(device, inode): path for path, device, inode in files}
    paths = set(wanted.values())
    users: dict[str, list[str]] = {}
    for pid, folder in processes():
        try:
            maps = read_text(f"{folder}/maps", limit=64 * 1024 * 1024) or ""
            name = (read_text(f"{folder}/comm") or "?").strip()
        except ArmstageError:
            continue
        found = set()
        for match in re.finditer(r"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([1-9]\d*) +(.*)$", maps, re.MULTILINE):
            device = os.makedev(int(match[1], 16), int(match[2], 16))
            path = match[4] if match[4] in paths else wanted.get((device, int(match[3])))
            found.update([path] if path else [])
        for path in found:
            users.setdefault(path, []).append(f"`{name}` (pid {pid})")
    return users
