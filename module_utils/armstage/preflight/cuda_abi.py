"""G1: every library of the environment is for the CUDA major of its torch, and no two majors' packages are mixed.

CUDA 12 and 13 differ in the sonames of only some libraries: libcudart, libnvrtc, libcublas and those
below follow the toolkit's major, libcufft and libcusolver have numbers of their own, libcusparse and
libcurand the same for both, and libnccl and libcudnn carry none, so that there only the package's name tells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ..elf.reader import ElfFile
from ..elf.words import listed
from .context import Context, shown
from .model import FAIL, PASS, SKIP, WARN, Fact, Finding, worst
from .thresholds import THRESHOLDS
from .torch_build import absent

FOLLOWS_CUDA = re.compile(r"lib(cudart|nvrtc|cublas|cublasLt|cupti|nvJitLink|nvjpeg|npp\w+)\.so\.(\d+)(\.\d+)?")

PACKAGE = re.compile(r"nvidia-(?P<library>[a-z0-9-]+?)-cu(?P<major>\d\d)")

SINCE_13 = re.compile(r"nvidia-(cuda-runtime|cuda-nvrtc|cuda-cupti|cublas|nvjitlink|nvtx|npp|nvjpeg)|cuda-toolkit")
"""Packages that from CUDA 13 on have no CUDA version in their names, and whose version is CUDA's (PyPI, 2026-08)."""

NAMED_CUDA = re.compile(r"cu(?:da)?[_-]?(\d\d)\d?(?!\d)")
"""A CUDA version in a path: ``libbitsandbytes_cuda130.so``, ``nixl_cu12/_bindings.so``."""

ONE_FOLDER = ("nccl", "cudnn", "cusparselt", "nvshmem")
"""Libraries whose CUDA 12 and 13 packages write the same file: the later one wins, whatever torch was built with."""

NO_LINKS = "never link one CUDA major's library under the other's name: they are not compatible"


def check(context: Context) -> Finding:
    torch = context.layout.torch
    if torch is None:
        return Finding(SKIP, f"{absent(context)}, and with it no CUDA to hold against")
    if not torch.version:
        return Finding(SKIP, "not judged while torch is not whole (A3)")
    source = os.path.join(context.layout.site, "torch/version.py")
    if not torch.cuda:
        return Finding(
            FAIL,
            f"torch {torch.version} is a CPU build, so no CUDA program runs here",
            "Install a CUDA build of torch: `./armstage stage`",
            source,
        )
    major = torch.cuda.partition(".")[0]
    files, _broken = context.elves
    needs = [(file, name) for file in files for name in file.needed if cuda_of(name)]
    problems = [*_needs(context, files, major), *_packages(context, major)]
    fine = Finding(
        PASS,
        f"torch {torch.version} is for CUDA {major}, and so are all {len(needs)} needs of CUDA libraries and the"
        " NVIDIA packages beside it",
        source=context.layout.site,
        facts=(Fact("torch CUDA", torch.cuda, source), Fact("needs of CUDA libraries", str(len(needs)), "DT_NEEDED")),
    )
    return worst(problems, fine)


def cuda_of(soname: str) -> str:
    """The CUDA major that a library is of; empty for one that is the same for several."""
    match = FOLLOWS_CUDA.fullmatch(soname)
    return match[2] if match else str(THRESHOLDS["sonames"]["cuda"].get(soname, ""))


def _needs(context: Context, files: list[ElfFile], major: str) -> Iterator[Finding]:
    """Libraries that name another CUDA major's library in DT_NEEDED."""
    there = {name for file in files for name in (file.soname, os.path.basename(file.path)) if name}
    chosen_from = _choices(context, files, major)
    wrong: dict[str, list[ElfFile]] = {}
    for file in files:
        for name in file.needed:
            of = cuda_of(name)
            if of and of != major and file.path not in chosen_from and not _belongs_to(file, context):
                wrong.setdefault(name, []).append(file)
    for name, needy in wrong.items():
        first = shown(needy[0].path, context.env)
        more = f" and {len(needy) - 1} more need" if len(needy) > 1 else " needs"
        detail = f"`{first}`{more} `{name}`, of CUDA {cuda_of(name)}; torch here is for CUDA {major}"
        if name in there:
            hint = f"Two CUDA runtimes would be loaded side by side; install a build for CUDA {major}"
            yield Finding(WARN, detail + ", and both are installed", hint, needy[0].path)
        else:
            hint = f"Install a build of it for CUDA {major}; {NO_LINKS}"
            yield Finding(FAIL, detail, hint, needy[0].path)


def _choices(context: Context, files: list[ElfFile], major: str) -> set[str]:
    """The files that a package brings once for each CUDA, of which it loads the one for torch's (bitsandbytes 0.50.2).

    Those of a package that has none for torch's CUDA are not among them.
    """
    families: dict[str, dict[str, str]] = {}
    site = os.path.realpath(context.layout.site)
    for file in files:
        path = os.path.relpath(os.path.realpath(file.path), site)
        named = NAMED_CUDA.search(path)
        if named:
            families.setdefault(NAMED_CUDA.sub("*", path), {})[file.path] = named[1]
    return {path for family in families.values() if major in family.values() for path in family}


def _belongs_to(file: ElfFile, context: Context) -> bool:
    """Whether the file is one of NVIDIA's own: those need each other, and G1 names their packages instead."""
    nvidia = os.path.join(os.path.realpath(context.layout.site), "nvidia") + os.sep
    return os.path.realpath(file.path).startswith(nvidia)


def _packages(context: Context, major: str) -> Iterator[Finding]:
    """NVIDIA's packages whose name says another CUDA major than torch's."""
    found: dict[str, dict[str, str]] = {}
    for name, distribution in context.packages.items():
        match = PACKAGE.fullmatch(name)
        if match:
            found.setdefault(match["library"], {})[match["major"]] = f"{name} {distribution.version}"
    foreign = [
        f"{name} {each.version}"
        for name, each in context.packages.items()
        if SINCE_13.fullmatch(name) and _major(each.version) not in (int(major), *range(13))
    ]
    for library, packages in found.items():
        others = [package for number, package in packages.items() if number != major]
        if not others:
            continue
        if library in ONE_FOLDER:
            own = packages.get(major)
            detail = f"{others[0]} overwrites the library of {own}" if own else f"{others[0]} is not for CUDA {major}"
            yield Finding(
                FAIL,
                f"{detail}: torch here is for CUDA {major}"
                + (", and NCCL of the other fails with `undefined symbol`" if library == "nccl" else ""),
                f"Remove it and install what torch pins again: `uv pip install --reinstall nvidia-{library}-cu{major}`",
                context.layout.site,
            )
        else:
            foreign += others
    if foreign:
        detail = f"{listed(foreign)} {'are' if len(foreign) > 1 else 'is'} for another CUDA than torch's {major}"
        yield Finding(WARN, detail, "Remove what nothing needs with `uv pip uninstall`", context.layout.site)


def _major(version: str) -> int:
    match = re.match(r"\d{1,4}", version)
    return int(match[0]) if match else 0
