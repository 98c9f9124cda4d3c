"""Bounded reads from one ELF file: by file offset, or by the address it would be loaded at.

Nothing is executed and no file is read whole: a 400 MB library costs a few kilobytes. Whatever the
file claims is checked against its size first, so a damaged or hostile file costs no more than a
good one and ends in an ArmstageError that names it.

Layouts are those of the System V ABI, "Object Files" and "Program Loading" (gabi, 2013-06-10).
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from typing import NoReturn

from ..errors import ArmstageError

MAGIC = b"\x7fELF"

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK = 1, 2, 3, 0x6474E551
PF_X = 1

MAX_DYNAMIC = 1024 * 1024
"""Bytes of a dynamic section; libtorch_cpu has 800."""

MAX_STRING = 64 * 1024
"""Bytes of one name; the longest mangled C++ name in libtorch is 3 kB."""

_HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
_PROGRAM_HEADER = {32: "8I", 64: "IIQQQQQQ"}
_DYNAMIC_ENTRY = {32: "II", 64: "QQ"}

MAX_READ = 64 * 1024 * 1024
"""Bytes read of one file in all; the symbols of libtorch_cpu take 6 MB."""

_LEAST_READ = 256
"""Bytes that any read counts for, so that small reads are bounded in number."""

_BLOCK = 16 * 1024
"""Bytes that are read at once and kept: a library's tables are thousands of small reads, near to each other."""


class Image:
    """An open ELF file; a context manager.

    ``bits`` is 32 or 64, ``order`` is ``<`` or ``>``, ``segments`` holds the (type, offset, address,
    file size, alignment, flags) of every program header, ``dynamic`` the (tag, value) pairs before
    DT_NULL. Raises ArmstageError for a file that cannot be read or is not whole.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # O_NONBLOCK: opening a named pipe must not wait for a writer.
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise ArmstageError(f"Failed to open `{path}`: {error.strerror}") from error
        try:
            self._read_headers()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Image:
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self._file)

    def fault(self, what: str) -> NoReturn:
        raise ArmstageError(
            f"`{self.path}` {what}",
            hint=f"The file is damaged or was not fetched whole: install what `{self.path}` belongs to again",
        )

    def at(self, offset: int, size: int, what: str) -> bytes:
        """Exactly ``size`` bytes at a file offset; ``what`` names them in the error."""
        self._spend(size, what)
        if offset + size > self.size:
            self.fault(f"is cut off: its {what} ends at byte {offset + size}, the file at byte {self.size}")
        index, start = divmod(offset, _BLOCK)
        if start + size > _BLOCK:
            data = self._read(offset, size)
        else:
            if index not in self._blocks:
                self._blocks[index] = self._read(index * _BLOCK, _BLOCK)
            data = self._blocks[index][start : start + size]
        if len(data) != size:
            self.fault(f"became shorter while its {what} was read")
        return data

    def _spend(self, size: int, what: str) -> None:
        self._left -= size if size > _LEAST_READ else _LEAST_READ
        if self._left < 0:
            self.fault(f"asks for more than {MAX_READ} bytes of tables, at its {what}")

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._file, size, offset)
        except OSError as error:
            raise ArmstageError(
                f"Failed to read `{self.path}`: {error.strerror}",
                hint="The disk or the network filesystem that it is on fails: read dmesg",
            ) from error

    def offset_of(self, address: int, what: str) -> int:
        """The file offset of a loaded address."""
        for kind, offset, start, size, *_rest in self.segments:
            if kind == PT_LOAD and start <= address < start + size:
                return offset + address - start
        return self.fault(f"puts its {what} at address {address:#x}, which no segment holds")

    def table(self, name: str, tag: int) -> int | None:
        """The file offset of the table whose address a dynamic entry holds, or None."""
        address = self.value(tag)
        return None if address is None else self.offset_of(address, name)

    def value(self, tag: int) -> int | None:
        """The value of the last dynamic entry with this tag (the one the loader uses), or None."""
        return self._values.get(tag)

    def unpack(self, layout: str, offset: int, what: str) -> tuple[int, ...]:
        """Integers in the file's own byte order."""
        layout = self.order + layout
        return struct.unpack(layout, self.at(offset, struct.calcsize(layout), what))

    def string(self, offset: int, end: int, what: str) -> str:
        """The NUL-terminated text at a file offset; it must end before ``end``."""
        end = min(end, offset + MAX_STRING)
        index, start = divmod(offset, _BLOCK)
        block = self._blocks.get(index, b"")
        stop = block.find(b"\0", start, max(start, start + end - offset))
        if stop >= 0:  # so lies nearly every one of a table's names
            self._spend(stop - start, what)
            return block[start:stop].decode("utf-8", "backslashreplace")
        text = b""
        while offset < end:
            chunk = self.at(offset, min(_LEAST_READ, end - offset), what)
            head, terminator, _rest = chunk.partition(b"\0")
            text += head
            if terminator:
                return text.decode("utf-8", "backslashreplace")
            offset += len(chunk)
        return self.fault(f"has no end to its {what}")

    def _read_headers(self) -> None:
        self._left = MAX_READ
        self._blocks: dict[int, bytes] = {}
        status = os.fstat(self._file)
        self.size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            self.fault("is not a regular file")
        ident = os.pread(self._file, 16, 0)
        if not ident.startswith(MAGIC):
            start = ident.decode("ascii", "backslashreplace")
            self.fault(f"is not an ELF file: it starts with {start!r}" if ident else "is empty")
        self.at(0, 16, "ELF header")
        if ident[4] not in (1, 2) or ident[5] not in (1, 2):
            self.fault(f"has an ELF header of unknown class {ident[4]} or byte order {ident[5]}")
        self.bits = 32 * ident[4]
        self.order = "<" if ident[5] == 1 else ">"
        header = self.unpack(_HEADER[self.bits], 16, "ELF header")
        self.type, self.machine = header[0], header[1]
        self.segments = list(self._read_segments(header[4], header[8], header[9]))
        self.dynamic = list(self._read_dynamic())
        self._values = dict(self.dynamic)

    def _read_segments(self, offset: int, entry_size: int, count: int) -> Iterator[tuple[int, ...]]:
        layout = self.order + _PROGRAM_HEADER[self.bits]
        if count and entry_size != struct.calcsize(layout):
            self.fault(f"has program headers of {entry_size} bytes, expected {struct.calcsize(layout)}")
        for entry in struct.iter_unpack(
            layout, self.at(offset, entry_size * count, "program header table") if count else b""
        ):
            if self.bits == 64:
                kind, flags, position, address, _physical, size, _memory, alignment = entry
            else:
                kind, position, address, _physical, size, _memory, flags, alignment = entry
            if kind == PT_LOAD and position + size > self.size:
                self.fault(f"is cut off: a segment ends at byte {position + size}, the file at byte {self.size}")
            yield kind, position, address, size, alignment, flags

    def _read_dynamic(self) -> Iterator[tuple[int, int]]:
        for kind, offset, _address, size, *_rest in self.segments:
            if kind != PT_DYNAMIC:
                continue
            if size > MAX_DYNAMIC:
                self.fault(f"claims a dynamic section of {size} bytes, expected under {MAX_DYNAMIC}")
            layout = self.order + _DYNAMIC_ENTRY[self.bits]
            size -= size % struct.calcsize(layout)
            for tag, value in struct.iter_unpack(layout, self.at(offset, size, "dynamic section")):
                if tag == 0:
                    return
                yield tag, value
            return
