"""What keeps torchcodec from loading, in words: each problem with the one thing that cures it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .abi import as_numbers, glibc_required, stack_refused
from .cores import Observation
from .environment import TORCH_LIBRARY
from .ffmpeg_diagnosis import no_ffmpeg, selected_ffmpeg
from .loader import Library, Missing
from .words import Problem, found_wrong, listed, quoted

FIRST_AARCH64 = "0.11"
"""The first torchcodec with aarch64 wheels on PyPI (2026-03-24)."""

CUDA_PACKAGES = {
    r"libnpp\w+": "nvidia-npp",
    r"libnvrtc(-builtins)?": "nvidia-cuda-nvrtc",
    r"libcudart": "nvidia-cuda-runtime",
    r"libcupti": "nvidia-cuda-cupti",
    r"libnvJitLink": "nvidia-nvjitlink",
    r"libnvjpeg": "nvidia-nvjpeg",
    r"libcublas(Lt)?": "nvidia-cublas",
    r"libcufftw?": "nvidia-cufft",
    r"libcurand": "nvidia-curand",
    r"libcusolver(Mg)?": "nvidia-cusolver",
    r"libcusparse": "nvidia-cusparse",
    r"libcufile(_rdma)?": "nvidia-cufile",
    r"libcudnn\w*": "nvidia-cudnn-cu13",
    r"libcusparseLt": "nvidia-cusparselt-cu13",
    r"libnccl": "nvidia-nccl-cu13",
    r"libnvshmem_host": "nvidia-nvshmem-cu13",
}
"""Stem of a CUDA library: the PyPI distribution that holds it for CUDA 13 (2026-11-30)."""

_FOLLOWS_CUDA = re.compile(r"lib(npp\w+|nvrtc|cudart|cupti|nvJitLink|nvjpeg)\.so\.(?P<major>\d+)")
_LIBPYTHON = re.compile(r"libpython(?P<version>3\.\d+)t?\.so\.1\.0")


@dataclass(frozen=True)
class Expected:
    """What the stack asks for, and what the node offers; None where that is not known.

    ``page_size`` is in bytes, ``ffmpeg_dirs`` are the folders that FFmpeg was to be found in.
    """

    ffmpeg_major: int | None = None
    glibc: str | None = None
    page_size: int | None = None
    ffmpeg_dirs: tuple[str, ...] = ()


def diagnose(seen: Observation, expected: Expected, judged: list[Library]) -> list[Problem]:
    """The problems of an environment, the one to cure first at the head; none when it loads.

    ``judged`` are the libraries of torchcodec and FFmpeg that would be loaded.
    """
    first = _no_cores(seen) or _wrong_machine(seen)
    if first is not None:
        return [first]
    problems = list(_outside_ffmpeg(seen))
    if seen.selected is None:
        problems.append(no_ffmpeg(seen, expected.ffmpeg_major, expected.ffmpeg_dirs))
    else:
        problems.extend(selected_ffmpeg(seen, seen.selected, expected.ffmpeg_major))
    return [*problems, *_host(expected, judged)]


def _no_cores(seen: Observation) -> Problem | None:
    folder, version = seen.layout.folder, seen.layout.torchcodec.version
    if seen.layout.cores:
        return None
    if not os.path.isdir(folder):
        message = f"torchcodec is not installed in `{seen.layout.site}`"
    elif version.startswith("0.0.0"):
        message = f"torchcodec {version} in `{folder}` is a placeholder that holds no libraries"
    else:
        message = f"{seen.torchcodec} in `{folder}` holds no core: expected libtorchcodec_core*.so"
    return Problem(message, f"Install torchcodec {FIRST_AARCH64} or newer, the first with aarch64 wheels")


def _wrong_machine(seen: Observation) -> Problem | None:
    machines = {seen.process.wrong_arch[path] for path in seen.layout.files if path in seen.process.wrong_arch}
    if not machines:
        return None
    return Problem(
        f"{seen.torchcodec} in `{seen.layout.folder}` is for {listed(sorted(machines))}, expected {seen.machine}",
        f"Install it again with uv pip install --python-platform {seen.machine}-manylinux_2_28",
    )


def _outside_ffmpeg(seen: Observation) -> Iterator[Problem]:
    """Needs that are not FFmpeg's: one problem for a torch that does not fit, then one per cure."""
    for name in seen.layout.lost:
        yield Problem(f"{seen.torchcodec} lacks `{name}`, which its wheel brought", "Install torchcodec again")
    torch, rest = _torch(seen)
    if torch is not None:
        yield torch
    cures: dict[str, list[Missing]] = {}
    for missing in rest:
        cures.setdefault(_cure(missing, seen), []).append(missing)
    for hint, group in cures.items():
        yield Problem(_need(group, seen), hint)


def _torch(seen: Observation) -> tuple[Problem | None, list[Missing]]:
    """A torch that torchcodec cannot work with, and the needs that it does not explain."""
    torch, unmet = seen.layout.torch, seen.unmet
    lacks = [each.name for each in unmet if TORCH_LIBRARY.fullmatch(each.name)]
    cuda = {each.name: match["major"] for each in unmet if (match := _FOLLOWS_CUDA.fullmatch(each.name))}
    here = (torch.cuda or "").partition(".")[0] if torch else ""
    if torch is None and lacks:
        problem = Problem(
            f"torch is not installed in `{seen.layout.site}`, and {seen.torchcodec} needs it",
            "Install the torch that this torchcodec was made for into the same environment",
        )
    elif torch is not None and not here and any(name.endswith("_cuda.so") for name in lacks):
        problem = Problem(
            f"torch {torch.version} here is a CPU build, and {seen.torchcodec} needs {quoted(lacks)}",
            "Install a CUDA build of torch: from PyPI torch 2.11.0 or newer, or from a PyTorch index such as cu130",
        )
    elif torch is not None and here and cuda and here not in cuda.values():
        problem = Problem(
            f"torch {torch.version} brings CUDA {here}, and {seen.torchcodec} needs"
            f" CUDA {listed(sorted(set(cuda.values())))}: {quoted(cuda)}",
            "Install torch and torchcodec from the same wheel index",
        )
    else:
        return None, unmet
    return problem, [each for each in unmet if each.name not in lacks and _cuda_package(each.name) is None]


def _need(group: list[Missing], seen: Observation) -> str:
    wrong, requester = found_wrong(group[0], seen.process), group[0].requester
    if requester is None:
        return wrong
    if wrong:
        return f"`{requester.path}` needs `{group[0].name}`, but {wrong}"
    if os.path.dirname(requester.path) == seen.layout.folder:
        who = seen.torchcodec
    elif requester is seen.process.executable:
        who = f"The environment's Python, `{requester.path}`,"
    else:
        who = f"`{requester.path}`"
    verb = "are" if len(group) > 1 else "is"
    return f"{who} needs {quoted(each.name for each in group)}, which {verb} in no folder searched"


def _cure(missing: Missing, seen: Observation) -> str:
    torch = seen.layout.torch
    package = _cuda_package(missing.name)
    python = _LIBPYTHON.fullmatch(missing.name)
    elsewhere = [folder for folder in seen.own_folders() if missing.name in os.listdir(folder)]
    if found_wrong(missing, seen.process):
        return "Install what that file belongs to again"
    if elsewhere:
        return f"Put `{elsewhere[0]}` on LD_LIBRARY_PATH: it is there"
    if package is not None:
        cuda = torch.cuda if torch and torch.cuda else missing.name.rpartition(".so.")[2]
        return f"Install {_pinned(package, missing.name, cuda)} into the environment"
    if python:
        return (
            f"Use a CPython {python['version']} that brings it, as uv's do, or install the system package"
            f" libpython{python['version']}"
        )
    if TORCH_LIBRARY.fullmatch(missing.name):
        return "Install torch again, or the torchcodec that was made for this torch"
    return "Install the system package that holds it"


def _cuda_package(name: str) -> str | None:
    stem = name.partition(".so")[0]
    return next((package for pattern, package in CUDA_PACKAGES.items() if re.fullmatch(pattern, stem)), None)


def _pinned(package: str, library: str, cuda: str) -> str:
    """The distribution of a library for this CUDA, as ``13.0``; pinned where its version is CUDA's."""
    major, _, minor = cuda.partition(".")
    if major == "12":
        package = package.replace("-cu13", "") + "-cu12"
    if not _FOLLOWS_CUDA.fullmatch(library):
        return package
    if not minor.isdigit():
        return f"{package}>={major},<{int(major) + 1}" if major.isdigit() else package
    return f"{package}>={major}.{minor},<{major}.{int(minor) + 1}"


def _host(expected: Expected, libraries: list[Library]) -> Iterator[Problem]:
    """Libraries that are made for a newer glibc, or for smaller pages, than the node has; or for an older glibc."""
    newest = glibc_required(libraries)
    if newest and expected.glibc and as_numbers(newest) > as_numbers(expected.glibc):
        needing = [each.path for each in libraries if glibc_required([each]) == newest]
        yield Problem(
            f"`{needing[0]}` needs glibc {newest}, and the node has {expected.glibc}",
            f"Use a build for glibc {expected.glibc} or older: BtbN's FFmpeg and manylinux_2_28 wheels need 2.28",
        )
    refused = [each.path for each in libraries if stack_refused(each, expected.glibc)]
    if refused:
        yield Problem(
            f"`{refused[0]}` asks for an executable stack, and glibc {expected.glibc} of the node does not load such",
            f"Use a newer build of it, or clear the mark (patchelf 0.18): patchelf --clear-execstack {refused[0]}",
        )
    size = expected.page_size
    small = [each.path for each in libraries if size and not each.elf.page_size_ok(size)]
    if small:
        yield Problem(
            f"`{small[0]}` is not aligned for the node's pages of {size} bytes",
            f"Use a build linked with -z max-page-size={size}",
        )
