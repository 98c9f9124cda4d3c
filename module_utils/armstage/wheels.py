"""What is installed in an environment, from its dist-info folders and source text; nothing is imported.

Formats: "Recording installed projects", "Core metadata", "Binary distribution format" and "Entry
points" of the PyPA specifications (packaging.python.org, 2026-08).
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .errors import ArmstageError
from .files import read_text


@dataclass(frozen=True)
class Distribution:
    """One installed distribution.

    ``name`` is normalised, ``tags`` are the wheel's (``cp312-cp312-manylinux_2_28_aarch64``),
    ``scripts`` maps a command to its ``module:function``, ``duplicates`` are the other dist-info
    folders of the same name: leftovers of an installation over another.
    """

    name: str
    version: str
    path: str
    tags: tuple[str, ...]
    scripts: dict[str, str]
    duplicates: tuple[str, ...] = ()


def normalise(name: str) -> str:
    """A distribution's name as indexes compare it: ``Nvidia_NPP`` is ``nvidia-npp``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def site_packages(env: str) -> str:
    """The one folder of an environment that its distributions are in.

    ``env`` is a virtual environment, or itself a folder that ``pip install --target`` filled.
    Raises ArmstageError where there is none, or more than one.
    """
    libraries = os.path.join(env, "lib")
    names = sorted(os.listdir(libraries)) if os.path.isdir(libraries) else []
    pythons = [os.path.join(libraries, name) for name in names if name.startswith("python3")]
    # Debian's own Python, and with it NVIDIA's images, keeps what pip installs in /usr/local in dist-packages.
    folders = [[os.path.join(python, kind) for python in pythons] for kind in ("site-packages", "dist-packages")]
    found = next(filter(None, ([path for path in each if os.path.isdir(path)] for each in folders)), [])
    if not found and any(_dist_info(env)):
        return env
    if not found:
        raise ArmstageError(
            f"No Python environment at `{env}`: expected `lib/python3.*/site-packages` in it",
            hint="Give the folder that holds bin/python, or one filled by `pip install --target`",
        )
    if len(found) > 1:
        listed = ", ".join(f"`{path}`" for path in found)
        raise ArmstageError(
            f"`{env}` is an environment of more than one Python: {listed}",
            hint="Remove the one that is not used, or build the environment anew",
        )
    return found[0]


def installed(folder: str, unfinished: list[str] | None = None) -> dict[str, Distribution]:
    """Every distribution in a site-packages folder, by normalised name.

    Of duplicates the last in the order of folder names is reported. Raises ArmstageError for a
    folder that cannot be listed and for a dist-info without name and version, which is noted
    in ``unfinished`` instead where that is given.
    """
    found: dict[str, Distribution] = {}
    for path in _dist_info(folder):
        headers = _headers(path, "METADATA")
        if not headers.get("Name") or not headers.get("Version"):
            message = f"`{path}/METADATA` holds no Name and Version: the installation was not finished"
            if unfinished is None:
                raise ArmstageError(message, hint=f"Install the distribution again, or remove `{path}`")
            unfinished.append(message)
            continue
        name = normalise(headers["Name"][0])
        before = found.get(name)
        found[name] = Distribution(
            name=name,
            version=headers["Version"][0],
            path=path,
            tags=tuple(_headers(path, "WHEEL").get("Tag", ())),
            scripts=_scripts(path),
            duplicates=(*before.duplicates, before.path) if before else (),
        )
    return found


def literals(path: str) -> dict[str, object]:
    """The constants that a source file assigns at its top level, such as ``__version__``.

    Read as text, never imported; empty where there is no such file. This is how a torch build is
    told from another: its metadata say ``2.11.0``, ``torch/version.py`` says ``2.11.0+cu130``.
    Raises ArmstageError for a file that is not Python.
    """
    text = read_text(path)
    try:
        body = ast.parse(text or "").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ArmstageError(f"`{path}` is not Python source: {error}", hint="Install the distribution again") from error
    values: dict[str, object] = {}
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Constant):
            values.update((target.id, value.value) for target in targets if isinstance(target, ast.Name))
    return values


def _dist_info(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ArmstageError(f"Failed to list `{folder}`: {error.strerror}") from error
    # What pip moves out of the way before it installs is named ``~orch-2.10.0.dist-info``: no one reads that.
    found = (name for name in names if name.endswith(".dist-info") and not name.startswith("~"))
    return (os.path.join(folder, name) for name in found)


def _headers(dist_info: str, name: str) -> dict[str, list[str]]:
    """The ``Key: value`` lines before the first empty one."""
    headers: dict[str, list[str]] = {}
    for line in (read_text(os.path.join(dist_info, name)) or "").splitlines():
        if not line:
            break
        key, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            headers.setdefault(key, []).append(value.strip())
    return headers


def _scripts(dist_info: str) -> dict[str, str]:
    path = os.path.join(dist_info, "entry_points.txt")
    text = read_text(path)
    if not text:
        return {}
    import configparser

    parser = configparser.ConfigParser(delimiters="=", interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # command names keep their case
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ArmstageError(
            f"`{path}` is not an entry points file: {error.message}", hint="Install the distribution again"
        ) from error
    return dict(parser["console_scripts"]) if parser.has_section("console_scripts") else {}
