"""Which machine this is, and whether its GPU has memory of its own.

Names and PCI ids: what nvidia-smi and lspci of those machines print, and pci.ids of 2026-09-18.
DGX Spark: `sys_vendor` NVIDIA, `product_name` NVIDIA_DGX_Spark, `board_name` P4242 (read on a GB10
with firmware 5.36_0ACUM018). Dell, ASUS, Lenovo and others sell the same board under names of their
own, so the GPU is asked first, then its PCI id, and DMI last.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from ..files import read_text
from .reading import Reading

NVIDIA = "0x10de"


class Platform(NamedTuple):
    """How a platform is recognised; ``unified`` says that CPU and GPU share one memory."""

    name: str
    unified: bool
    gpu: str
    capabilities: tuple[str, ...]
    pci: tuple[str, ...]
    firmware: str


PLATFORMS = (
    Platform(
        "spark",
        unified=True,
        gpu=r"\bGB10\b|\bN1X\b",
        capabilities=("12.1",),
        pci=("0x2e12",),
        firmware=r"DGX[_ ]Spark|\bGB10\b|\bGX10\b",
    ),
    Platform(
        "jetson",
        unified=True,
        gpu=r"\bnvgpu\b|\bTegra\b|\bOrin\b|\bXavier\b|\bThor\b",
        capabilities=("7.2", "8.7", "11.0"),
        pci=(),
        firmware=r"\bJetson\b|nvidia,tegra",
    ),
    Platform(
        "grace-blackwell",
        unified=False,
        gpu=r"\bGB[23]00\b",
        capabilities=(),
        pci=("0x2941", "0x31c2", "0x31c3"),
        firmware=r"\bGB[23]00\b",
    ),
    Platform(
        "grace-hopper",
        unified=False,
        gpu=r"\bGH200\b",
        capabilities=(),
        pci=("0x2342", "0x2348"),
        firmware=r"\bGH200\b",
    ),
)

FIRMWARE_FILES = (
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/product_family",
    "proc/device-tree/compatible",
    "proc/device-tree/model",
)


def platform(gpus: list[dict[str, Any]], jetson_module: str | None, root: str) -> Reading:
    """The platform by its GPUs, else by PCI and firmware below ``root``; `other` when none fits.

    ``jetson_module`` is the NVRM line of a module that was built for a Jetson.
    """
    for gpu in gpus:
        for known in PLATFORMS:
            if gpu["name"] and re.search(known.gpu, gpu["name"]):
                return Reading(known.name, "GPU name", gpu["name"])
    for gpu in gpus:
        for known in PLATFORMS:
            if gpu["compute_capability"] in known.capabilities:
                return Reading(known.name, "compute capability", gpu["compute_capability"])
    if jetson_module:
        return Reading("jetson", "/proc/driver/nvidia/version", jetson_module)
    devices = list(_pci_devices(root))
    for known in PLATFORMS:
        for path, device in devices:
            if device in known.pci:
                return Reading(known.name, path, device)
    for path in FIRMWARE_FILES:
        text = (read_text(os.path.join(root, path)) or "").replace("\0", " ").strip()
        for known in PLATFORMS:
            if re.search(known.firmware, text):
                return Reading(known.name, f"/{path}", text)
    return Reading("other", "GPU name, PCI and firmware", "none that is known")


def unified(platform_name: str) -> bool:
    return any(known.unified for known in PLATFORMS if known.name == platform_name)


def memory_total_mib(root: str = "/") -> Reading | None:
    """MemTotal of `/proc/meminfo` in MiB, or None where there is no such line."""
    text = read_text(os.path.join(root, "proc/meminfo")) or ""
    match = re.search(r"^MemTotal:\s+(\d+) kB$", text, re.MULTILINE | re.ASCII)
    return Reading(int(match[1]) // 1024, "/proc/meminfo", match[0]) if match else None


def _pci_devices(root: str) -> list[tuple[str, str]]:
    """(path, device id) of the NVIDIA devices on the PCI bus."""
    folder = os.path.join(root, "sys/bus/pci/devices")
    try:
        addresses = sorted(os.listdir(folder))
    except OSError:
        return []
    found = []
    for address in addresses:
        if (read_text(os.path.join(folder, address, "vendor")) or "").strip() == NVIDIA:
            device = read_text(os.path.join(folder, address, "device")) or ""
            found.append((f"/sys/bus/pci/devices/{address}/device", device.strip()))
    return found
