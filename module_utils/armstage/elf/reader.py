"""An own small ELF reader: machine, needs, names, versions and alignment of one file.

``machine_of`` and ``find_elf`` read 20 bytes a file, ``read`` a few kilobytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import ArmstageError
from .image import MAGIC, PF_X, PT_GNU_STACK, PT_INTERP, PT_LOAD, Image

MACHINES = {
    2: ("sparc", "sparc"),
    3: ("i686", "i686"),
    8: ("mips", "mips"),
    20: ("ppcle", "ppc"),
    21: ("ppc64le", "ppc64"),
    22: ("s390x", "s390x"),
    40: ("armv7l", "armv7b"),
    43: ("sparc64", "sparc64"),
    50: ("ia64", "ia64"),
    62: ("x86_64", "x86_64"),
    183: ("aarch64", "aarch64_be"),
    190: ("cuda", "cuda"),
    224: ("amdgpu", "amdgpu"),
    243: ("riscv64", "riscv64"),
    247: ("bpf", "bpf"),
    258: ("loongarch64", "loongarch64"),
}
"""e_machine: the machine as ``uname -m`` prints it, little endian and big endian.

Source: the registry of the System V ABI, "Machine Information". ``cuda`` and ``amdgpu`` are GPU code.
"""

OTHER_NAMES = {"arm64": "aarch64", "amd64": "x86_64", "x64": "x86_64"}
"""What Debian, Go and others call a machine."""

TYPES = {1: "REL", 2: "EXEC", 3: "DYN", 4: "CORE"}

DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 5, 10, 14, 15, 29
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
DT_FLAGS_1, DF_1_PIE = 0x6FFFFFFB, 0x08000000
_VERSION_OF_FILE = 1
"""vd_flags of the definition that names the file itself."""


@dataclass(frozen=True)
class ElfFile:
    """What one ELF file says about itself.

    ``machine`` is as ``uname -m`` prints it, ``rpath`` and ``runpath`` are split but keep
    ``$ORIGIN``, ``version_needs`` maps a library to the versions wanted of it, ``alignments`` are
    the p_align of every PT_LOAD in bytes. ``executable_stack``: it asks for one, or does not say that it needs none.
    """

    path: str
    machine: str
    machine_number: int
    bits: int
    byte_order: str
    type: str
    interpreter: str
    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    version_needs: dict[str, tuple[str, ...]]
    version_definitions: tuple[str, ...]
    alignments: tuple[int, ...]
    executable_stack: bool

    @property
    def is_library(self) -> bool:
        """Whether it is there to be loaded by a program, not to be one."""
        return self.type == "DYN" and not self.interpreter

    def page_size_ok(self, page_size: int) -> bool:
        """Whether a kernel with pages of this size loads the file: the test of glibc's loader."""
        return all(alignment % page_size == 0 for alignment in self.alignments)


HALVED = {62: "x32", 183: "aarch64_ilp32"}
"""Machines of 64 bits whose files of 32 bits are for an ABI of their own, which no loader of 64 bits takes."""


def machine_name(number: int, order: str, bits: int) -> str:
    """An e_machine value as ``uname -m`` prints it; ``order`` is ``<`` or ``>``."""
    if bits == 32 and number in HALVED:
        return HALVED[number]
    little, big = MACHINES.get(number, (f"machine {number}",) * 2)
    return little if order == "<" else big


def known_machine(name: str) -> str:
    """A machine by any of its names, as ``uname -m`` prints it; empty for none.

    Raises ArmstageError for a name that no file's machine has.
    """
    machine = OTHER_NAMES.get(name.lower(), name.lower())
    known = {each for names in MACHINES.values() for each in names} | set(HALVED.values())
    if machine and machine not in known:
        raise ArmstageError(
            f"Expected a machine in `elf_machine`, but received: `{name}`",
            hint=f"Write it as `uname -m` does, one of: {', '.join(sorted(known))}",
        )
    return machine


def machine_of(path: str) -> str | None:
    """The machine a file is for, from its first 20 bytes; None when it is not an ELF file.

    Raises ArmstageError for a file that cannot be read, or is an ELF file cut off in its header.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            head = os.read(file, 20)
        finally:
            os.close(file)
    except IsADirectoryError:
        return None
    except OSError as error:
        raise ArmstageError(f"Failed to read `{path}`: {error.strerror}") from error
    if not head.startswith(MAGIC):
        return None
    if len(head) < 20:
        raise ArmstageError(
            f"`{path}` is cut off in its ELF header, at byte {len(head)}",
            hint=f"Install what `{path}` belongs to again",
        )
    order = ">" if head[5] == 2 else "<"
    number = int.from_bytes(head[18:20], "big" if order == ">" else "little")
    return machine_name(number, order, 32 if head[4] == 1 else 64)


def machine_if_whole(path: str) -> str | None:
    """As ``machine_of``, but None also for a damaged file: whoever needs that one says so."""
    try:
        return machine_of(path)
    except ArmstageError:
        return None


def is_program(path: str) -> bool:
    """Whether an ELF file is a program, which the kernel can start; False for a damaged one."""
    try:
        with Image(path) as image:
            pie = (image.value(DT_FLAGS_1) or 0) & DF_1_PIE
            return (
                TYPES.get(image.type) == "EXEC"
                or bool(pie)
                or any(kind == PT_INTERP for kind, *_rest in image.segments)
            )
    except ArmstageError:
        return False


def find_elf(root: str) -> Iterator[tuple[str, str]]:
    """Every ELF file under a folder as (path, machine), in the order of names.

    Symbolic links are not followed. Raises ArmstageError for what cannot be read.
    """
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            raise ArmstageError(f"Failed to list `{folder}`: {error.strerror}") from error
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                machine = machine_of(entry.path)
                if machine is not None:
                    yield entry.path, machine
        folders.extend(entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False))


def read(path: str) -> ElfFile:
    """Read one ELF file. Raises ArmstageError for a file that is not ELF, or not whole."""
    with Image(path) as image:
        names = Names(image)
        definitions = (version for version, _index, of_file in defined_versions(image, names) if not of_file)
        return ElfFile(
            path=path,
            machine=machine_name(image.machine, image.order, image.bits),
            machine_number=image.machine,
            bits=image.bits,
            byte_order="little" if image.order == "<" else "big",
            type=TYPES.get(image.type, str(image.type)),
            interpreter=_interpreter(image),
            soname="".join(names.all(DT_SONAME)[-1:]),
            needed=names.all(DT_NEEDED),
            rpath=_folders(names.all(DT_RPATH)),
            runpath=_folders(names.all(DT_RUNPATH)),
            version_needs=_by_library(needed_versions(image, names)),
            version_definitions=tuple(definitions),
            alignments=tuple(segment[4] for segment in image.segments if segment[0] == PT_LOAD),
            executable_stack=all(flags & PF_X for kind, *_rest, flags in image.segments if kind == PT_GNU_STACK),
        )


class Names:
    """The dynamic string table of an image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._start = image.table("dynamic string table", DT_STRTAB)
        self._end = (self._start or 0) + (image.value(DT_STRSZ) or 0)

    def at(self, index: int) -> str:
        if self._start is None:
            self._image.fault("has no dynamic string table, though its dynamic section names it")
        return self._image.string(self._start + index, self._end, "dynamic string table")

    def all(self, tag: int) -> tuple[str, ...]:
        """The texts of every dynamic entry with this tag."""
        return tuple(self.at(value) for number, value in self._image.dynamic if number == tag)


def needed_versions(image: Image, names: Names) -> Iterator[tuple[str, str, int]]:
    """Every (library, version, index): what the file wants of the libraries it needs."""
    position = image.table("version needs", DT_VERNEED)
    for record in _chain(image, position, image.value(DT_VERNEEDNUM), "HHIII", "version needs"):
        offset, (_revision, count, library, first, _next) = record
        of = names.at(library)
        for _at, entry in _chain(image, offset + first, count, "IHHII", "version needs"):
            yield of, names.at(entry[3]), entry[2] & 0x7FFF


def defined_versions(image: Image, names: Names) -> Iterator[tuple[str, int, bool]]:
    """Every (version, index, whether it only names the file): what the file offers."""
    position = image.table("version definitions", DT_VERDEF)
    for record in _chain(image, position, image.value(DT_VERDEFNUM), "HHHHIII", "version definitions"):
        offset, (_revision, flags, index, _count, _hash, first, _next) = record
        (name,) = image.unpack("I", offset + first, "version definitions")
        yield names.at(name), index & 0x7FFF, bool(flags & _VERSION_OF_FILE)


def _chain(
    image: Image, offset: int | None, count: int | None, layout: str, what: str
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Records linked by their last field, the distance to the next one (0 ends the chain)."""
    if offset is None or not count:
        return
    for _ in range(count):
        record = image.unpack(layout, offset, what)
        yield offset, record
        if not record[-1]:
            return
        offset += record[-1]


def _by_library(needs: Iterator[tuple[str, str, int]]) -> dict[str, tuple[str, ...]]:
    libraries: dict[str, list[str]] = {}
    for library, version, _index in needs:
        libraries.setdefault(library, []).append(version)
    return {library: tuple(versions) for library, versions in libraries.items()}


def _folders(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The folders of the last search path; the loader reads an empty one as the current folder."""
    return tuple(folder for text in texts[-1:] for folder in text.split(":") if folder)


def _interpreter(image: Image) -> str:
    for kind, offset, _address, size, *_rest in image.segments:
        if kind == PT_INTERP:
            return image.string(offset, offset + size, "interpreter")
    return ""
