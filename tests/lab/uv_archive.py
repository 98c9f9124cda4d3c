"""uv's release archive, from its PyPI wheel for aarch64: the same binary in the other container."""

from __future__ import annotations

import sys
from pathlib import Path

from .command import output_of
from .host import Host
from .packing import pack

VERSION = "0.10.0"
TARGET = "uv-aarch64-unknown-linux-gnu"
ADDRESS = f"github.com/astral-sh/uv/releases/download/{VERSION}/{TARGET}.tar.gz"
PLATFORM = "aarch64-manylinux_2_28"


def make(work: Path, _host: Host) -> tuple[str, str, Path]:
    """Version, address without scheme, and the archive, made below `work`."""
    wheel, archive = work / "wheel", work / f"{TARGET}.tar.gz"
    command = [sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--python-platform", PLATFORM]
    output_of([*command, "--python-version", "3.12", "--target", str(wheel), f"uv=={VERSION}"], timeout=600)
    pack(wheel / "bin", TARGET, archive)
    return VERSION, ADDRESS, archive


def checksum_file(address: str, digest: str) -> tuple[str, str]:
    """Where the upstream keeps this archive's checksum, and the text there."""
    return f"{address}.sha256", f"{digest} *{address.rpartition('/')[2]}\n"
