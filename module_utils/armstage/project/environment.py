"""A project's environment for aarch64 nodes, made from its lock and, on top, what the lock does not say for aarch64.

On an aarch64 host it is `uv sync --locked`, then `uv pip install` into the same environment. A host of another
architecture can't run the environment's Python, which both need; there the same is exported from the lock and
unpacked, as `python_env` does. Both are put together beside the environment in use and published by one rename.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..audit import locks
from ..audit.facts import FAMILY
from ..audit.source import Source
from ..elf.reader import find_elf
from ..errors import ArmstageError
from ..files import read_text
from ..readers import toml
from ..run import Completed
from ..staging import venv
from ..staging.assemble import GPU_CODE, build_of, check_builds
from ..staging.uv import Places, Uv
from ..wheels import installed, literals, site_packages
from .relock import check_lock, require_index, said, uv_run
from .target import LOCK_FILE

MACHINE = "aarch64"
PLATFORM = "aarch64-manylinux_2_28"
RECORD = "share/armstage/project.json"
NOTE = "share/armstage/README.md"


@dataclass(frozen=True)
class Wanted:
    """``override``: requirements that replace what the lock says, empty where the lock is right. ``selection``:
    options of `uv sync` and `uv export` that choose extras and groups. ``tag``: the build that torch must be."""

    project: Path
    folder: Path
    python: venv.Interpreter
    uv: str
    tag: str
    override: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()
    places: Places = field(default_factory=Places)
    cache_dir: str = ""
    timeout: float = 3600.0

    @property
    def lock(self) -> str:
        text = read_text(self.project / LOCK_FILE, 64 * 1024 * 1024)
        if text is None:
            raise ArmstageError(
                f"There is no uv.lock in `{self.project}`", hint=f"Lock it first: uv lock --project {self.project}"
            )
        return text

    def record(self) -> dict[str, Any]:
        """What the environment is made from: where it is the same, so is the environment."""
        return {
            "lock": hashlib.sha256(self.lock.encode()).hexdigest(),
            "python": [self.python.path, self.python.version],
            "override": list(self.override),
            "selection": list(self.selection),
            "tag": self.tag,
        }


def is_made(wanted: Wanted) -> bool:
    """Whether the environment is there, made from the same, and holds what was put into it."""
    try:
        record = json.loads(read_text(wanted.folder / RECORD) or "{}")
    except ValueError:
        return False
    found = packages(wanted.folder)
    there = {"made_from": wanted.record(), "packages": found, "builds": builds(wanted, wanted.folder, found)}
    return bool(record == there)


def packages(folder: Path) -> dict[str, str]:
    """What is installed in an environment: name -> version."""
    if not (folder / "pyvenv.cfg").is_file():
        return {}
    return {name: found.version for name, found in installed(site_packages(str(folder))).items()}


def builds(wanted: Wanted, folder: Path, found: Mapping[str, str]) -> dict[str, str]:
    """What torch and the like are built for: the dist-info of a CPU and of a CUDA build may be the same."""
    site = venv.site_packages(folder, wanted.python)
    return {name: build_of(literals(str(site / name / "version.py"))) for name in FAMILY if name in found}


def make(wanted: Wanted, note: str = "") -> dict[str, str]:
    """Put the environment together, with a note for people, and publish it; the packages it holds.

    Raises ArmstageError, and leaves the environment in use alone, for anything that would not run on the nodes.
    """
    partial = wanted.folder.with_name(f"{wanted.folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    check_lock(wanted.uv, wanted.project, wanted.timeout)
    try:
        partial.mkdir(parents=True)
        (partial / ".gitignore").write_text("*\n", encoding="utf-8")
        (_native if os.uname().machine == MACHINE else _cross)(wanted, partial)
        found = packages(partial)
        _check(wanted, partial, found)
        record = {"made_from": wanted.record(), "packages": found, "builds": builds(wanted, partial, found)}
        (partial / RECORD).parent.mkdir(parents=True, exist_ok=True)
        (partial / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        if note:
            (partial / NOTE).write_text(note, encoding="utf-8")
        _publish(partial, wanted.folder)
    except OSError as error:
        raise ArmstageError(
            f"Failed to make `{wanted.folder}`: {error.strerror or error}",
            hint=f"This user must be able to write in `{wanted.folder.parent}`",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return found


def _publish(partial: Path, folder: Path) -> None:
    """One rename to put it in place, one before to put away what was there."""
    old = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    partial.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _check(wanted: Wanted, folder: Path, found: Mapping[str, str]) -> None:
    """Refuse a wrong build of torch, and any file for another machine."""
    check_builds(wanted.tag, dict(found), builds(wanted, folder, found))
    for path, machine in find_elf(str(folder)):
        if machine not in (MACHINE, *GPU_CODE):
            raise ArmstageError(
                f"`{os.path.relpath(path, folder)}` is for {machine}, expected {MACHINE}",
                hint="A package of the project was built here, for this host: make the environment on an aarch64 host",
            )


# On an aarch64 host


def _native(wanted: Wanted, partial: Path) -> None:
    python = str(partial / "bin" / "python")
    _uv(wanted, ["venv", "--relocatable", "--allow-existing", "--python", wanted.python.path, str(partial)])
    _uv(wanted, sync_arguments(wanted), {"UV_PROJECT_ENVIRONMENT": str(partial)})
    if wanted.override:
        _uv(wanted, ["pip", "install", "--python", python, *wanted.places.arguments(), *wanted.override])
    (partial / ".gitignore").write_text("*\n", encoding="utf-8")


def sync_arguments(wanted: Wanted) -> list[str]:
    """`uv sync` of the lock; what is replaced afterwards is not fetched first."""
    left_out = [word for name in _overridden(wanted) for word in ("--no-install-package", name)]
    return ["sync", "--locked", "--python", wanted.python.path, *wanted.selection, *left_out]


def _overridden(wanted: Wanted) -> list[str]:
    names = [re.split(r"[=<>!~\[; ]", requirement)[0] for requirement in wanted.override]
    return [name for name in names if name in FAMILY]


# On a host of another architecture


def _cross(wanted: Wanted, partial: Path) -> None:
    venv.prepare(partial)
    here = partial / "share" / "armstage"
    pins = _export(wanted)
    if wanted.override:
        pins = overridden(_export(wanted, _overridden(wanted)), _resolve(wanted, here, pins))
    (here / "lock.txt").write_text(pins, encoding="utf-8")
    uv = Uv(wanted.uv, PLATFORM, wanted.python.minor, wanted.places, wanted.cache_dir, timeout=wanted.timeout)
    if pins.strip():
        uv.install(partial, here / "lock.txt", "--no-deps")  # digests are verified; not every index gives one
    for path in local_packages(wanted):
        target = ["--prefix", str(partial), "--python", sys.executable, "--python-platform", PLATFORM]
        target += ["--python-version", wanted.python.minor]
        _uv(wanted, ["pip", "install", "--no-deps", *target, "--editable", path])
    venv.finish(partial, wanted.python)


def _export(wanted: Wanted, without: Sequence[str] = ()) -> str:
    """What the lock installs, as pins with digests; ``without`` some packages and what only they bring."""
    arguments = [
        "export",
        "--frozen",
        "--format",
        "requirements.txt",
        "--no-header",
        "--no-annotate",
        "--no-emit-local",
    ]
    pruned = [word for name in without for word in ("--prune", name)]
    return _uv(wanted, [*arguments, *wanted.selection, *pruned]).out


def _resolve(wanted: Wanted, here: Path, pins: str) -> str:
    """Pins of the override and what it needs; of what the lock names too, the lock's version where that will do."""
    (here / "override.txt").write_text("".join(f"{line}\n" for line in wanted.override), encoding="utf-8")
    output = here / "pins.txt"
    output.write_text(pins, encoding="utf-8")  # uv prefers the versions of the file that it writes
    arguments = [
        "pip",
        "compile",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--quiet",
        str(here / "override.txt"),
    ]
    arguments += ["--output-file", str(output), "--python", sys.executable, "--python-platform", PLATFORM]
    _uv(wanted, [*arguments, "--python-version", wanted.python.minor, *wanted.places.arguments()])
    resolved = output.read_text(encoding="utf-8")
    output.unlink()
    return resolved


def overridden(pins: str, override: str) -> str:
    """The pins, those of the override in the place of others of the same name."""
    replaced = {_name(entry) for entry in _entries(override)}
    return "".join([*(entry for entry in _entries(pins) if _name(entry) not in replaced), *_entries(override)])


def _entries(pins: str) -> list[str]:
    """The pins of a requirements file, each with the lines of its digests."""
    return re.findall(r"^[^\s#].*(?:\n[ \t].*)*\n", pins, re.MULTILINE)


def _name(entry: str) -> str:
    return re.split(r"[=<>!~\[;@ \\]", entry)[0].lower().replace("_", "-")


def local_packages(wanted: Wanted) -> list[str]:
    """The paths of the packages that the project itself consists of, as far as they are installed."""
    text = wanted.lock
    lock = locks.read(Source(LOCK_FILE, LOCK_FILE, text, toml.read(text)[0]), wanted.python.minor)
    sources = (package.table.table("source") for package in lock.selected)
    found = (source.get("editable") or source.get("directory") for source in sources)
    return [os.path.normpath(wanted.project / path) for path in found if isinstance(path, str)]


def _uv(wanted: Wanted, arguments: list[str], extra: Mapping[str, str] | None = None) -> Completed:
    cache = {"UV_CACHE_DIR": wanted.cache_dir} if wanted.cache_dir else {}
    completed = uv_run(wanted.uv, arguments, wanted.project, wanted.timeout, {**cache, **(extra or {})})
    if completed.ok:
        return completed
    if completed.timed_out:
        raise ArmstageError(f"`uv {' '.join(arguments[:2])}` did not end in time", hint="Give it more time")
    require_index(completed, f"`uv {' '.join(arguments[:2])}` failed in `{wanted.project}`")
    raise ArmstageError(
        f"`uv {' '.join(arguments[:2])}` failed in `{wanted.project}`: {said(completed)}",
        hint="Run it by hand to see all it says; `./armstage project audit` names what has no wheel for aarch64",
    )
