"""The C compiler that makes aarch64 programs here: a cross compiler, or on aarch64 its own."""

from __future__ import annotations

from . import prerequisites
from .host import Host
from .prerequisites import Need


def prefix(host: Host) -> str:
    """What stands before `gcc`."""
    return "aarch64-linux-gnu-" if host.emulates else ""


def needs(host: Host) -> list[Need]:
    compiler = f"{prefix(host)}gcc"
    headers = "/usr/aarch64-linux-gnu/include/stdio.h" if host.emulates else "/usr/include/stdio.h"
    package = "gcc-aarch64-linux-gnu" if host.emulates else "gcc"
    library = "libc6-dev-arm64-cross" if host.emulates else "libc6-dev"
    return [Need((compiler,), package), Need((headers,), library), Need(("make",), "make"), Need(("xz",), "xz-utils")]


def ensure(host: Host) -> None:
    """Install the compiler where it is missing and this is an apt machine; else an error that names the packages."""
    prerequisites.install(host, needs(host))
