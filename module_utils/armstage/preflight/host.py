"""The host and what is staged for it, as the report shows them beside the checks."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Callable
from typing import Any

from ..errors import ArmstageError
from .context import Context

RELEASE_KEYS = ("name", "version", "source", "digest", "size", "files", "created", "seconds", "elf")


def describe(context: Context) -> dict[str, Any]:
    """``name, kernel, page_size, glibc, python, environment, cuda, memory, staged``; what can't be read is left out."""
    described: dict[str, Any] = {
        "name": context.text("/etc/hostname") if not context.live_host else socket.gethostname(),
        "kernel": context.text("/proc/sys/kernel/osrelease") or platform.release(),
        "page_size": context.page_size,
        "glibc": " ".join(platform.libc_ver()).strip(),
        "python": platform.python_version(),
        "environment": {"path": context.env, "from": context.env_from},
    }
    parts = {"cuda": _cuda, "memory": _memory, "staged": _staged}
    return {**described, **{name: value for name, read in parts.items() if (value := _if_readable(read, context))}}


def _if_readable(read: Callable[[Context], dict[str, Any]], context: Context) -> dict[str, Any]:
    """What is read; empty where it can't be, which the check that needs it has said."""
    try:
        return read(context)
    except ArmstageError:
        return {}


def _cuda(context: Context) -> dict[str, Any]:
    return context.driver


def _memory(context: Context) -> dict[str, Any]:
    return context.memory.as_dict()


def _staged(context: Context) -> dict[str, Any]:
    """What manifest.json says is staged, without the lists of packages."""
    return {
        "root": context.staged,
        "index": os.path.basename(os.path.normpath(context.env)) if context.env else "",
        "releases": [{key: release.get(key) for key in RELEASE_KEYS} for release in context.releases],
    }
