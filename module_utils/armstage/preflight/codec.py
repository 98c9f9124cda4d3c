"""A4: torchcodec loads one of its cores with the FFmpeg that a job would find, by the model of the dynamic loader."""

from __future__ import annotations

import os
import re

from ..elf.torchcodec import Inspection, inspect
from ..files import read_text
from .context import ARCH, Context
from .model import FAIL, PASS, SKIP, Fact, Finding

NVCUVID = "libnvcuvid.so.1"
"""What torchcodec opens at run time to decode on the GPU (NVCUVIDRuntimeLoader.cpp, torchcodec 0.17.0)."""


def check(context: Context) -> Finding:
    if "torchcodec" not in context.packages and not context.layout.cores:
        return Finding(SKIP, f"torchcodec is not installed in `{context.env}`")
    if context.cpu_torch:
        return Finding(SKIP, "not judged while torch is a CPU build, with which no CUDA torchcodec loads (A3)")
    folders, libraries, path_from = search_path(context)
    seen = inspect(
        env=context.env,
        ffmpeg_dirs=folders,
        root=context.tree.path,
        library_dirs=libraries,
        ffmpeg_major=staged_major(context),
        elf_machine=ARCH,
    )
    facts = (
        Fact("LD_LIBRARY_PATH", ":".join([*folders, *(libraries or ())]), path_from),
        Fact("torchcodec core", str(seen.selected_core), context.layout.folder),
    )
    if not seen.ok:
        messages = "; ".join(problem["message"] for problem in seen.problems)
        if context.tree.path == "/" and only_libpython(seen) and os.uname().machine != ARCH:
            detail = f"{messages}; a node's own Python may bring it, and this host is {os.uname().machine} (A1)"
            return Finding(SKIP, detail, source=context.layout.folder, facts=facts)
        return Finding(FAIL, messages, seen.hint, context.layout.folder, facts)
    return Finding(PASS, f"{seen.message}; {proven(context)}", source=context.layout.folder, facts=facts)


def search_path(context: Context) -> tuple[list[str], list[str] | None, str]:
    """FFmpeg's folders, the library folders after them, and where both come from.

    Of a job that sourced env.sh its own LD_LIBRARY_PATH, else what env.sh would set.
    """
    given = [folder for folder in re.split("[:;]", context.request.environ.get("LD_LIBRARY_PATH", "")) if folder]
    ffmpeg = os.path.join(context.staged, "ffmpeg-linuxarm64/lib") if context.staged else ""
    if not os.path.isdir(ffmpeg):
        return given, None, "environment"
    if os.path.realpath(ffmpeg) in map(os.path.realpath, given):
        return given, [], "environment"
    file = os.path.join(context.env, "share/armstage/library_dirs")
    needed = read_text(file)
    if needed is None:
        return [ffmpeg, *given], None, "env.sh's rule"
    return [ffmpeg], [*(os.path.join(context.env, line) for line in needed.split()), *given], file


def only_libpython(seen: Inspection) -> bool:
    """Whether all that is missing is Python's own library, which a host of another machine can't know of."""
    return len(seen.problems) == 1 and all(name.startswith("libpython") for name in seen.other_missing or ("",))


def staged_major(context: Context) -> int | None:
    """The major of the staged FFmpeg, ``n7.1.5-12-g1fdbca85aa``: another that loads as well is not that one."""
    versions = [str(release.get("version")) for release in context.releases if release.get("name") == "ffmpeg"]
    majors = {int(match[1]) for version in versions if (match := re.match(r"n?(\d+)\.", version))}
    return majors.pop() if len(majors) == 1 else None


def proven(context: Context) -> str:
    """How much that proves: nothing was decoded, and by the GPU least of all."""
    if not context.has_gpu:
        return "it was not run, and there is no GPU here to decode on"
    if not any(True for _path in context.system.candidates(NVCUVID)):
        return f"it was not run; only the CPU can decode here, for `{NVCUVID}` is not on this node"
    return "it was not run; a decode on the CPU (`./armstage verify`) says nothing about the GPU's decoder"
