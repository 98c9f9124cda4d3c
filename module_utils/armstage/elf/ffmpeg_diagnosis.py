"""What is wrong with the FFmpeg that torchcodec would find, in words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from . import ffmpeg
from .abi import TORCH_SYMBOL, Fault
from .cores import Core, Observation
from .words import Problem, found_wrong, listed, quoted


def no_ffmpeg(seen: Observation, expected: int | None, folders: Sequence[str]) -> Problem:
    """No core's FFmpeg is whole: what is nearest to it, the expected major first."""
    partial = [core for core in seen.cores if core.status == "partial"]
    partial.sort(key=lambda core: core.ffmpeg_major != expected)
    return _partly(partial[0], seen) if partial else _absent(seen, folders)


def selected_ffmpeg(seen: Observation, core: Core, expected: int | None) -> Iterator[Problem]:
    """What is wrong with the core that is tried first, or that it is not the expected one."""
    if expected is not None and core.ffmpeg_major != expected:
        yield _other_major(seen, core, expected)
    yield from _unfit(core, seen)


def _partly(core: Core, seen: Observation) -> Problem:
    major, first = core.ffmpeg_major, core.missing[0]
    wrong = found_wrong(first, core.process)
    where = f" in {quoted(core.folders)}" if core.folders else ""
    if wrong:
        return Problem(
            f"FFmpeg {major} is not usable: {wrong}",
            f"Stage FFmpeg {major} for {seen.machine} again",
        )
    by = os.path.basename(first.requester.path) if first.requester else ""
    needs = f": `{by}` needs it" if ffmpeg.is_ffmpeg(by) else ""
    return Problem(
        f"FFmpeg {major} is partly present{where}: missing {quoted(each.name for each in core.missing)}{needs}",
        f"Put all libraries of one FFmpeg {major} build into one folder that is searched",
    )


def _other_major(seen: Observation, core: Core, expected: int) -> Problem:
    won = f"`{next(iter(core.found.values()))}`"
    wanted = next((each for each in seen.cores if each.ffmpeg_major == expected), None)
    if wanted is None:
        majors = sorted(each.ffmpeg_major for each in seen.cores)
        return Problem(
            f"{seen.torchcodec} has no core for FFmpeg {expected}, only for {listed(majors)}",
            f"Use FFmpeg {core.ffmpeg_major}, which is there, or another torchcodec",
        )
    if core.ffmpeg_major > expected and wanted.status == "complete":
        return Problem(
            f"FFmpeg {core.ffmpeg_major} is found before {expected}: {won}",
            f"torchcodec takes the newest FFmpeg it sees: take FFmpeg {core.ffmpeg_major} out of the folders searched",
        )
    if wanted.status == "absent":
        return Problem(
            f"FFmpeg {core.ffmpeg_major} would be loaded, expected {expected}: {won}",
            f"Put FFmpeg {expected} into the folder searched first, in place of FFmpeg {core.ffmpeg_major}",
        )
    cause = next(_unfit(wanted, seen))
    return Problem(f"{cause.message}; FFmpeg {core.ffmpeg_major} would be loaded: {won}", cause.hint)


def _unfit(core: Core, seen: Observation) -> Iterator[Problem]:
    """What keeps a core from loading, of its FFmpeg."""
    if core.missing:
        yield _partly(core, seen)
    if core.other_missing:
        yield _third_party(core, seen)
    for fault in core.faults[:1]:
        yield _misfit(fault, core, seen)


def _third_party(core: Core, seen: Observation) -> Problem:
    """A library that FFmpeg needs, or a file of torchcodec's own core."""
    missing = core.other_missing[0]
    wrong = found_wrong(missing, core.process)
    if missing.requester is None:
        message = wrong or f"{seen.torchcodec} lacks `{missing.name}`, which its other cores have"
        return Problem(message, "Install torchcodec again")
    names = quoted(each.name for each in core.other_missing)
    message = f"FFmpeg {core.ffmpeg_major} does not load: `{missing.requester.path}` needs " + (
        f"`{missing.name}`, but {wrong}" if wrong else f"{names}, not in any folder searched"
    )
    if missing.name.startswith("libc.musl-"):
        return Problem(message, f"It is built for musl: use a build of FFmpeg {core.ffmpeg_major} for glibc")
    if ffmpeg.PRIVATE.search(missing.name):
        return Problem(message, "Take along every library that lies beside FFmpeg's in its wheel")
    return Problem(
        message, "Install the system package that holds it on the node, or use an FFmpeg that brings its own libraries"
    )


def _misfit(fault: Fault, core: Core, seen: Observation) -> Problem:
    """A symbol or version that is not there: whose fault it is tells the cure."""
    what = f"version `{fault.wanted}`" if fault.is_version else f"the symbol `{fault.wanted}`"
    of = f"`{fault.provider}` does not offer" if fault.provider else "nothing loaded with it offers"
    message = f"`{fault.library}` needs {what}, which {of}"
    torch = seen.layout.torch
    if ffmpeg.SYMBOL.fullmatch(fault.wanted) or ffmpeg.is_ffmpeg(os.path.basename(fault.provider)):
        return Problem(
            f"{message}: it was made for another FFmpeg {core.ffmpeg_major}",
            f"Use an FFmpeg {core.ffmpeg_major} of one build, or another FFmpeg major",
        )
    if TORCH_SYMBOL.fullmatch(fault.wanted) and torch is not None:
        return Problem(
            f"{message}: {seen.torchcodec} and torch {torch.version} were not made for each other",
            "Install a torch and a torchcodec that belong together; FFmpeg is not the cause",
        )
    if fault.is_version:
        return Problem(
            message, f"Use a build for the system of the node, or a newer `{os.path.basename(fault.provider)}`"
        )
    return Problem(message, "Another copy of the library that has it is found first: take it off LD_LIBRARY_PATH")


def _absent(seen: Observation, folders: Sequence[str]) -> Problem:
    """No FFmpeg that a core is for, in any folder searched: the nearest explanation."""
    for explain in (_passed_over, _unlinked, _unsupported, _private):
        problem = explain(seen, _ffmpeg_files(seen, folders))
        if problem is not None:
            return problem
    majors = listed(sorted(core.ffmpeg_major for core in seen.cores), "or")
    message = f"No FFmpeg in any folder searched: {seen.torchcodec} needs the shared libraries of FFmpeg {majors}"
    gone = [folder for folder in folders if not os.path.isdir(folder)]
    nested = [lib for folder in folders if _holds_ffmpeg(seen, lib := os.path.join(folder, "lib"))]
    if gone:
        return Problem(f"{message}; there is no folder {quoted(gone)}", "Stage FFmpeg, or correct `ffmpeg_dirs`")
    if nested:
        return Problem(message, f"They are in `{nested[0]}`: give that folder")
    return Problem(message, "Give the folder of FFmpeg's libraries; the program `ffmpeg` is not used")


def _ffmpeg_files(seen: Observation, folders: Sequence[str]) -> list[str]:
    """Every file with the name of an FFmpeg library, whatever its version, where one is looked for."""
    system = seen.process.system
    given = [(folder, name) for folder in folders for name in sorted(system.listing(folder))]
    return [
        *(os.path.join(folder, name) for folder, name in given if ffmpeg.is_ffmpeg(name)),
        *(path for name in sorted(system.names()) if ffmpeg.is_ffmpeg(name) for path in system.candidates(name)),
    ]


def _holds_ffmpeg(seen: Observation, folder: str) -> bool:
    return any(map(ffmpeg.is_ffmpeg, seen.process.system.listing(folder)))


def _passed_over(seen: Observation, _files: list[str]) -> Problem | None:
    for path, why in seen.process.passed_over.items():
        if ffmpeg.is_ffmpeg(os.path.basename(path)):
            return Problem(f"No FFmpeg that loads: `{path}` {why}", f"Stage FFmpeg for {seen.machine} again")
    return None


def _unlinked(seen: Observation, files: list[str]) -> Problem | None:
    needs = {name for core in seen.cores for name in core.needs if name not in core.found}
    for path in files:
        name = os.path.basename(path)
        soname = ffmpeg.plain_soname(name)
        if soname in needs and soname != name and not ffmpeg.is_private(name):
            return Problem(
                f"`{path}` is there without its link `{soname}`, the name that torchcodec asks for",
                "Unpack FFmpeg again with its symbolic links",
            )
    return None


def _unsupported(seen: Observation, files: list[str]) -> Problem | None:
    majors = [core.ffmpeg_major for core in seen.cores]
    for path in files:
        name = os.path.basename(path)
        if name.startswith("libavutil.so.") and name == ffmpeg.plain_soname(name):
            version = ffmpeg.major_of(name)
            which = f"FFmpeg {version}" if version else "of a newer FFmpeg than is known here"
            newer = version is None or version > max(majors)
            wanted = f"{max(majors)} or older" if newer else listed(sorted(majors), "or")
            return Problem(
                f"The FFmpeg found, `{path}`, is {which}, and {seen.torchcodec} has cores for {listed(sorted(majors))}",
                f"Use FFmpeg {wanted}, or {'a newer' if newer else 'another'} torchcodec",
            )
    return None


def _private(_seen: Observation, files: list[str]) -> Problem | None:
    for path in files:
        name = os.path.basename(path)
        if ffmpeg.is_private(name):
            return Problem(
                f"`{path}` is a wheel's private copy: its name does not satisfy `{ffmpeg.plain_soname(name)}`",
                "Link each of its libraries under the soname in a folder that is searched",
            )
    return None
