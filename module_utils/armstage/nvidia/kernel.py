"""The kernel side: what the loaded nvidia module says of itself, without any NVIDIA library.

`/sys/module/nvidia/version` holds the version alone. `/proc/driver/nvidia/version` holds two lines;
the second names the compiler and has a version of its own:

    NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.142  Release Build  (...)  Tue ...
    GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from ..files import read_text
from .reading import GPU_FIELDS, Reading, as_text, as_version, record

SYS_VERSION = "sys/module/nvidia/version"
PROC_VERSION = "proc/driver/nvidia/version"
PROC_GPUS = "proc/driver/nvidia/gpus"
MODULE_FOLDERS = ("updates/dkms", "extra", "updates", "kernel/drivers/video")
SUFFIXES = ("", ".xz", ".zst", ".gz")

ARCH = re.compile(r"\b(?:aarch64|x86_64|ppc64le)\b")

AFTER_MODULE = re.compile(r"(?:\s+for\s+(\w+))?\s+(\S+)")
"""An architecture (or none: older modules name it first), then the version."""

JETSON_BUILDER = "(buildbrain@mobile"
"""Who built the module on a Jetson, in the NVRM line (seen on 34.1.1, 35.3.1 and 540.4.0)."""


@dataclass(frozen=True)
class Module:
    """The NVRM line of `/proc/driver/nvidia/version`, read."""

    version: str | None
    flavour: str | None
    arch: str | None
    jetson: bool
    line: str


@dataclass
class Kernel:
    """The kernel side of a host; ``loaded`` is True when there is any trace of a loaded module."""

    loaded: bool = False
    readings: list[Reading] = field(default_factory=list)
    module: Module | None = None
    unreadable: list[str] = field(default_factory=list)
    gpus: list[dict[str, Any]] | None = None
    """None where the module lists no devices at all, [] where its list is empty."""
    module_file: str | None = None
    """A nvidia.ko that is installed, looked for when none is loaded."""


def read(root: str = "/") -> Kernel:
    """The kernel side below ``root``. Raises ArmstageError for a file that is there but unreadable."""
    kernel = Kernel()
    sys_text = read_text(os.path.join(root, SYS_VERSION))
    proc_text = read_text(os.path.join(root, PROC_VERSION))
    kernel.loaded = sys_text is not None or proc_text is not None
    if sys_text is not None:
        _add(kernel, SYS_VERSION, as_version(sys_text), sys_text.strip())
    if proc_text is not None:
        kernel.module = parse_proc(proc_text)
        _add(kernel, PROC_VERSION, kernel.module.version, kernel.module.line)
    if kernel.loaded:
        kernel.gpus = _gpus(root)
    else:
        kernel.module_file = installed_module(root)
    return kernel


def _add(kernel: Kernel, path: str, version: str | None, line: str) -> None:
    if version is None:
        kernel.unreadable.append(f"`/{path}` holds no driver version: `{line[:120]}`")
    else:
        kernel.readings.append(Reading(version, f"/{path}", line))


def parse_proc(text: str) -> Module:
    """Read the text of `/proc/driver/nvidia/version`; only its NVRM line counts."""
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    name, _module, rest = line.partition("Kernel Module")
    after = AFTER_MODULE.match(rest)
    arch = ARCH.search(name) or ARCH.fullmatch((after and after[1]) or "")
    return Module(
        version=as_version(after[2]) if after else None,
        flavour=("open" if name.endswith("Open ") else "proprietary") if rest else None,
        arch=arch[0] if arch else None,
        jetson=JETSON_BUILDER in line,
        line=line.strip() or text.split("\n", 1)[0].strip(),
    )


def _gpus(root: str) -> list[dict[str, Any]] | None:
    """The devices the module has bound, in PCI order, which is nvidia-smi's order as well."""
    folder = os.path.join(root, PROC_GPUS)
    try:
        addresses = sorted(os.listdir(folder))
    except OSError:
        return None
    return [
        record(GPU_FIELDS, index=index, **_information(os.path.join(folder, address, "information")))
        for index, address in enumerate(addresses)
    ]


def _information(path: str) -> dict[str, str | None]:
    """Name, UUID and bus address from `Model: \\t\\t NVIDIA GB10` and the lines after it."""
    lines = (line.partition(":") for line in (read_text(path) or "").splitlines())
    values = {key.strip(): as_text(value) for key, _colon, value in lines}
    uuid = values.get("GPU UUID")
    return {
        "name": values.get("Model"),
        "uuid": None if uuid is None or "?" in uuid else uuid,
        "bus_id": values.get("Bus Location"),
    }


def installed_module(root: str = "/") -> str | None:
    """The path below ``root`` of an installed nvidia.ko, or None.

    On the running system only the running kernel's modules count: those of another kernel cannot
    be loaded.
    """
    modules = os.path.join(root, "lib/modules")
    try:
        releases = [os.uname().release] if root == "/" else sorted(os.listdir(modules))
    except OSError:
        return None
    for release in releases:
        folder = os.path.join(modules, release)
        dependencies = read_text(os.path.join(folder, "modules.dep"), limit=16 * 1024 * 1024) or ""
        listed = (line.partition(":")[0] for line in dependencies.splitlines())
        usual = (f"{place}/nvidia.ko{suffix}" for place in MODULE_FOLDERS for suffix in SUFFIXES)
        found = next((path for path in listed if "/nvidia.ko" in path), None) or next(
            (path for path in usual if os.path.exists(os.path.join(folder, path))), None
        )
        if found:
            return f"/lib/modules/{release}/{found}"
    return None
