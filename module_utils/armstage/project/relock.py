"""A lock made again for an edited pyproject.toml, beside the project, and what it changes for whom.

uv writes into a copy of the project's folders, its files as links: nothing of the project is touched until the new
lock is complete.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..audit import locks
from ..audit.pep508 import AARCH64, X86_64
from ..audit.source import Source
from ..errors import ArmstageError
from ..files import write_atomic
from ..readers import toml
from ..run import Completed, run
from ..staging.uv_errors import Attempt, explain
from .target import LOCK_FILE, PYPROJECT

SKIPPED = re.compile(r"\..*|__pycache__|node_modules|venv|wandb|outputs|checkpoints")
COPIED = (PYPROJECT, LOCK_FILE)

FOREIGN = re.compile(r"VIRTUAL_ENV|CONDA_.*|PYTHON(HOME|PATH)|UV_(PROJECT|PROJECT_ENVIRONMENT|FROZEN|LOCKED|NO_SYNC)")
"""Variables of another project or environment, which would change what uv does here."""

NO_PYTHON = re.compile(r"python-build-standalone|No interpreter found|requested interpreter|inspect Python interpreter")
"""What uv says where it finds no Python that the project allows, and can't download one."""


@dataclass(frozen=True)
class Relocked:
    """The new lock, and for aarch64 and x86_64 Linux what it installs otherwise: `torch 2.10.0 -> 2.11.0`.
    ``kept``: how many packages it installs as the old lock did; ``listings``: what either installs where, as text."""

    pyproject: str
    lock: str
    changes: dict[str, list[str]]
    kept: dict[str, int]
    listings: tuple[str, str]


def relock(folder: str, pyproject: str, uv: str, python: str, timeout: float = 600.0) -> Relocked:
    """Lock the project again with another pyproject.toml. What its edits do not concern keeps its version.

    Raises ArmstageError where the lock that is there does not go with the pyproject.toml that is there: what changes
    would not be ours; and where uv finds no solution, with what it said.
    """
    project = Path(folder)
    with shadow(project) as copy:
        before = _text(project / LOCK_FILE)
        if before:
            check_lock(uv, copy, timeout, folder)
        (copy / PYPROJECT).write_text(pyproject, encoding="utf-8")
        _locked(uv_run(uv, ["lock"], copy, timeout), folder)
        after = _text(copy / LOCK_FILE)
    old, new = (_installed(text, python) for text in (before, after))
    changes = {machine: difference(old[machine], packages) if before else [] for machine, packages in new.items()}
    kept = {machine: len(packages) - _present(changes[machine]) if before else 0 for machine, packages in new.items()}
    return Relocked(pyproject, after, changes, kept, (listing(old), listing(new)))


def publish(folder: str, relocked: Relocked) -> None:
    """Put both files in place, each in one step."""
    for name, text in ((LOCK_FILE, relocked.lock), (PYPROJECT, relocked.pyproject)):
        path = Path(folder, name)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        try:
            write_atomic(path, text, mode)
        except OSError as error:
            raise ArmstageError(
                f"Failed to write `{path}`: {error.strerror or error}", hint="This user must be able to write there"
            ) from error


@contextmanager
def shadow(project: Path) -> Iterator[Path]:
    """A copy of the project's folders beside it, so that relative paths out of it hold; its files are links."""
    parent = project.parent if os.access(project.parent, os.W_OK) else None
    place = Path(tempfile.mkdtemp(prefix=".armstage-lock-", dir=parent))
    try:
        copy = place / project.name if parent is None else place
        copy.mkdir(exist_ok=True)
        _copy(project, copy)
        yield copy
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _copy(project: Path, copy: Path) -> None:
    for folder, folders, files in os.walk(project):
        folders[:] = [name for name in folders if not SKIPPED.fullmatch(name) and not _is_environment(folder, name)]
        below = copy / os.path.relpath(folder, project)
        below.mkdir(exist_ok=True)
        for name in files:
            source = os.path.join(folder, name)
            if name in COPIED and os.path.isfile(source):
                shutil.copyfile(source, below / name)
            else:
                os.symlink(os.path.abspath(source), below / name)


def _is_environment(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))


def uv_run(
    uv: str, arguments: list[str], folder: Path, timeout: float, extra: Mapping[str, str] | None = None
) -> Completed:
    """uv in a folder, as its user would run it there, without what other environments left behind."""
    environment = {name: value for name, value in os.environ.items() if not FOREIGN.fullmatch(name)}
    argv = [uv, *arguments, "--color", "never"]
    try:
        return run(argv, timeout, env={**environment, "UV_NO_WRAP": "1", **(extra or {})}, cwd=str(folder))
    except OSError as error:
        raise ArmstageError(
            f"Failed to start uv at `{uv}`: {error.strerror or error}",
            hint="Set `uv` to a uv that runs on this host, or install one: https://docs.astral.sh/uv",
        ) from error


def said(completed: Completed) -> str:
    """uv's own last lines, on one."""
    lines = [
        line.strip() for line in completed.err.splitlines() if line.strip() and not line.startswith("Using CPython")
    ]
    text = " ".join(line for line in lines if not line.startswith(("Resolved ", "warning: "))) or "nothing"
    return text if len(text) < 1200 else text[:1200] + " ..."


def require_index(completed: Completed, doing: str) -> None:
    """Refuse a failure of uv's that is an index out of reach: no requirement is at fault."""
    error = explain(Attempt("uv", "", "", ""), completed.err, completed.rc or 0)
    if error.unreachable:
        raise ArmstageError(
            f"{doing}: {error.message}",
            hint="Check the network, the proxy variables and the index that uv is told: UV_DEFAULT_INDEX, uv.toml, "
            "pyproject.toml",
        )


def check_lock(uv: str, folder: Path, timeout: float, shown: str = "") -> None:
    """Refuse a lock that does not go with its pyproject.toml. uv can only tell where it has a Python that the
    project allows; without one it is taken as it is."""
    completed = uv_run(uv, ["lock", "--check"], folder, timeout)
    if completed.ok or NO_PYTHON.search(completed.err):
        return
    shown = shown or str(folder)
    if "needs to be updated" in completed.err:
        raise ArmstageError(
            f"`{shown}/uv.lock` does not go with its pyproject.toml",
            hint=f"Lock it first, and look at what changes: uv lock --project {shown}",
        )
    _locked(completed, shown)


def _locked(completed: Completed, folder: str) -> None:
    if completed.ok:
        return
    if completed.timed_out:
        raise ArmstageError(f"uv did not lock `{folder}` in time", hint="Give it more with project_timeout")
    text = said(completed)
    if NO_PYTHON.search(completed.err):
        hint = "uv needs a Python on this host that meets requires-python: uv python install 3.12"
    else:
        require_index(completed, f"`{folder}` can't be locked")
        hint = "Change the requirement that uv names; `./armstage project fix --lock shared` leaves the lock as it is"
    raise ArmstageError(f"uv found no lock for `{folder}`: {text}", hint=hint)


def _installed(text: str, python: str) -> dict[str, dict[str, str]]:
    """What a lock installs on each machine: name -> versions."""
    found: dict[str, dict[str, str]] = {}
    for machine in (AARCH64, X86_64):
        packages: dict[str, list[str]] = {}
        if text:
            source = Source(LOCK_FILE, LOCK_FILE, text, toml.read(text)[0])
            for package in locks.read(source, python, machine).selected:
                packages.setdefault(package.name, []).append(package.version)
        found[machine["platform_machine"]] = {name: ", ".join(versions) for name, versions in packages.items()}
    return found


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What two sets of packages differ in, a line each."""
    lines = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old != new:
            lines.append(f"{name} {old or 'none'} -> {new or 'none'}")
    return lines


def _present(changes: Sequence[str]) -> int:
    """How many of the changes are of packages that are there afterwards."""
    return sum(not change.endswith(" -> none") for change in changes)


def listing(installed: Mapping[str, Mapping[str, str]]) -> str:
    """A line for each package and machine."""
    rows = (
        f"{machine} {name} {version}\n" for machine, packages in installed.items() for name, version in packages.items()
    )
    return "".join(sorted(rows))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
