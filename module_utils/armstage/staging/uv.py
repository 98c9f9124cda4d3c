"""uv, as the resolver and unpacker of wheels for another machine.

Whatever this host's configuration says about indexes, credentials, certificates and proxies is kept;
what would change the packages that come out is not. uv runs on this host's own Python and builds
nothing, so that no program of the target is run.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from ..errors import ArmstageError
from ..run import KILL_GRACE
from .transport import without_credentials
from .uv_errors import Attempt, UvError, explain, out_of_time

ACCESS = re.compile(
    r"""UV_( INDEX_\w+_(USERNAME|PASSWORD) | KEYRING_PROVIDER | INSECURE_HOST | SYSTEM_CERTS | NATIVE_TLS
    | CACHE_DIR | HTTP\w* | REQUEST_TIMEOUT | CONCURRENT_\w+ )""",
    re.VERBOSE,
)
"""uv's variables that say how to get to packages."""

INDEXES = re.compile(r"UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|CONFIG_FILE)")
"""uv's variables that say where packages are; a mirror replaces them."""

OTHERS = re.compile(r"(UV|PIP|CONDA)_.*|PYTHON.*|VIRTUAL_ENV")
"""What else changes which packages uv chooses, or which Python it finds."""

OWN = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_WRAP": "1", "PYC_INVALIDATION_MODE": "UNCHECKED_HASH"}
"""Bytecode is never compared with its source: a release never changes, and a look at the source of
every module is what makes imports slow on a shared filesystem."""

MOST_THREADS = 16
"""Login nodes have hundreds of cores and let a user have few threads; uv starts one a core (astral-sh/uv#14462)."""

STEPS = re.compile(r"^ ?(Downloading|Downloaded|Resolved|Prepared|Installed) (\S+)", re.MULTILINE)

TICK = 1.0
"""Seconds between two calls of ``Progress``."""

Progress = Callable[[int, str], None]
"""Told the bytes written so far and what uv is doing."""


@dataclass(frozen=True)
class Places:
    """Where packages are looked for.

    ``index`` comes before the default index. ``mirror`` replaces both: a folder or page of wheels, or
    the URL of a simple index. ``find_links`` are further folders or pages of wheels.
    """

    index: str = ""
    mirror: str = ""
    find_links: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Where most of the packages come from, without credentials; empty for the default index."""
        return without_credentials(self.mirror or self.index)

    def __str__(self) -> str:
        """The places as a phrase of a message."""
        if self.mirror:
            return f"the mirror `{self.address}`"
        return f"the index `{self.address}` or the default index" if self.index else "the default index"

    def arguments(self) -> list[str]:
        links = [argument for place in self.find_links for argument in ("--find-links", place)]
        if self.mirror and _lists_wheels(self.mirror):
            return ["--no-config", "--no-index", "--find-links", self.mirror, *links]
        if self.mirror:
            return ["--no-config", "--default-index", self.mirror, *links]
        if self.index:
            # A PyTorch index also holds some versions of numpy, pillow and the like. With uv's default
            # strategy it would be the only place to look for any project whose name it knows.
            return ["--index", self.index, "--index-strategy", "unsafe-first-match", *links]
        return links


def _lists_wheels(mirror: str) -> bool:
    """Whether a mirror is a folder or page of wheels rather than an index with a page per project."""
    return "://" not in mirror or mirror.startswith("file://") or mirror.endswith((".html", ".htm"))


@dataclass(frozen=True)
class Uv:
    """uv at ``path``, and what it installs for: ``python_version`` is `3.12`; ``timeout`` is in seconds.

    ``compile_with`` is an interpreter of this host, of the target's version: it compiles bytecode.
    """

    path: str
    platform: str
    python_version: str
    places: Places = field(default_factory=Places)
    cache_dir: str = ""
    offline: bool = False
    timeout: float = 3600.0
    compile_with: str = ""
    progress: Progress | None = None

    def resolve(self, requirements: Path) -> str:
        """The text of a pylock.toml (PEP 751) with what the requirements come to on the target."""
        argv = ["pip", "compile", "--quiet", "--no-header", "--format", "pylock.toml", str(requirements)]
        argv += ["--offline"] if self.offline else []
        return self._run([*argv, *self._target()])

    def install(self, prefix: Path, pins: Path, *options: str) -> None:
        """Unpack what ``pins`` names into ``prefix``, verifying each digest that it holds.

        Pins say it all, so that what is in the cache needs no index: without network first.
        """
        argv = ["pip", "install", "--prefix", str(prefix), "--requirements", str(pins)]
        argv += ["--compile-bytecode"] if self.compile_with else []
        argv += ["--link-mode", "hardlink", *options, *self._target()]
        try:
            self._run([*argv, "--offline"])
        except UvError:
            if self.offline or any(prefix.glob("lib/python3*/site-packages/*")):
                raise
            self._run(argv)

    def install_anew(self, prefix: Path, pins: Path) -> None:
        """Unpack what ``pins`` names in the place of what is there, without the cache."""
        argv = ["pip", "install", "--prefix", str(prefix), "--requirements", str(pins), "--no-deps", "--reinstall"]
        argv += ["--compile-bytecode"] if self.compile_with else []
        self._run([*argv, "--no-cache", *self._target()], cache=False)

    def _target(self) -> list[str]:
        return [
            *("--python", self.compile_with or sys.executable),
            *("--python-platform", self.platform),
            *("--python-version", self.python_version),
            *("--only-binary", ":all:"),
            *self.places.arguments(),
        ]

    def _run(self, arguments: Sequence[str], cache: bool = True) -> str:
        argv = [self.path, *arguments, "--color", "never"]
        argv += ["--cache-dir", self.cache_dir] if self.cache_dir and cache else []
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(os.environ, mirror=bool(self.places.mirror)),
                cwd="/",  # no pyproject.toml or uv.toml of a project on the way
                start_new_session=True,
                umask=0o022,  # an environment is for whoever may read the root
            )
        except OSError as error:
            raise ArmstageError(
                f"Failed to start uv at `{self.path}`: {error.strerror or error}",
                hint="Set `uv` to a uv that runs on this host, or install one: https://docs.astral.sh/uv",
            ) from error
        out, err, in_time = _watch(child, self.timeout, self.progress)
        if in_time and child.returncode == 0:
            return out
        attempt = Attempt(self.path, str(self.places), self.platform, self.python_version)
        raise explain(attempt, err, child.returncode) if in_time else out_of_time(attempt, err, self.timeout)


def environment(variables: Mapping[str, str], mirror: bool = False) -> dict[str, str]:
    """The variables that uv is to see of those that this process has."""

    def is_wanted(name: str) -> bool:
        if INDEXES.fullmatch(name):
            return not mirror
        return bool(ACCESS.fullmatch(name)) or not OTHERS.fullmatch(name)

    threads = str(min(len(os.sched_getaffinity(0)), MOST_THREADS))
    limits = dict.fromkeys(("UV_CONCURRENT_INSTALLS", "UV_CONCURRENT_BUILDS"), threads)
    return {**limits, **{name: value for name, value in variables.items() if is_wanted(name)}, **OWN}


def doing(messages: str) -> str:
    """What uv's messages so far say that it is doing: `downloading torch, nvidia-cublas and 3 more`."""
    downloads: dict[str, None] = {}
    last = "resolving"
    for step, subject in STEPS.findall(messages):
        if step == "Downloading":
            downloads[subject] = None
        elif step == "Downloaded":
            downloads.pop(subject, None)
        else:
            last = {"Resolved": "preparing", "Prepared": "linking"}.get(step, "linked")
    if not downloads:
        return last
    first, more = list(downloads)[:2], len(downloads) - 2
    return f"downloading {', '.join(first)}" + (f" and {more} more" if more > 0 else "")


def _watch(child: subprocess.Popen[bytes], timeout: float, progress: Progress | None) -> tuple[str, str, bool]:
    """What the child printed, and whether it ended in time: otherwise it has been ended here."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            out, err = child.communicate(timeout=max(0.0, min(TICK, deadline - time.monotonic())))
            return _text(out), _text(err), True
        except subprocess.TimeoutExpired as waiting:
            messages = _text(waiting.stderr or b"")
        if time.monotonic() >= deadline:
            _end(child)
            return "", messages, False
        if progress is not None:
            progress(_written(child.pid), doing(messages))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ask the child's whole session to end, then kill it; one that survives is left behind."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(KILL_GRACE)
            return


def _written(pid: int) -> int:
    """Bytes that a process has written so far, from /proc (proc(5): `wchar`), or 0."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/io", encoding="ascii") as file:
        for line in file:
            name, _colon, value = line.partition(":")
            if name == "wchar":
                return int(value)
    return 0


def _text(output: bytes) -> str:
    return output.decode("utf-8", "backslashreplace")
