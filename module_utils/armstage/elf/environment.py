"""Where torchcodec, torch and Python lie in an environment, and what importing them would load."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ..errors import ArmstageError
from ..files import read_text
from ..wheels import installed, literals, site_packages
from .loader import Process
from .reader import machine_if_whole
from .search import MAX_LINKS, Root

PRELOADED = frozenset(
    (
        "libcublas",
        "libcublasLt",
        "libcudart",
        "libcudnn",
        "libcufft",
        "libcufile",
        "libcupti",
        "libcurand",
        "libcusolver",
        "libcusparse",
        "libcusparseLt",
        "libnccl",
        "libnvJitLink",
        "libnvToolsExt",
        "libnvrtc",
        "libnvrtc-builtins",
        "libnvshmem_host",
    )
)
"""CUDA libraries that ``import torch`` loads from ``nvidia/*/lib`` by itself; NPP is not one.

Source: ``torch/__init__.py``, ``_preload_cuda_deps``, torch 2.11.0 (2026-03-23).
"""

TORCH_LIBRARY = re.compile(r"lib(c10|torch)(_\w+)?\.so")

LAZY_PARTS = frozenset({"heic"})
"""Files of torchcodec that are loaded only when they are used (0.16 and newer)."""

_PART = re.compile(r"libtorchcodec_?(?P<part>[a-z]+(_[a-z]+)*)?(?P<core>[0-9]+)?(\.[\w-]+)?\.so")
_CORE_KINDS = ("", "core", "decoder")
"""What different versions call the file of a core itself; it is loaded first."""


@dataclass(frozen=True)
class Build:
    """A version as the package itself says it (``2.11.0+cu130``), and the CUDA of torch (``13.0``)."""

    version: str
    cuda: str | None = None


@dataclass(frozen=True)
class Layout:
    """The files of an environment that decide what torchcodec loads.

    ``cores`` maps the number of a core to its files, ``common`` are the files loaded whatever the
    FFmpeg, ``absent`` maps a core to the names of its files that by the other cores should be there,
    ``lost`` are common files that the wheel brought and that are gone.
    """

    env: str
    site: str
    folder: str
    torchcodec: Build
    torch: Build | None
    cores: dict[int, tuple[str, ...]]
    common: tuple[str, ...]
    absent: dict[int, tuple[str, ...]]
    lost: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.common, *(path for paths in self.cores.values() for path in paths))

    def machine(self, root: Root) -> str | None:
        """The machine of the node: aarch64 where anything is for it, else what torchcodec is for.

        What is for another machine beside something for aarch64 is the mistake, not the purpose.
        """
        machines = [machine_if_whole(path) for path in (*self.files, *self._interpreters(root))]
        return "aarch64" if "aarch64" in machines else next(filter(None, machines), None)

    def nvidia_folders(self) -> list[str]:
        """The folders of NVIDIA's wheels, each ``nvidia/<name>/lib``."""
        wheels = _listed(os.path.join(self.site, "nvidia"))
        return [folder for wheel in wheels if os.path.isdir(folder := os.path.join(wheel, "lib"))]

    def python(self, root: Root, machine: str) -> str | None:
        """The interpreter the environment runs on; None where this host has none of the machine."""
        return next((path for path in self._interpreters(root) if machine_if_whole(path) == machine), None)

    def _interpreters(self, root: Root) -> list[str]:
        home = _home(self.env)
        folders = [os.path.join(self.env, "bin"), *([home] if home else ())]
        paths = [_follow(os.path.join(folder, name), root) for folder in folders for name in ("python", "python3")]
        return [path for path in paths if os.path.isfile(path)]


def layout(env: str | None = None, torchcodec_dir: str | None = None) -> Layout:
    """Find the parts of an environment, or of the one around a torchcodec folder.

    Raises ArmstageError where there is no such environment or folder. No torchcodec in an
    environment is no error: there are no cores then.
    """
    if torchcodec_dir is not None:
        folder = os.path.abspath(torchcodec_dir)
        site = os.path.dirname(folder)
        env = os.path.dirname(os.path.dirname(os.path.dirname(site)))
        if not os.path.isdir(folder):
            raise ArmstageError(f"No folder `{torchcodec_dir}`: expected the `torchcodec` folder of a site-packages")
        if os.path.isdir(inner := os.path.join(folder, "torchcodec")):
            raise ArmstageError(f"`{torchcodec_dir}` is the folder that torchcodec is in", hint=f"Give `{inner}`")
    elif env is not None and os.path.isdir(env):
        env = os.path.abspath(env)
        flat = os.path.isdir(os.path.join(env, "torchcodec"))
        site = env if flat else site_packages(env)
        folder = os.path.join(site, "torchcodec")
    else:
        raise ArmstageError(
            f"No folder `{env}`: expected a Python environment",
            hint="Stage it first, or correct the path",
        )
    cores, common, absent = _parts(folder)
    lost = _lost(folder, site)
    return Layout(env, site, folder, _torchcodec(folder, site), _torch(site), cores, common, absent, lost)


def import_torch(process: Process, layout: Layout) -> None:
    """Load what ``import torch`` loads; its own unmet needs end up in ``process.missing``."""
    torch = os.path.join(layout.site, "torch")
    libraries = [path for path in _listed(os.path.join(torch, "lib")) if path.endswith(".so")]
    if any(path.endswith("_cuda.so") for path in libraries):
        for path in (path for folder in layout.nvidia_folders() for path in _listed(folder)):
            stem, dot, _version = os.path.basename(path).partition(".so.")
            if dot and stem in PRELOADED:
                process.try_open(path)
    extension = [path for path in _listed(torch) if re.search(r"/_C\.[^/]*so$", path)]
    for path in extension or libraries:
        process.open(path)


def _parts(
    folder: str,
) -> tuple[dict[int, tuple[str, ...]], tuple[str, ...], dict[int, tuple[str, ...]]]:
    """The (cores, common, absent) of a Layout."""
    cores: dict[int, dict[str, str]] = {}
    common = []
    for path in _listed(folder):
        match = _PART.fullmatch(os.path.basename(path))
        if match and match["core"]:
            cores.setdefault(int(match["core"]), {})[match["part"] or ""] = path
        elif match and match["part"] not in LAZY_PARTS:
            common.append(path)
    kinds = {kind for parts in cores.values() for kind in parts}
    order = sorted(kinds, key=lambda kind: (kind not in _CORE_KINDS, kind))
    files = {core: tuple(parts[kind] for kind in order if kind in parts) for core, parts in cores.items()}
    absent = {
        core: tuple(f"libtorchcodec{'_' if kind else ''}{kind}{core}.so" for kind in order if kind not in parts)
        for core, parts in cores.items()
    }
    return files, tuple(common), absent


def _lost(folder: str, site: str) -> tuple[str, ...]:
    """The common files that the wheel's RECORD names and that are not there; none without a RECORD."""
    records = [path for path in _listed(site) if re.search(r"/torchcodec-[^/]*\.dist-info$", path)]
    record = read_text(os.path.join(records[-1], "RECORD")) if records and os.path.isdir(folder) else None
    named = re.findall(r"^torchcodec/([^/,]+\.so),", record or "", re.MULTILINE)
    parts = {name: match for name in named if (match := _PART.fullmatch(name))}
    return tuple(
        name
        for name, match in parts.items()
        if not match["core"] and match["part"] not in LAZY_PARTS and not os.path.exists(os.path.join(folder, name))
    )


def _torchcodec(folder: str, site: str) -> Build:
    version = literals(os.path.join(folder, "version.py")).get("__version__")
    if version is None and os.path.isdir(site):
        distribution = installed(site, unfinished=[]).get("torchcodec")
        version = distribution.version if distribution else None
    return Build(str(version or ""))


def _torch(site: str) -> Build | None:
    folder = os.path.join(site, "torch")
    if not os.path.isdir(folder):
        return None
    values = literals(os.path.join(folder, "version.py"))
    cuda = values.get("cuda")
    return Build(str(values.get("__version__") or ""), str(cuda) if cuda else None)


def _follow(path: str, root: Root) -> str:
    """The file behind a link; one that leads to an absolute path leads into the system."""
    for _ in range(MAX_LINKS):
        if not os.path.islink(path):
            break
        target = os.readlink(path)
        inside = root.real(target) if target.startswith("/") else ""
        path = inside if os.path.exists(inside) else os.path.join(os.path.dirname(path), target)
    return os.path.realpath(path)


def _home(env: str) -> str | None:
    """``home`` of an environment's pyvenv.cfg: the folder of the interpreter it was made from."""
    for line in (read_text(os.path.join(env, "pyvenv.cfg")) or "").splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() == "home":
            return value.strip()
    return None


def _listed(folder: str) -> list[str]:
    """The paths of what is in a folder, by name; none where there is no such folder."""
    if not os.path.isdir(folder):
        return []
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
