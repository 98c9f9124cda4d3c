"""A Python environment put together in a private folder, and looked through before it is published."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..elf.reader import find_elf
from ..elf.torchcodec import library_dirs
from ..errors import ArmstageError
from ..run import run
from ..wheels import installed, literals, normalise
from . import venv
from .pins import Pin, confirmed, disagreement, named, read_pins, read_pylock, unconditional, write_pins
from .recorded import edited
from .uv import Uv

BUILDS = ("torch", "torchvision", "torchcodec")
"""Projects that have one build per CUDA, and say which in the local part of version.py's version."""

SAME_MAJOR_WILL_DO = ("torchcodec",)
"""Those that link nothing but what is the same in every CUDA of one major version: torch 2.15.0+cu132
with torchcodec 0.17.0+cu130 decodes (measured 2026-11)."""

KNOWN_BUILD = re.compile(r"cu\d+|cpu|rocm[\d.]+|xpu")

GPU_CODE = ("cuda", "amdgpu")
"""Machines of ELF files that hold code for a GPU."""

HERE = "share/armstage"
"""The folder of an environment in which armstage keeps what it was made from and what it needs."""

LOCK = f"{HERE}/lock.txt"


@dataclass(frozen=True)
class Assembled:
    """What an environment holds: versions by project, projects whose wheel no digest was known of, how many
    wheels each host served (known where they were resolved here), build tags by project, ELF files by
    machine, folders for the loader's path, digest of its lock."""

    installed: dict[str, str]
    unhashed: tuple[str, ...]
    origins: dict[str, int]
    builds: dict[str, str]
    elf: dict[str, int]
    library_dirs: list[str]
    lock_sha256: str


def assemble(
    folder: Path,
    uv: Uv,
    python: venv.Interpreter,
    tag: str,
    machine: str,
    requirements: tuple[str, ...],
    constraints: str = "",
    lock: str = "",
) -> Assembled:
    """Fill an empty folder with an environment. Without a lock the requirements are resolved first, and
    what they came to is the lock. Raises ArmstageError for an environment that would not be right."""
    with _readable_by_all(), _named_from(folder):
        venv.prepare(folder)
        pins = _install(folder, uv, requirements, constraints, lock)
        venv.finish(folder, python)
        site = venv.site_packages(folder, python)
        packages = {name: found.version for name, found in installed(str(site)).items()}
        require_installed(requirements or unconditional(lock), packages, uv.path)
        builds = _builds(site, packages)
        check_builds(tag, packages, builds)
        elf = _count_elf(folder, machine)
        needed = library_dirs(str(folder)) if "torchcodec" in packages else []
        (folder / HERE / "library_dirs").write_text("".join(f"{path}\n" for path in needed), encoding="utf-8")
    return Assembled(
        installed=packages,
        unhashed=tuple(pin.name for pin in pins if not pin.digests),
        origins=dict(Counter(urlsplit(pin.url).netloc or "folder" for pin in pins if pin.url)),
        builds=builds,
        elf=elf,
        library_dirs=needed,
        lock_sha256=hashlib.sha256((folder / LOCK).read_bytes()).hexdigest(),
    )


def require_installed(requirements: Iterable[str], packages: Mapping[str, str], uv: str) -> None:
    """Raise ArmstageError unless what was required is there, whatever uv said of it. Pure.

    What a marker may leave out is not looked for.
    """
    for requirement in requirements:
        name = named(requirement)
        if name and name not in packages and ";" not in requirement:
            raise ArmstageError(
                f"Expected `{requirement}` to be installed, but found no `{name}` in the environment",
                hint=f"`{uv}` said that all went well: look whether it is a uv (uv --version), then run again",
            )


@contextlib.contextmanager
def _named_from(folder: Path) -> Iterator[None]:
    """Errors name files by their place in the environment: the folder it is made in is gone when they are read."""
    try:
        yield
    except ArmstageError as error:
        for text in ("message", "hint"):
            setattr(error, text, getattr(error, text).replace(f"{folder}{os.sep}", ""))
        raise


@contextlib.contextmanager
def _readable_by_all() -> Iterator[None]:
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _install(folder: Path, uv: Uv, requirements: tuple[str, ...], constraints: str, lock: str) -> list[Pin]:
    """Unpack by the lock, or by the one that the requirements come to; its pins."""
    if lock:
        pins = read_pins(lock)
        wrong = disagreement(requirements, pins)
        if wrong:
            raise ArmstageError(f"Found {wrong}", hint="Give the lock that was resolved from these requirements")
        (folder / LOCK).write_text(lock, encoding="utf-8")
        uv.install(folder, folder / LOCK, "--require-hashes")
        _replace_edited(folder, uv, list(pins.values()))
        return list(pins.values())
    resolved = read_pylock(uv.resolve(_asked(folder, requirements, constraints)))
    checked = confirmed(resolved, read_pins(constraints))
    (folder / LOCK).write_text(write_pins(checked), encoding="utf-8")
    uv.install(folder, folder / LOCK, "--no-deps")
    _replace_edited(folder, uv, checked)
    return checked


def _replace_edited(folder: Path, uv: Uv, pins: list[Pin]) -> None:
    """Unpack anew, past uv's cache, the projects of which the cache holds a file that somebody edited."""
    found = [each for site in folder.glob("lib/python3*/site-packages") for each in edited(site)]
    if not found:
        return
    again = [pin for pin in pins if normalise(pin.name) in {normalise(each.project) for each in found}]
    names = " ".join(sorted(pin.name for pin in again))
    (folder / HERE / "again.txt").write_text(write_pins(again), encoding="utf-8")
    try:
        if uv.offline:
            raise ArmstageError("the network is off")
        uv.install_anew(folder, folder / HERE / "again.txt")
    except ArmstageError as error:
        raise ArmstageError(
            f"uv's cache holds a file that was edited in place: {found[0]}",
            hint=f"Clean it, and run with network: uv cache clean {names} ({error.message})",
        ) from error
    (folder / HERE / "again.txt").unlink()


def _asked(folder: Path, requirements: tuple[str, ...], constraints: str) -> Path:
    """A requirements file. It names the constraints: uv 0.10 splits a path at its spaces on the command line."""
    lines = list(requirements)
    if constraints:
        (folder / HERE / "constraints.txt").write_text(constraints, encoding="utf-8")
        lines.insert(0, "-c constraints.txt")
    asked = folder / HERE / "requirements.txt"
    asked.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return asked


def _builds(site: Path, packages: dict[str, str]) -> dict[str, str]:
    """The build of each project that has several, empty where it does not say."""
    return {name: build_of(literals(str(site / name / "version.py"))) for name in BUILDS if name in packages}


def build_of(version: Mapping[str, object]) -> str:
    """`cu130` of a version.py with ``__version__ = '2.11.0+cu130'``, or with ``cuda = '13.0'`` where the
    version names no build, as in one built from source. Pure."""
    local = str(version.get("__version__", "")).partition("+")[2]
    if KNOWN_BUILD.fullmatch(local):
        return local
    if "cuda" not in version:
        return ""
    return f"cu{version['cuda']}".replace(".", "") if version["cuda"] else "cpu"


def check_builds(tag: str, packages: dict[str, str], builds: dict[str, str]) -> None:
    """Raise ArmstageError unless the builds are those of the wheel index ``tag``. Pure.

    torch is compared with the tag, where that is one of an index, and the others with torch. A build
    that says nothing fits any.
    """
    if packages.get("torchcodec", "").startswith("0.0.0"):
        raise ArmstageError(
            f"torchcodec {packages['torchcodec']} is an empty placeholder: its first aarch64 wheel is 0.11.0",
            hint="Require torchcodec 0.11.0 or newer",
        )
    torch = builds.get("torch", "")
    if re.fullmatch(r"cu\d+|cpu", tag) and torch and torch != tag:
        raise ArmstageError(
            f"Wrong wheel: +{torch}: torch {packages['torch']} is built for `{torch}`, expected `{tag}`",
            hint=f"This torch of {tag} was not to be had for aarch64: choose a version that its index has",
        )
    for name, build in builds.items():
        if not torch or not build or build == torch:
            continue
        if name in SAME_MAJOR_WILL_DO and cuda_major(build) == cuda_major(torch) != "":
            continue
        raise ArmstageError(
            f"Wrong wheels: torch is built for `{torch}`, but {name} {packages[name]} for `{build}`",
            hint=f"Take both from the index of {torch}: they can't be loaded together",
        )


def cuda_major(build: str) -> str:
    """`cu130` -> `13`, and an empty string for what is no CUDA build."""
    found = re.fullmatch(r"cu(\d+)\d", build)
    return found[1] if found else ""


def _count_elf(folder: Path, machine: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    try:
        files = list(find_elf(str(folder)))
    except ArmstageError as error:
        raise ArmstageError(
            f"Expected whole files in every wheel, but {error.message}",
            hint="The wheel itself holds it like this: choose another version of what it belongs to",
        ) from error
    for path, found in files:
        if found != machine and found not in GPU_CODE:
            raise ArmstageError(
                f"`{os.path.relpath(path, folder)}` is for {found}, expected {machine}",
                hint=f"The wheel that holds it is not for {machine}: choose another, or correct `python_platform`",
            )
        counts[found] = counts.get(found, 0) + 1
    return counts


def compiler(choice: str, minor: str) -> str:
    """The interpreter of this host that is to compile bytecode for Python ``minor``, or an empty string:
    bytecode is the same in every release of one minor version."""
    if choice in ("", "none"):
        return ""
    if choice == "auto":
        found = shutil.which(f"python{minor}") or ""  # which may be a shim of a Python that is not installed
        return next((path for path in (found, sys.executable) if path and _minor_of(path) == minor), "")
    found = _minor_of(choice)
    if found != minor:
        raise ArmstageError(
            f"Expected Python {minor} in `compile_python`, but `{choice}` "
            + (f"is {found}" if found else "can't be run"),
            hint=f"Give a Python {minor} of this host, or auto",
        )
    return choice


def _minor_of(python: str) -> str:
    with contextlib.suppress(OSError):
        return run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], timeout=10).out.strip()
    return ""
