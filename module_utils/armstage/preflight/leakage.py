"""A2: variables and PATH entries of another environment, or of another architecture, that a job would run into.

A shared home is the usual source: a login node's conda or virtual environment is x86_64 and its
variables travel into the job with `sbatch --export=ALL`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..elf.reader import machine_of
from ..elf.words import listed
from ..errors import ArmstageError
from .context import Context
from .model import FAIL, PASS, WARN, Fact, Finding, worst

UNSET = "Source env.sh at the start of the job, or `unset {names}`"


class Variable(NamedTuple):
    """A variable, the programs below what it names (none: itself is one), and what it does to a job."""

    name: str
    programs: tuple[str, ...]
    effect: str


VARIABLES = (
    Variable("CONDA_PREFIX", ("bin/python", "bin/python3"), "uv takes it for the environment to install into"),
    Variable("VIRTUAL_ENV", ("bin/python", "bin/python3"), "uv takes it for the environment to install into"),
    Variable("CONDA_EXE", ("",), "conda's own hooks run it"),
    Variable("CONDA_PYTHON_EXE", ("",), "conda's own hooks run it"),
    Variable("CONDA_DEFAULT_ENV", (), "conda's tools take it for active"),
    Variable("PYTHONHOME", ("bin/python3",), "Python takes its standard library from there"),
    Variable("PYTHONPATH", (), "its modules shadow those of the environment"),
    Variable("UV_PYTHON", ("", "bin/python3"), "uv runs that Python"),
    Variable("UV_PROJECT_ENVIRONMENT", ("bin/python",), "uv run uses that environment"),
)
"""Those that uv, conda and Python go by (uv 0.10.0, conda 25, CPython 3.12; 2026-08-18)."""

OURS = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")
"""Variables that may name the environment looked at."""

IMPORTANT = frozenset({"python", "python3", "uv", "uvx", "pip", "pip3", "ffmpeg", "ffprobe", "torchrun", "srun"})
"""Programs that a job of this kind starts by name."""

SYSTEM_FOLDERS = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/sbin"})
"""Folders that the system's packages fill: of the host's own architecture."""

MOST_PROGRAMS = 400
"""Files looked at in one folder of PATH; a full conda has 300 programs."""

MOST_MODULES = 200
"""Extension modules looked at below one entry of PYTHONPATH."""


LOADERS = (
    Variable("LD_PRELOAD", (), "the loader passes over it, and says so for every program that starts"),
    Variable("LD_LIBRARY_PATH", (), "the loader passes over it, and what a job expects there is not found"),
)
"""Lists of libraries, and of folders of them, that travel with a login node's modules (ld.so(8))."""

CPU_INDEX = re.compile(r"download\.pytorch\.org/whl/(?:\w+/)?cpu\b")
CHOOSERS = ("UV_TORCH_BACKEND", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "PIP_INDEX_URL",
            "PIP_EXTRA_INDEX_URL")  # fmt: skip
"""Variables that choose where uv and pip take torch from (uv 0.10.0, pip 25; 2026-08-18)."""


def check(context: Context) -> Finding:
    environ = context.request.environ
    problems = [*_variables(context), *_loaders(context), *_choosers(context), *_path(context)]
    looked = [*(variable.name for variable in (*VARIABLES, *LOADERS)), *CHOOSERS]
    fine = Finding(
        PASS,
        f"no variable of conda, venv, uv or Python points elsewhere; what PATH finds is {context.machine}",
        source="environment variables",
        facts=tuple(Fact(name, environ[name], "environment") for name in ("PATH", *looked) if environ.get(name)),
    )
    return worst(problems, fine)


def _variables(context: Context) -> Iterator[Finding]:
    for variable in VARIABLES:
        value = context.request.environ.get(variable.name, "")
        if not value or _is_ours(context, variable.name, value):
            continue
        foreign = _foreign(context, _programs(variable, value))
        hint = UNSET.format(names=variable.name)
        if foreign:
            path, machine = foreign
            detail = f"{variable.name}=`{value}` leads to `{path}`, which is for {machine}: {variable.effect}"
            yield Finding(FAIL, detail, hint, variable.name)
        elif variable.name != "UV_PROJECT_ENVIRONMENT":  # a folder of the project's own, often not made yet
            yield Finding(WARN, f"{variable.name}=`{value}` is set: {variable.effect}", hint, variable.name)


def _loaders(context: Context) -> Iterator[Finding]:
    """Libraries for another machine; those of this one are a matter of the job's own."""
    for variable in LOADERS:
        value = context.request.environ.get(variable.name, "")
        entries = [entry for entry in re.split(r"[:;\s]" if variable.name == "LD_PRELOAD" else "[:;]", value) if entry]
        others = [entry for entry in entries if not _is_staged(context, entry)]
        found = _foreign(context, (path for entry in others for path in _libraries(entry)))
        if found:
            detail = f"{variable.name}=`{value}` leads to `{found[0]}`, which is for {found[1]}: {variable.effect}"
            yield Finding(WARN, detail, UNSET.format(names=variable.name), variable.name)


def _is_staged(context: Context, entry: str) -> bool:
    """Whether A4 judges what is there: the folders that env.sh puts on LD_LIBRARY_PATH."""
    staged = [os.path.join(context.staged, name) for name in ("ffmpeg-linuxarm64", "store")] if context.staged else []
    bases = [os.path.realpath(base) for base in (*staged, context.env) if base]
    return any(f"{os.path.realpath(entry)}/".startswith(f"{base}/") for base in bases)


def _libraries(entry: str) -> Iterator[str]:
    names = [name for name in _names(entry) if ".so" in name]
    yield from (os.path.join(entry, name) for name in names[:MOST_MODULES])
    if not names:
        yield entry


def _choosers(context: Context) -> Iterator[Finding]:
    """What makes uv and pip install a torch without CUDA."""
    for name in CHOOSERS:
        value = context.request.environ.get(name, "")
        if (name == "UV_TORCH_BACKEND" and value == "cpu") or CPU_INDEX.search(value):
            detail = f"{name}=`{value}` is set: what is installed with it is a torch without CUDA"
            yield Finding(WARN, detail, UNSET.format(names=name), name)


def _is_ours(context: Context, name: str, value: str) -> bool:
    return name in OURS and bool(context.env) and os.path.realpath(value) == os.path.realpath(context.env)


def _programs(variable: Variable, value: str) -> Iterator[str]:
    for program in variable.programs:
        yield os.path.join(value, program) if program else value
    if variable.name in ("PYTHONPATH", "PYTHONHOME"):
        home = variable.name == "PYTHONHOME"
        for entry in value.split(":"):
            yield from _modules(os.path.join(entry, "lib") if home else entry)


def _modules(folder: str) -> Iterator[str]:
    """Extension modules in the folder and in the packages right below it."""
    found = 0
    for place in [folder, *_subfolders(folder)]:
        for name in _names(place):
            if name.endswith(".so") and found < MOST_MODULES:
                found += 1
                yield os.path.join(place, name)


def _subfolders(folder: str) -> list[str]:
    """Two levels: a package's, and lib/python3.x/lib-dynload under a PYTHONHOME."""
    first = [path for name in _names(folder) if os.path.isdir(path := os.path.join(folder, name))]
    return [*first, *(path for each in first if os.path.isdir(path := os.path.join(each, "lib-dynload")))]


def _foreign(context: Context, paths: Iterator[str]) -> tuple[str, str] | None:
    """The first file for another machine, with that machine."""
    for path in paths:
        machine = _machine(path)
        if machine not in (None, context.machine):
            return path, str(machine)
    return None


def _path(context: Context) -> Iterator[Finding]:
    """Programs that would be found first by their name and are for another machine."""
    found: set[str] = set()
    for folder in context.request.environ.get("PATH", "").split(":"):
        if not folder or folder in SYSTEM_FOLDERS:
            found.update(_names(folder) if folder else ())
            continue
        if context.env and os.path.realpath(folder).startswith(os.path.realpath(context.env) + os.sep):
            found.update(_names(folder))  # what is wrong in there is A1's finding
            continue
        names = _names(folder)[:MOST_PROGRAMS]
        first = [name for name in names if name not in found]
        found.update(names)
        foreign = {name: machine for name in first if (machine := _machine(os.path.join(folder, name)))}
        foreign = {name: machine for name, machine in foreign.items() if machine != context.machine}
        if foreign:
            yield _entry(folder, foreign)


def _entry(folder: str, foreign: dict[str, str]) -> Finding:
    important = sorted(IMPORTANT.intersection(foreign))
    named = important or sorted(foreign)[:1]
    machine = foreign[named[0]]
    more = f" and {len(foreign) - len(named)} more" if len(foreign) > len(named) else ""
    programs = listed(f"`{folder}/{name}`" for name in named)
    return Finding(
        FAIL if important else WARN,
        f"PATH finds {programs}{more}, which {'are' if len(foreign) > 1 else 'is'} for {machine}",
        f"Source env.sh, or take `{folder}` out of PATH in the job",
        "PATH",
    )


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _machine(path: str) -> str | None:
    try:
        return machine_of(path)
    except ArmstageError:
        return None
