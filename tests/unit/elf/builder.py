"""Writes small, valid ELF files, so that whole environments can be planted in a test.

One loadable segment covers the file, so that every address equals a file offset. Section headers
are written too, for readers that go by them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

MACHINES = {"i686": 3, "ppc": 20, "ppc64": 21, "x86_64": 62, "aarch64": 183, "riscv64": 243}
TYPES = {"EXEC": 2, "DYN": 3}

# Layouts by width of a word, from the System V ABI.
HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
SEGMENT = {32: "IIIIIIII", 64: "IIQQQQQQ"}
SECTION = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
SYMBOL = {32: "IIIBBH", 64: "IBBHQQ"}
DYNAMIC = {32: "II", 64: "QQ"}


@dataclass
class Elf:
    """What goes into the file: ``bytes(elf)`` is it, ``elf.write(path)`` makes it.

    ``needs`` maps a library to the versions wanted of it, ``offers`` are versions the file defines.
    ``undefined`` holds symbols, each ``name`` or ``name@version``, weak with a leading ``?``.
    ``align`` is the p_align of its segment, ``hash`` is ``gnu`` or ``sysv``; with ``executable_stack`` None
    nothing is said of the stack, which to the loader is as good as True.
    """

    machine: str = "aarch64"
    bits: int = 64
    order: str = "<"
    type: str = "DYN"
    soname: str = ""
    needed: list[str] = field(default_factory=list)
    rpath: str = ""
    runpath: str = ""
    interpreter: str = ""
    needs: dict[str, list[str]] = field(default_factory=dict)
    offers: list[str] = field(default_factory=list)
    undefined: list[str] = field(default_factory=list)
    defined: list[str] = field(default_factory=list)
    align: int = 0x10000
    hash: str = "gnu"
    executable_stack: bool | None = False

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(self))
        return path

    def __bytes__(self) -> bytes:
        return _Writer(self).file()


@dataclass
class _Section:
    name: str
    kind: int
    data: bytes
    tag: int = 0
    link: str = ""
    info: int = 0
    entry_size: int = 0
    address: int = 0


class _Writer:
    def __init__(self, elf: Elf) -> None:
        self.elf = elf
        self.strings = b"\0"
        versions = [*elf.offers, *(version for wanted in elf.needs.values() for version in wanted)]
        self.version_index = {version: 2 + n for n, version in enumerate(versions)}
        self.buckets = max(1, len(elf.defined) // 2)
        self.defined = sorted(elf.defined, key=lambda name: gnu_hash(name) % self.buckets)

    def file(self) -> bytes:
        elf = self.elf
        names = [(1, name) for name in elf.needed] + [(14, elf.soname), (15, elf.rpath), (29, elf.runpath)]
        entries = [(tag, self.string(text)) for tag, text in names if text]
        sections = [
            _Section(".dynsym", 11, self.symbols(), 6, ".dynstr", 1, struct.calcsize("=" + SYMBOL[elf.bits])),
            _Section(".gnu.version", 0x6FFFFFFF, self.symbol_versions(), 0x6FFFFFF0, ".dynsym", 0, 2),
        ]
        if elf.hash == "gnu":
            sections.append(_Section(".gnu.hash", 0x6FFFFFF6, self.gnu_table(), 0x6FFFFEF5, ".dynsym"))
        else:
            sections.append(_Section(".hash", 5, self.sysv_table(), 4, ".dynsym"))
        if elf.needs:
            data, count = self.version_needs(), len(elf.needs)
            sections.append(_Section(".gnu.version_r", 0x6FFFFFFE, data, 0x6FFFFFFE, ".dynstr", count))
            entries.append((0x6FFFFFFF, count))
        if elf.offers:
            data, count = self.version_definitions(), len(elf.offers) + 1
            sections.append(_Section(".gnu.version_d", 0x6FFFFFFD, data, 0x6FFFFFFC, ".dynstr", count))
            entries.append((0x6FFFFFFD, count))
        if elf.interpreter:
            sections.append(_Section(".interp", 1, elf.interpreter.encode() + b"\0"))
        sections.append(_Section(".dynstr", 3, self.strings, 5))
        entries.append((10, len(self.strings)))
        return self.assemble(sections, entries)

    def assemble(self, sections: list[_Section], entries: list[tuple[int, int]]) -> bytes:
        elf = self.elf
        header, segment = (16 + struct.calcsize("=" + HEADER[elf.bits])), struct.calcsize("=" + SEGMENT[elf.bits])
        body = bytearray(header + 4 * segment)

        def place(section: _Section) -> None:
            body.extend(b"\0" * (-len(body) % 8))
            section.address = len(body)
            body.extend(section.data)

        for section in sections:
            place(section)
        entries = [*entries, *((section.tag, section.address) for section in sections if section.tag), (0, 0)]
        table = b"".join(self.pack(DYNAMIC[elf.bits], *entry) for entry in entries)
        dynamic = _Section(".dynamic", 6, table, 0, ".dynstr", 0, struct.calcsize("=" + DYNAMIC[elf.bits]))
        place(dynamic)
        every = [_Section("", 0, b""), *sections, dynamic]
        names = b"".join(section.name.encode() + b"\0" for section in every) + b".shstrtab\0"
        every.append(_Section(".shstrtab", 3, names))
        place(every[-1])
        body.extend(b"\0" * (-len(body) % 8))
        sections_at = len(body)
        order = [section.name for section in every]
        for section in every:
            link = order.index(section.link) if section.link else 0
            body += self.section_header(section, names.index(section.name.encode() + b"\0"), link)
        interpreter = next((section for section in sections if section.name == ".interp"), _Section("", 0, b""))
        segments = [
            self.segment(1, 0, len(body), elf.align),
            self.segment(2, dynamic.address, len(dynamic.data), 8),
            self.segment(3 if interpreter.data else 0, interpreter.address, len(interpreter.data), 1),
            self.segment(0 if elf.executable_stack is None else 0x6474E551, 0, 0, 16, 7 if elf.executable_stack else 6),
        ]
        ident = b"\x7fELF" + bytes([elf.bits // 32, 1 if elf.order == "<" else 2, 1]) + b"\0" * 9
        sizes = (header, segment, len(segments), struct.calcsize("=" + SECTION[elf.bits]), len(every), len(every) - 1)
        fields = (TYPES[elf.type], MACHINES[elf.machine], 1, 0, header, sections_at, 0, *sizes)
        start = ident + self.pack(HEADER[elf.bits], *fields) + b"".join(segments)
        return start + bytes(body[len(start) :])

    def segment(self, kind: int, address: int, size: int, align: int, flags: int = 4) -> bytes:
        if self.elf.bits == 64:
            return self.pack(SEGMENT[64], kind, flags, address, address, address, size, size, align)
        return self.pack(SEGMENT[32], kind, address, address, address, size, size, flags, align)

    def section_header(self, section: _Section, name: int, link: int) -> bytes:
        at, size = section.address, len(section.data)
        fields = (name, section.kind, 2, at, at, size, link, section.info, 8 if size else 0, section.entry_size)
        return self.pack(SECTION[self.elf.bits], *fields)

    def pack(self, layout: str, *values: int) -> bytes:
        return struct.pack(self.elf.order + layout, *values)

    def string(self, text: str) -> int:
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text.encode()) - 1

    def undefined(self) -> list[tuple[str, str, bool]]:
        """(name, version, weak) of every undefined symbol."""
        return [(*f"{text.lstrip('?')}@".split("@")[:2], text.startswith("?")) for text in self.elf.undefined]

    def symbols(self) -> bytes:
        size = struct.calcsize("=" + SYMBOL[self.elf.bits])
        entries = [(name, 2 if weak else 1, 0) for name, _version, weak in self.undefined()]
        entries += [(name, 1, 1) for name in self.defined]
        table = b"\0" * size
        for name, binding, section in entries:
            fields = {"name": self.string(name), "info": binding << 4 | 2, "section": section}
            if self.elf.bits == 64:
                table += self.pack(SYMBOL[64], fields["name"], fields["info"], 0, fields["section"], 0, 0)
            else:
                table += self.pack(SYMBOL[32], fields["name"], 0, 0, fields["info"], 0, fields["section"])
        return table

    def symbol_versions(self) -> bytes:
        wanted = [self.version_index.get(version, 1) for _name, version, _weak in self.undefined()]
        own = [self.version_index[self.elf.offers[0]] if self.elf.offers else 1] * len(self.defined)
        return b"".join(self.pack("H", index) for index in [0, *wanted, *own])

    def version_needs(self) -> bytes:
        table = b""
        for n, (library, versions) in enumerate(self.elf.needs.items(), 1):
            after = 0 if n == len(self.elf.needs) else 16 + 16 * len(versions)
            table += self.pack("HHIII", 1, len(versions), self.string(library), 16, after)
            for k, version in enumerate(versions, 1):
                last = 0 if k == len(versions) else 16
                table += self.pack(
                    "IHHII", sysv_hash(version), 0, self.version_index[version], self.string(version), last
                )
        return table

    def version_definitions(self) -> bytes:
        table = b""
        versions = [(self.elf.soname or "library", 1, 1), *((v, 0, self.version_index[v]) for v in self.elf.offers)]
        for n, (version, flags, index) in enumerate(versions, 1):
            after = 0 if n == len(versions) else 28
            table += self.pack("HHHHIII", 1, flags, index, 1, sysv_hash(version), 20, after)
            table += self.pack("II", self.string(version), 0)
        return table

    def gnu_table(self) -> bytes:
        first, bits, shift = 1 + len(self.elf.undefined), self.elf.bits, 5
        bloom, buckets, chain = 0, [0] * self.buckets, []
        for n, name in enumerate(self.defined):
            value = gnu_hash(name)
            bloom |= 1 << value % bits | 1 << (value >> shift) % bits
            buckets[value % self.buckets] = buckets[value % self.buckets] or first + n
            following = self.defined[n + 1] if n + 1 < len(self.defined) else None
            last = following is None or gnu_hash(following) % self.buckets != value % self.buckets
            chain.append(value & ~1 | last)
        head = self.pack("4I", self.buckets, first, 1, shift) + self.pack("Q" if bits == 64 else "I", bloom)
        return head + self.pack(f"{len(buckets) + len(chain)}I", *buckets, *chain)

    def sysv_table(self) -> bytes:
        names = ["", *(name for name, _version, _weak in self.undefined()), *self.defined]
        buckets, chain = [0] * self.buckets, [0] * len(names)
        for index, name in enumerate(names[1:], 1):
            at = sysv_hash(name) % self.buckets
            chain[index], buckets[at] = buckets[at], index
        return self.pack(f"{2 + len(buckets) + len(chain)}I", len(buckets), len(chain), *buckets, *chain)


def gnu_hash(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def sysv_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = ((value << 4) + byte) & 0xFFFFFFFF
        value ^= value >> 24 & 0xF0
        value &= 0x0FFFFFFF
    return value
