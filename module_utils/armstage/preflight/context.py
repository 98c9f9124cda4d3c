"""What the checks look at. Each is read once, when the first check asks for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..elf.abi import as_numbers
from ..elf.environment import Layout, layout
from ..elf.reader import ElfFile, machine_of, read
from ..elf.search import Root, System
from ..errors import ArmstageError
from ..files import read_text
from ..memory.holders import Holders, gpu_holders
from ..nvidia import driver
from ..staging.record import Release, read_manifest, read_release
from ..wheels import Distribution, installed
from .model import Fact
from .request import Request

if TYPE_CHECKING:
    from ..memory.meminfo import Memory

ARCH = "aarch64"
"""The machine that everything staged is for."""

GPU_CODE = ("cuda", "amdgpu", "bpf")
"""Machines of ELF files that no processor runs."""

TEXT_SUFFIXES = tuple(
    f".{suffix}"
    for suffix in (
        *("a", "bat", "bc", "bz2", "c", "cc", "cfg", "cmake", "cpp", "csh", "css", "csv", "cu", "cuh", "dat", "exe"),
        *("f", "f90", "fish", "gz", "h", "hpp", "html", "in", "ini", "inl", "js", "json", "lib", "md", "nu", "npy"),
        *("npz", "pc", "pem", "pdf", "png", "ps1", "pth", "pxd", "pxi", "py", "pyc", "pyf", "pyi", "pyx", "rst"),
        *("sh", "svg", "template", "toml", "txt", "typed", "xml", "yaml", "yml", "zip"),
    )
)
"""Ends of names that are no ELF file's, so that those files need not be opened: nine in ten of an environment."""


class Context:
    """The host, the environment and the driver, as far as the checks have asked for them.

    ``driver`` are its facts where they are known already.
    """

    def __init__(self, request: Request, driver: dict[str, Any] | None = None) -> None:
        self.request = request
        if driver is not None:
            self.driver = driver

    @cached_property
    def driver(self) -> dict[str, Any]:
        """The facts of cuda_facts. Raises ArmstageError for a file that cannot be read."""
        timeout = min(10.0, self.request.timeout)
        return driver.read(self.request.root, self.request.nvidia_smi, timeout)

    @property
    def machine(self) -> str:
        return str(self.driver["arch"])

    @property
    def live_host(self) -> bool:
        """Whether the host looked at is this one."""
        return os.path.normpath(self.request.root) == "/"

    @property
    def has_gpu(self) -> bool:
        return bool(self.driver["gpus"])

    @property
    def gpu_name(self) -> str:
        return next((gpu["name"] for gpu in self.driver["gpus"] if gpu["name"]), "GPU")

    def without_gpu(self) -> str:
        """Why a check of the GPU has nothing to look at; empty where there is a GPU."""
        if self.has_gpu:
            return ""
        return "no GPU is seen here" if self.driver["kernel_driver"] else "no NVIDIA driver here"

    def driver_fact(self, name: str) -> Fact:
        """One of the driver's values with its own provenance."""
        origin = self.driver["sources"].get(name, {"source": "", "line": ""})
        return Fact(name, str(self.driver[name]), f"{origin['source']}: {origin['line']}")

    @cached_property
    def memory(self) -> Memory:
        from ..memory.meminfo import read_memory

        return read_memory(self.request.root)

    @cached_property
    def holders(self) -> Holders:
        return gpu_holders(self.request.root)

    @property
    def page_size(self) -> int:
        """Bytes of a page of this host."""
        return os.sysconf("SC_PAGE_SIZE")

    @cached_property
    def tree(self) -> Root:
        """What stands for `/` to the loader: the tree below root where it is a whole one, else this host's."""
        root = self.request.root
        whole = any(os.path.isdir(os.path.join(root, folder)) for folder in ("lib", "usr/lib"))
        return Root(root if whole else "/")

    @cached_property
    def system(self) -> System:
        """What the loader of the host would search."""
        return System(self.tree, ARCH)

    @cached_property
    def staged(self) -> str:
        """The staged root, or an empty text."""
        given = self.request.staged or self.request.environ.get("ARMSTAGE_ROOT", "")
        if given:
            return os.path.abspath(given)
        for path in (self.env, os.path.realpath(self.env)) if self.env else ():
            folder = os.path.dirname(path)
            if os.path.basename(folder) in ("envs", "store"):
                return os.path.dirname(folder)
        return ""

    @cached_property
    def env(self) -> str:
        """The environment's folder, or an empty text."""
        return self._found_env[0]

    @property
    def env_from(self) -> str:
        """What named the environment."""
        return self._found_env[1]

    @cached_property
    def _found_env(self) -> tuple[str, str]:
        """Given, named by env.sh, chosen from the staged root as env.sh would, or that of this Python."""
        environ = self.request.environ
        if self.request.env:
            return os.path.abspath(self.request.env), "given"
        if environ.get("ARMSTAGE_ENV"):
            return os.path.abspath(environ["ARMSTAGE_ENV"]), "ARMSTAGE_ENV"
        staged = self.request.staged or environ.get("ARMSTAGE_ROOT", "")
        chosen = self._chosen(os.path.join(staged, "envs")) if staged else ""
        return (chosen, f"chosen from {staged}/envs") if chosen else ("", "")

    def _chosen(self, folder: str) -> str:
        """The newest environment that the driver's CUDA allows; without a driver the newest."""
        try:
            names = os.listdir(folder)
        except OSError:
            return ""
        cuda = self.driver["cuda_version"]
        tags = {name: (int(match[1]), int(match[2])) for name in names if (match := re.fullmatch(r"cu(\d+)(\d)", name))}
        fitting = [name for name, version in tags.items() if not cuda or version <= as_numbers(cuda)]
        newest = max(fitting or list(tags), key=lambda name: tags[name], default="")
        return os.path.join(folder, newest) if newest else ""

    @cached_property
    def layout(self) -> Layout:
        """The parts of the environment. Raises ArmstageError where the folder is none."""
        return layout(self.env)

    @cached_property
    def unfinished(self) -> list[str]:
        """What is wrong with the distributions that are not among ``packages``."""
        return []

    @cached_property
    def packages(self) -> dict[str, Distribution]:
        return installed(self.layout.site, self.unfinished)

    @cached_property
    def record(self) -> Release | None:
        """What was staged, as it was recorded beside it."""
        return read_release(os.path.realpath(self.env)) if self.env else None

    @cached_property
    def releases(self) -> list[dict[str, Any]]:
        """What the root's manifest.json lists."""
        return list(read_manifest(self.staged).get("releases", [])) if self.staged else []

    @property
    def cpu_torch(self) -> bool:
        """Whether torch is there without CUDA: the cause behind whatever else fails then."""
        return self.layout.torch is not None and not self.layout.torch.cuda

    @cached_property
    def elves(self) -> tuple[list[ElfFile], list[str]]:
        """Every ELF file of the environment, and what is wrong with those that can't be read."""
        files: list[ElfFile] = []
        broken: list[str] = []
        for path in candidates(os.path.realpath(self.env), broken):
            file = _read(path, broken)
            if file is not None:
                files.append(file)
        return files, broken

    @property
    def python(self) -> str | None:
        """The environment's interpreter, or that it was made from; None where this host has none for aarch64."""
        return self.layout.python(self.tree, ARCH)

    def below(self, path: str) -> str:
        """A path of the host as it lies below the root."""
        return os.path.join(self.request.root, path.lstrip("/"))

    def text(self, path: str) -> str:
        """The text of one of the host's files without spaces around it; empty where it cannot be read."""
        try:
            return (read_text(self.below(path)) or "").strip()
        except ArmstageError:
            return ""

    def listed(self, path: str) -> list[str]:
        """The names in one of the host's folders; none where it cannot be listed."""
        try:
            return sorted(os.listdir(self.below(path)))
        except OSError:
            return []


def _read(path: str, broken: list[str]) -> ElfFile | None:
    """An ELF file that a processor runs; None for another file, and for one that can't be read, noted in ``broken``."""
    try:
        return None if machine_of(path) in (None, *GPU_CODE) else read(path)
    except ArmstageError as error:
        broken.append(error.message)
        return None


def candidates(folder: str, broken: list[str]) -> Iterator[str]:
    """The files under a folder that may be ELF by their names. Links are not followed.

    What cannot be listed is noted in ``broken``.
    """
    folders = [folder]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError as error:
            broken.append(f"Failed to list `{folder}`: {error.strerror}")
            continue
        folders.extend(sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False)))
        files = (entry for entry in entries if not entry.name.endswith(TEXT_SUFFIXES))
        yield from sorted(entry.path for entry in files if entry.is_file(follow_symlinks=False))


def shown(path: str, folder: str) -> str:
    """A path as it is named in a sentence: from the folder on where it lies below it."""
    real = os.path.realpath(folder)
    return os.path.relpath(path, real) if path.startswith(real + os.sep) else path


def variables(environ: Mapping[str, str], *names: str) -> dict[str, str]:
    """Those of the named variables that are set to something."""
    return {name: environ[name] for name in names if environ.get(name)}
