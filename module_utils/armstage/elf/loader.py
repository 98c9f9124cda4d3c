"""A model of the dynamic loader: what a program would have loaded, and what it would not find.

Nothing is executed. The order of search, of names and of loading is that of glibc 2.40
(``elf/dl-load.c``, ``_dl_map_object``), compared with real loads: a file for another machine is
passed over and the search goes on; a file that is not ELF ends the search in an error.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import ArmstageError
from .reader import ElfFile, machine_of
from .search import System

HOST_LIBRARIES = frozenset(
    (
        "ld-linux-aarch64.so.1",
        "ld-linux-x86-64.so.2",
        "libanl.so.1",
        "libatomic.so.1",
        "libc.so.6",
        "libdl.so.2",
        "libgcc_s.so.1",
        "libm.so.6",
        "libmvec.so.1",
        "libnsl.so.1",
        "libpthread.so.0",
        "libresolv.so.2",
        "librt.so.1",
        "libstdc++.so.6",
        "libutil.so.1",
        "libz.so.1",
    )
)
"""glibc, the compilers' runtimes and zlib: what manylinux wheels leave to the host."""


@dataclass(frozen=True, eq=False)
class Library:
    """A file that was loaded; ``parent`` is the library whose need brought it, None for a dlopen."""

    path: str
    elf: ElfFile
    parent: Library | None = None


@dataclass(frozen=True)
class Missing:
    """A need that was not met.

    ``requester`` is the library whose need it was, None for a file that was to be opened itself;
    ``reason`` says what is wrong with the file that was found, empty where none was.
    """

    name: str
    requester: Library | None = None
    reason: str = ""


def each_once(every: Iterable[Missing]) -> list[Missing]:
    """The first of each name, in the order they were met."""
    found: dict[str, Missing] = {}
    for missing in every:
        found.setdefault(missing.name, missing)
    return list(found.values())


@dataclass
class Process:
    """What one program has loaded so far.

    ``library_path`` is its LD_LIBRARY_PATH. ``assumed`` are libraries left to the host where
    ``system`` is not one of this machine; ``passed_over`` the files of a wanted name that the
    loader does not take, and why; ``wrong_arch`` those among them for another machine.
    """

    system: System
    machine: str
    library_path: Sequence[str] = ()
    executable: Library | None = None
    libraries: list[Library] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)
    wrong_arch: dict[str, str] = field(default_factory=dict)
    _by_name: dict[str, Library] = field(default_factory=dict)
    _by_file: dict[tuple[int, int], Library] = field(default_factory=dict)

    def __post_init__(self) -> None:
        machines = {
            machine_of(self._real(path))
            for path in self.system.candidates("libc.so.6")
            if os.access(self._real(path), os.R_OK)
        }
        self.native = self.machine in machines
        """Whether ``system`` is one of this machine: its own libc is the proof."""
        self._foreign = bool(machines) and not self.native

    def start(self, path: str) -> None:
        """Begin as this executable: its needs are loaded, and its DT_RPATH serves every other."""
        path = os.path.realpath(path)
        try:
            self.executable = Library(path, self._elf(path))
        except ArmstageError as error:
            self.missing.append(Missing(os.path.basename(path), None, error.message))
        else:
            self._follow(self.executable)

    def fork(self) -> Process:
        """The same process, free to load other things."""
        other = copy.copy(self)
        other.libraries, other.missing = list(self.libraries), list(self.missing)
        other.assumed = list(self.assumed)
        other._by_name, other._by_file = dict(self._by_name), dict(self._by_file)
        return other

    def open(self, path: str) -> Library | None:
        """Load a file by its path, as dlopen does, and all it needs; None where it cannot be."""
        try:
            elf = self._usable(path)
            reason = f"`{path}` {self.passed_over.get(path)}"
        except ArmstageError as error:
            elf, reason = None, error.message
        if elf is None:
            self.missing.append(Missing(os.path.basename(path), None, reason))
            return None
        library = self._add(Library(path, elf))
        self._follow(library)
        return library

    def try_open(self, path: str) -> None:
        """Load a file as ``open`` does, if all it needs is there; otherwise leave things as they are."""
        trial = self.fork()
        trial.open(path)
        if len(trial.missing) == len(self.missing):
            vars(self).update(vars(trial))

    def everything(self) -> list[Library]:
        """The executable and all that is loaded."""
        return [*([self.executable] if self.executable else ()), *self.libraries]

    def find(self, name: str) -> Library | None:
        """The library that a need of this name is met by, when it is loaded."""
        return self._by_name.get(name)

    def _follow(self, first: Library) -> None:
        """Load what a library needs, and what that needs, in the loader's breadth-first order."""
        ahead = deque([first])
        while ahead:
            library = ahead.popleft()
            for name in library.elf.needed:
                if name in self._by_name:
                    continue
                try:
                    found = self._search(name, library)
                except ArmstageError as error:
                    self.missing.append(Missing(name, library, error.message))
                    continue
                if found is not None:
                    before = len(self.libraries)
                    self._by_name[name] = self._add(found)
                    ahead.extend(self.libraries[before:])
                elif self.native or name not in HOST_LIBRARIES:
                    self.missing.append(Missing(name, library))
                elif name not in self.assumed:
                    self.assumed.append(name)

    def _add(self, library: Library) -> Library:
        """Take a library in, unless the same file is loaded under another name."""
        status = os.stat(self._real(library.path))
        known = self._by_file.setdefault((status.st_dev, status.st_ino), library)
        if known is library:
            self.libraries.append(library)
        if known.elf.soname:
            self._by_name.setdefault(known.elf.soname, known)
        return known

    def _search(self, name: str, requester: Library) -> Library | None:
        """The file that the loader takes for a name. Raises where it gives up the search."""
        for path in [name] if "/" in name else self._candidates(name, requester):
            elf = self._usable(path)
            if elf is not None:
                return Library(path, elf, requester)
        # A login node's own libraries say nothing about a compute node of another machine.
        for path in self.system.candidates(name):
            elf = self._usable(path, note=not self._foreign)
            if elf is not None:
                return Library(path, elf, requester)
        return None

    def _candidates(self, name: str, requester: Library) -> Iterator[str]:
        for folder in self._folders(requester):
            if self.system.holds(folder, name):
                yield os.path.join(folder, name)

    def _folders(self, requester: Library) -> Iterator[str]:
        """The folders searched before the system's: DT_RPATH, LD_LIBRARY_PATH, then DT_RUNPATH."""
        if not requester.elf.runpath:
            by: Library | None = requester
            chain = []
            while by is not None:
                chain.append(by)
                by = by.parent
            if self.executable is not None and self.executable not in chain:
                chain.append(self.executable)
            for by in chain:
                # A file with both has its DT_RPATH ignored.
                if not by.elf.runpath:
                    yield from self._expand(by.elf.rpath, by)
        yield from self.library_path
        yield from self._expand(requester.elf.runpath, requester)

    def _expand(self, folders: Sequence[str], library: Library) -> Iterator[str]:
        values = {"ORIGIN": os.path.dirname(library.path), "PLATFORM": self.machine, "LIB": "lib64"}
        for folder in folders:
            for token, value in values.items():
                folder = folder.replace("${" + token + "}", value).replace("$" + token, value)
            yield self.system.canonical(folder)

    def _usable(self, path: str, note: bool = True) -> ElfFile | None:
        """What the loader would map; None for a file that it passes over.

        Raises ArmstageError for a file that ends its search.
        """
        real = self._real(path)
        if not os.access(real, os.R_OK):
            there = os.path.exists(real)
            why = "is not readable by this user" if there else "is a link to a file that does not exist"
        elif (machine := machine_of(real) or self.machine) != self.machine:
            why = f"is for {machine}, not {self.machine}"
            if note:
                self.wrong_arch[path] = machine
        else:
            return self._elf(path)
        if note:
            self.passed_over[path] = why
        return None

    def _elf(self, path: str) -> ElfFile:
        return self.system.read(self._real(path))

    def _real(self, path: str) -> str:
        """The file to read: links in the tree of another system are followed inside it."""
        root = self.system.root
        inside = None if root.path == "/" else root.inside(path)
        return path if inside is None else root.real(inside)
