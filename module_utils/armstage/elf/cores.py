"""The cores of torchcodec in an environment, each tried as the loader would.

torchcodec holds one core per FFmpeg major and tries them from the highest down: the first that
loads with its companions wins, wherever its FFmpeg comes from. What a core needs is read from its
files, never from a table.

Source: ``torchcodec/_internally_replaced_utils.py`` of 0.11.1 (2026-04-14) and 0.17.0 (2026-09-30).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import ffmpeg
from .abi import Fault, symbol_faults, version_faults
from .environment import Layout, import_torch
from .loader import Library, Missing, Process, each_once
from .search import System


@dataclass(frozen=True)
class Core:
    """One core, and the FFmpeg found for it.

    ``needs`` are the FFmpeg sonames that its files name. ``status`` is ``complete`` when they and
    the FFmpeg libraries that those need were all found; ``absent`` when none was that tells this
    major from the others; else ``partial``. ``missing`` are those not found, ``found`` maps the
    sonames of the others to their files. ``own_missing`` are needs of torchcodec's files outside
    FFmpeg; ``other_missing`` those of FFmpeg's libraries, and files of this core itself that cannot
    be loaded or, by the other cores, should be there. ``process`` is what would be loaded.
    """

    core: int
    ffmpeg_major: int
    status: str
    needs: list[str]
    missing: list[Missing]
    found: dict[str, str]
    own_missing: list[Missing]
    other_missing: list[Missing]
    process: Process = field(repr=False)
    faults: list[Fault] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether nothing about its FFmpeg keeps it from loading."""
        return self.status == "complete" and not self.other_missing and not self.faults

    @property
    def folders(self) -> list[str]:
        """The folders that its FFmpeg was found in."""
        return list(dict.fromkeys(os.path.dirname(path) for path in self.found.values()))


@dataclass(frozen=True)
class Observation:
    """What torchcodec would meet in an environment; ``cores`` are in the order they are tried.

    ``own_missing`` are the unmet needs of Python, torch and of torchcodec's files that are loaded
    whatever the FFmpeg.
    """

    layout: Layout
    machine: str
    process: Process
    own_missing: list[Missing]
    cores: list[Core]

    @property
    def torchcodec(self) -> str:
        """``torchcodec 0.11.1``, as messages name it."""
        return f"torchcodec {self.layout.torchcodec.version}".rstrip()

    @property
    def unmet(self) -> list[Missing]:
        """The needs outside FFmpeg: of the core that is selected, or of any."""
        cores = [self.selected] if self.selected else self.cores
        return each_once([*self.own_missing, *(missing for core in cores for missing in core.own_missing)])

    def own_folders(self) -> list[str]:
        """The folders of the environment and its Python that may hold what torchcodec needs."""
        folders = [*self.layout.nvidia_folders(), os.path.join(self.layout.site, "torch/lib")]
        if self.process.executable is not None:
            folders.append(os.path.join(os.path.dirname(self.process.executable.path), "../lib"))
        return [os.path.realpath(folder) for folder in folders if os.path.isdir(folder)]

    @property
    def selected(self) -> Core | None:
        """The core that loads, once its ``own_missing`` are there; None where no FFmpeg is whole."""
        complete = [core for core in self.cores if core.status == "complete"]
        return next((core for core in complete if core.fits), next(iter(complete), None))


def observe(
    layout: Layout, system: System, machine: str, library_path: Sequence[str], check_abi: bool = True
) -> Observation:
    """Try every core of an environment with this LD_LIBRARY_PATH.

    Without ``check_abi`` only names are looked at, not whether symbols and versions fit.
    """
    process = Process(system, machine, [os.path.realpath(folder) for folder in library_path])
    python = layout.python(system.root, machine)
    if python is not None:
        process.start(python)
    import_torch(process, layout)
    torch_ends = len(process.libraries)
    for path in layout.common:
        process.open(path)
    cores: list[Core] = []
    for number in sorted(layout.cores, reverse=True):
        core = _try(process, layout, number)
        if check_abi and core.status == "complete" and not any(earlier.fits for earlier in cores):
            core.faults.extend(_faults(core.process, torch_ends))
        cores.append(core)
    return Observation(layout, machine, process, process.missing, cores)


def _try(before: Process, layout: Layout, number: int) -> Core:
    process = before.fork()
    files = [file for file in map(process.open, layout.cores[number]) if file is not None]
    needs = list(dict.fromkeys(name for file in files for name in file.elf.needed if ffmpeg.is_ffmpeg(name)))
    found = {name: library.path for name in needs if (library := process.find(name)) is not None}
    missing, own, other = [], [], [Missing(name) for name in layout.absent.get(number, ())]
    for each in each_once(process.missing[len(before.missing) :]):
        if ffmpeg.is_ffmpeg(each.name):
            missing.append(each)
        elif each.requester is None or _is_through_ffmpeg(each.requester):
            other.append(each)
        elif not each.name.startswith("libtorchcodec"):
            own.append(each)
    there = [*found, *(each.name for each in missing if each.reason)]
    evidence = files and any(map(ffmpeg.is_telling, there))
    status = "complete" if files and not missing else "partial" if evidence else "absent"
    major = next(filter(None, map(ffmpeg.major_of, needs)), number)
    return Core(number, major, status, needs, missing, found, own, other, process)


def _is_through_ffmpeg(library: Library | None) -> bool:
    while library is not None:
        if ffmpeg.is_ffmpeg(os.path.basename(library.path)):
            return True
        library = library.parent
    return False


def _faults(process: Process, torch_ends: int) -> list[Fault]:
    """Symbols are looked at where torchcodec and FFmpeg need them; torch is taken to fit itself."""
    return [
        *version_faults(process, process.libraries),
        *symbol_faults(process, process.libraries[torch_ends:]),
    ]
