"""Dynamic symbols: what a library still needs, and whether another one defines it.

A definition is looked up through the library's own hash table, as the loader does, so asking a
400 MB library for a hundred names costs milliseconds.

Source of the GNU table's layout: glibc 2.40, ``elf/dl-lookup.c`` and ``elf/dl-setup_hash.c``.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .image import Image
from .reader import Names, needed_versions

DT_HASH, DT_SYMTAB, DT_GNU_HASH, DT_VERSYM = 4, 6, 0x6FFFFEF5, 0x6FFFFFF0
_SYMBOL = {32: "IIIBBH", 64: "IBBHQQ"}
_BLOOM_WORD = {32: "I", 64: "Q"}
_WEAK = 2


@dataclass(frozen=True)
class Symbol:
    """An undefined symbol; ``version`` and the ``library`` that it is wanted of are empty where unversioned."""

    name: str
    version: str
    library: str


def undefined(path: str) -> list[Symbol]:
    """The symbols that must be found elsewhere for a library to load; weak ones need not be.

    Raises ArmstageError for a file that is not ELF, or not whole.
    """
    with Image(path) as image:
        names = Names(image)
        versions = {index: (version, of) for of, version, index in needed_versions(image, names)}
        found = []
        for entry in _Symbols(image, names).unhashed():
            if entry.name and not entry.section and entry.binding != _WEAK:
                version, library = versions.get(entry.version, ("", ""))
                found.append(Symbol(names.at(entry.name), version, library))
        return found


def defined(path: str, wanted: Iterable[str]) -> set[str]:
    """Those of the wanted names that the file defines. Raises as ``undefined`` does."""
    with Image(path) as image:
        symbols = _Symbols(image, Names(image))
        return {name for name in wanted if symbols.defines(name)}


class _Entry(NamedTuple):
    name: int
    binding: int
    section: int
    version: int


class _Symbols:
    """The dynamic symbol table of an image, and the hash table over it."""

    def __init__(self, image: Image, names: Names) -> None:
        self._image = image
        self._names = names
        self._layout = image.order + _SYMBOL[image.bits]
        self._size = struct.calcsize(self._layout)
        self._start = image.table("symbol table", DT_SYMTAB)
        self._versions = image.table("symbol versions", DT_VERSYM)
        self._hash: _GnuHash | _ClassicHash | None = None
        gnu, classic = image.table("hash table", DT_GNU_HASH), image.table("hash table", DT_HASH)
        if gnu is not None:
            self._hash = _GnuHash(image, gnu)
        elif classic is not None:
            self._hash = _ClassicHash(image, classic)

    def unhashed(self) -> Iterator[_Entry]:
        """The symbols outside the hash table: in a library, every undefined one is among them.

        A GNU table covers only the end of the symbols, the defined ones; a classic table leaves
        none out, so there all are looked at.
        """
        if self._hash is not None:
            yield from self._entries(1, self._hash.unhashed_end)

    def defines(self, name: str) -> bool:
        if self._hash is not None:
            for index in self._hash.candidates(name):
                for entry in self._entries(index, index + 1):
                    if entry.section and self._names.at(entry.name) == name:
                        return True
        return False

    def _entries(self, first: int, end: int) -> Iterator[_Entry]:
        if self._start is None or end <= first:
            return
        table = self._image.at(self._start + first * self._size, (end - first) * self._size, "symbol table")
        versions: Iterable[tuple[int, ...]] = ((0,) for _ in range(first, end))
        if self._versions is not None:
            versions = struct.iter_unpack(
                self._image.order + "H",
                self._image.at(self._versions + 2 * first, 2 * (end - first), "symbol versions"),
            )
        for fields, (version,) in zip(struct.iter_unpack(self._layout, table), versions):
            if self._image.bits == 64:
                name, info, _other, section, _value, _length = fields
            else:
                name, _value, _length, info, _other, section = fields
            yield _Entry(name, info >> 4, section, version & 0x7FFF)


class _GnuHash:
    """DT_GNU_HASH: a Bloom filter, buckets, and one chain of hashes that the buckets point into."""

    def __init__(self, image: Image, offset: int) -> None:
        self._image, self._bits = image, image.bits
        self._buckets, self.unhashed_end, self._words, self._shift = image.unpack("4I", offset, "hash table")
        if not self._buckets or not self._words:
            image.fault("has a hash table without buckets")
        # Read at once, for the filter is asked most.
        self._filter = image.at(offset + 16, self._words * image.bits // 8, "hash table")
        self._word = struct.Struct(image.order + _BLOOM_WORD[image.bits])
        self._buckets_at = offset + 16 + len(self._filter)
        self._chain_at = self._buckets_at + 4 * self._buckets

    def candidates(self, name: str) -> Iterable[int]:
        """The indexes of the symbols whose hash is that of the name."""
        value, bits = _gnu_hash(name), self._bits
        (word,) = self._word.unpack_from(self._filter, value // bits % self._words * bits // 8)
        # Without a generator: of a thousand questions, this answers nearly all.
        return self._chain(value) if (word >> value % bits) & (word >> (value >> self._shift) % bits) & 1 else ()

    def _chain(self, value: int) -> Iterator[int]:
        (index,) = self._image.unpack("I", self._buckets_at + 4 * (value % self._buckets), "hash table")
        while index >= self.unhashed_end:
            (link,) = self._image.unpack("I", self._chain_at + 4 * (index - self.unhashed_end), "hash table")
            if link | 1 == value | 1:
                yield index
            if link & 1:
                return
            index += 1


@functools.lru_cache(maxsize=16384)
def _gnu_hash(name: str) -> int:
    """The same names are asked of library after library."""
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


class _ClassicHash:
    """DT_HASH: buckets, and chains of symbol indexes; there is one chain entry per symbol."""

    def __init__(self, image: Image, offset: int) -> None:
        self._image = image
        self._buckets, self.unhashed_end = image.unpack("2I", offset, "hash table")
        if not self._buckets:
            image.fault("has a hash table without buckets")
        self._buckets_at = offset + 8
        self._chain_at = self._buckets_at + 4 * self._buckets

    def candidates(self, name: str) -> Iterator[int]:
        """The indexes of the symbols in the bucket of the name."""
        value = 0
        for byte in name.encode():
            value = (value << 4) + byte & 0xFFFFFFFF
            high = value & 0xF0000000
            value = (value ^ high >> 24) & ~high
        (index,) = self._image.unpack("I", self._buckets_at + 4 * (value % self._buckets), "hash table")
        while index:
            yield index
            (index,) = self._image.unpack("I", self._chain_at + 4 * index, "hash table")
