"""Which core of torchcodec an environment will really load, from its files alone.

Works on any host for any machine: nothing is executed or imported.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import ArmstageError
from .abi import glibc_offered, glibc_required
from .cores import Observation, observe
from .diagnosis import Expected, diagnose
from .environment import layout
from .ffmpeg import is_ffmpeg
from .loader import Library
from .reader import known_machine, machine_if_whole
from .search import Root, System
from .words import Problem, quoted

LARGEST_PAGE = 65536
"""Bytes of a page on most Grace systems; assumed where the node's kernel is not this one."""


@dataclass(frozen=True)
class Inspection:
    """What torchcodec would do in an environment.

    ``selected_core`` is the first core, in the order they are tried, whose FFmpeg is all there and
    fits; failing that, the first whose FFmpeg is all there; else None. ``cores`` are
    ``core, ffmpeg_major, status, missing, folders`` each. ``other_missing`` are the sonames outside
    FFmpeg that are not found, ``wrong_arch`` the files for another machine that the loader would
    pass over, ``page_size`` the bytes that ``page_size_ok`` is about, ``library_dirs`` the folders
    that LD_LIBRARY_PATH needs after FFmpeg's, ``assumed`` the libraries left to a node that this
    host says nothing about. ``ok`` is False exactly when there are ``problems``; ``message`` and
    ``hint`` are those of the first.
    """

    ok: bool
    selected_core: int | None
    cores: list[dict[str, object]]
    other_missing: list[str]
    wrong_arch: list[str]
    glibc_required: str | None
    page_size: int
    page_size_ok: bool
    message: str
    hint: str
    problems: list[dict[str, str]]
    torchcodec: str
    torch: str | None
    machine: str | None
    library_dirs: list[str]
    assumed: list[str]


def inspect(
    env: str | None = None,
    torchcodec_dir: str | None = None,
    ffmpeg_dirs: Sequence[str] = (),
    root: str = "/",
    library_dirs: Sequence[str] | None = None,
    ffmpeg_major: int | None = None,
    glibc: str | None = None,
    page_size: int | None = None,
    elf_machine: str | None = None,
) -> Inspection:
    """Inspect an environment, or a torchcodec folder, with LD_LIBRARY_PATH starting at ``ffmpeg_dirs``.

    ``root`` is the folder that stands for ``/`` where the loader's own folders are concerned,
    ``library_dirs`` what follows on LD_LIBRARY_PATH (default: what the environment needs there),
    ``ffmpeg_major`` the FFmpeg that is to be loaded, ``glibc`` and ``page_size`` (bytes) those of
    the node (default: of ``root``, and of this host where it is of the same machine),
    ``elf_machine`` the machine of the node (default: aarch64 where anything is for it).

    Raises ArmstageError where there is nothing to inspect, or a file cannot be read.
    """
    _refuse_odd(root, {"ffmpeg_dirs": ffmpeg_dirs, "library_dirs": library_dirs or ()}, glibc, page_size)
    found = layout(env, torchcodec_dir)
    tree = Root(root)
    machine = (elf_machine and known_machine(elf_machine)) or found.machine(tree) or platform.machine()
    system = System(tree, machine)
    if library_dirs is None:
        library_dirs = _library_dirs(observe(found, system, machine, ffmpeg_dirs, check_abi=False))
    seen = observe(found, system, machine, [*ffmpeg_dirs, *library_dirs])
    judged = _judged(seen, ffmpeg_dirs)
    here = machine == platform.machine() and tree.path == "/"
    known = page_size or (os.sysconf("SC_PAGE_SIZE") if here else None)
    expected = Expected(ffmpeg_major, glibc or glibc_offered(seen.process), known, tuple(ffmpeg_dirs))
    problems = diagnose(seen, expected, judged)
    return _result(
        seen,
        problems,
        judged,
        known or LARGEST_PAGE,
        _wrong_arch(seen, ffmpeg_dirs),
        list(library_dirs),
    )


def _refuse_odd(root: str, searched: Mapping[str, Sequence[str]], glibc: str | None, page_size: int | None) -> None:
    """Raises ArmstageError for an option that stands for no system there is."""
    if not os.path.isdir(root):
        raise ArmstageError(
            f"Expected a folder in `root`, but received: `{root}`", hint="Name the one that holds the node's files"
        )
    for option, folders in searched.items():
        if not all(folders):
            raise ArmstageError(
                f"`{option}` holds an empty element, which the loader would read as the current folder",
                hint="Leave it out",
            )
        split = next((folder for folder in folders if re.search("[:;]", folder)), None)
        if split is not None:
            raise ArmstageError(
                f"`{option}` holds `{split}`, which the loader would split at `:` and `;`",
                hint="Give each folder as an element of its own",
            )
    if glibc is not None and not re.fullmatch(r"\d+\.\d+(\.\d+)?", glibc, re.ASCII):
        raise ArmstageError(
            f"Expected a version such as `2.28` in `glibc`, but received: `{glibc}`",
            hint="`getconf GNU_LIBC_VERSION` on the node prints it",
        )
    if page_size is not None and (page_size < 1 or page_size & (page_size - 1)):
        raise ArmstageError(
            f"Expected a power of two such as 65536 in `page_size`, but received: `{page_size}`",
            hint="`getconf PAGESIZE` on the node prints it",
        )


def library_dirs(env: str, root: str = "/") -> list[str]:
    """The folders that must be on LD_LIBRARY_PATH for torchcodec to load, FFmpeg's apart.

    Relative to ``env`` with its links resolved, so that they stay true when the environment is
    reached by another path: ``lib/python3.12/site-packages/nvidia/cu13/lib`` where a core needs
    ``libnppicc.so.13``. Raises ArmstageError as ``inspect`` does.
    """
    found = layout(env)
    machine = found.machine(Root(root)) or platform.machine()
    system = System(Root(root), machine)
    folders = _library_dirs(observe(found, system, machine, (), check_abi=False))
    return [os.path.relpath(folder, os.path.realpath(env)) for folder in folders]


def _library_dirs(seen: Observation) -> list[str]:
    """Those of the environment's own folders that hold what the loader does not find by itself."""
    names = {missing.name for core in seen.cores for missing in core.own_missing}
    names.update(missing.name for missing in seen.own_missing)
    return [folder for folder in seen.own_folders() if names.intersection(os.listdir(folder))]


def _judged(seen: Observation, ffmpeg_dirs: Sequence[str]) -> list[Library]:
    """The libraries of torchcodec and of FFmpeg among those that would be loaded."""
    folders = {seen.layout.folder, *map(os.path.realpath, ffmpeg_dirs)}
    cores = [seen.selected] if seen.selected else seen.cores
    loaded = {library.path: library for core in cores for library in core.process.libraries}
    return [
        library
        for path, library in loaded.items()
        if os.path.dirname(path) in folders or is_ffmpeg(os.path.basename(path))
    ]


def _wrong_arch(seen: Observation, ffmpeg_dirs: Sequence[str]) -> list[str]:
    """Files for another machine: those the loader would pass over, and any beside FFmpeg."""
    found = list(seen.process.wrong_arch)
    known = set(map(os.path.realpath, found))
    for folder in map(os.path.realpath, ffmpeg_dirs):
        for name in sorted(seen.process.system.listing(folder)):
            path = os.path.join(folder, name)
            if ".so" in name and os.path.isfile(path) and os.path.realpath(path) not in known:
                known.add(os.path.realpath(path))
                if machine_if_whole(path) not in (None, seen.machine):
                    found.append(path)
    return [os.fsencode(path).decode("utf-8", "backslashreplace") for path in found]


def _result(
    seen: Observation,
    problems: list[Problem],
    judged: list[Library],
    page_size: int,
    wrong_arch: list[str],
    library_dirs: list[str],
) -> Inspection:
    selected, torch = seen.selected, seen.layout.torch
    unmet = [*seen.unmet, *(selected.other_missing if selected else ())]
    first = problems[0] if problems else Problem(_loads(seen, wrong_arch), "")
    return Inspection(
        ok=not problems,
        selected_core=selected.core if selected else None,
        cores=[
            {
                "core": core.core,
                "ffmpeg_major": core.ffmpeg_major,
                "status": core.status,
                "missing": [missing.name for missing in core.missing],
                "folders": core.folders,
            }
            for core in seen.cores
        ],
        other_missing=list(dict.fromkeys(missing.name for missing in unmet if missing.requester)),
        wrong_arch=wrong_arch,
        glibc_required=glibc_required(judged),
        page_size=page_size,
        page_size_ok=all(library.elf.page_size_ok(page_size) for library in judged),
        message=first.message,
        hint=first.hint,
        problems=[{"message": problem.message, "hint": problem.hint} for problem in problems],
        torchcodec=seen.layout.torchcodec.version,
        torch=torch.version if torch else None,
        machine=seen.machine,
        library_dirs=library_dirs,
        assumed=sorted(selected.process.assumed if selected else seen.process.assumed),
    )


def _loads(seen: Observation, wrong_arch: list[str]) -> str:
    """The sentence for an environment without problems."""
    core = seen.selected
    assert core is not None
    parts = [
        f"{seen.torchcodec} loads its core {core.core} with FFmpeg {core.ffmpeg_major} from {quoted(core.folders)}"
    ]
    parts.extend(
        f"FFmpeg {each.ffmpeg_major} is partly present, without {quoted(missing.name for missing in each.missing)}"
        for each in seen.cores
        if each.status == "partial"
    )
    if wrong_arch:
        more = f" and {len(wrong_arch) - 1} more" if len(wrong_arch) > 1 else ""
        parts.append(f"`{wrong_arch[0]}`{more} is for another machine and passed over")
    return "; ".join(parts)
