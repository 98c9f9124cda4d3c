"""Whether the libraries that a process would load fit each other: symbols, versions and GLIBC."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from . import ffmpeg
from .environment import TORCH_LIBRARY
from .loader import Library, Process
from .symbols import Symbol, defined, undefined

TORCH_SYMBOL = re.compile(r"(aoti_)?torch_\w+|_ZN[KVRO]?(2at|3c10|5torch)\w+")
_PYTHON_SYMBOL = re.compile(r"_?Py[A-Z_]\w+")
"""Of the C API: whichever Python imports torchcodec has it."""

_GLIBC = re.compile(r"GLIBC_(\d+(?:\.\d+)+)")

GLIBC_ABI = {"GLIBC_ABI_DT_RELR": "2.36"}
"""Versions of glibc that are not numbers, and the release that first offers each (2022-08-01)."""


STACKS_STAY = "2.41"
"""The first glibc whose dlopen loads no library that asks for an executable stack (NEWS, 2025-01-30)."""


@dataclass(frozen=True)
class Fault:
    """A symbol or a version that ``library`` needs and nothing loaded with it offers.

    ``provider`` is the path of the library that should offer it, empty where that is not known.
    """

    library: str
    wanted: str
    provider: str
    is_version: bool = False


def version_faults(process: Process, libraries: Iterable[Library]) -> Iterator[Fault]:
    """The versions that the library found under a needed name does not define.

    For the loader, a library without version definitions offers every version.
    """
    for library in libraries:
        for name, versions in library.elf.version_needs.items():
            provider = process.find(name)
            if provider is None or not provider.elf.version_definitions:
                continue
            for version in versions:
                if version not in provider.elf.version_definitions and not version.startswith("GLIBC_"):
                    yield Fault(library.path, version, provider.path, is_version=True)


def symbol_faults(process: Process, libraries: Iterable[Library]) -> Iterator[Fault]:
    """The symbols that nothing loaded defines.

    Most symbols may come from anywhere. Where a library is missing or left to the host, only those
    whose origin their name or version tells are judged.
    """
    wanted: dict[str, Fault] = {}
    for library in libraries:
        for symbol in undefined(library.elf.path):
            if symbol.version.startswith("GLIBC_"):
                continue
            provider = process.find(symbol.library) if symbol.library else None
            if provider is not None or (not symbol.library and _is_judged(symbol, process)):
                path = provider.path if provider else ""
                wanted.setdefault(symbol.name, Fault(library.path, symbol.name, path))
    left = set(wanted)
    expected: dict[str, list[str]] = {}
    for name, fault in wanted.items():
        expected.setdefault(fault.provider, []).append(name)
    for library in process.everything():
        left -= defined(library.elf.path, expected.get(library.path, ()))
    for library in process.everything() if left else ():
        left -= defined(library.elf.path, left)
    return (wanted[name] for name in sorted(left))


def _is_judged(symbol: Symbol, process: Process) -> bool:
    if _PYTHON_SYMBOL.fullmatch(symbol.name):
        return False
    if ffmpeg.SYMBOL.fullmatch(symbol.name) or not (process.missing or process.assumed):
        return True
    torch_is_whole = not any(TORCH_LIBRARY.fullmatch(missing.name) for missing in process.missing)
    return torch_is_whole and TORCH_SYMBOL.fullmatch(symbol.name) is not None


def glibc_required(libraries: Iterable[Library]) -> str | None:
    """The newest glibc that any of the libraries needs, as ``2.28``; None where none needs any."""
    versions = (version for library in libraries for needs in library.elf.version_needs.values() for version in needs)
    return _newest(versions)


def glibc_offered(process: Process) -> str | None:
    """The glibc of the system, from the versions its libc.so.6 defines; None where it has none."""
    libc = process.find("libc.so.6")
    return _newest(libc.elf.version_definitions) if libc else None


def stack_refused(library: Library, glibc: str | None) -> bool:
    """Whether this glibc does not load the library into a running program, for the stack that it asks for."""
    elf = library.elf
    return bool(glibc and elf.is_library and elf.executable_stack and as_numbers(glibc) >= as_numbers(STACKS_STAY))


def as_numbers(version: str) -> tuple[int, ...]:
    """A dotted version for comparison: ``2.9`` is older than ``2.28``."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _newest(versions: Iterable[str]) -> str | None:
    matches = ((GLIBC_ABI.get(version), _GLIBC.fullmatch(version)) for version in versions)
    found = [release or (match and match[1]) for release, match in matches]
    return max(filter(None, found), key=as_numbers, default=None)
