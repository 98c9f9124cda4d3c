"""A Python environment's layout made by hand: no Python of the target runs, nothing in it names the folder it lies in.

uv unpacks with ``--prefix``, which lays out ``bin``, ``include``, ``share`` and ``lib/pythonX.Y`` as an
environment of the interpreter that uv itself runs on. ``finish`` makes that the target's.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import ArmstageError

TRAMPOLINE = b'''\
#!/bin/sh
""":"
exec "$(dirname -- "$(realpath -- "$0")")/python"%s "$0" "$@"
":"""
'''
"""The head of a script: sh runs the Python beside the script, and to Python it is a string.

It holds no path, so that the script survives a rename, links to it, and folder names of any length.
"""

HEADS = (
    re.compile(rb"#!/bin/sh\n'''exec' [^\n]*\n' '''\n(?P<options>)"),
    re.compile(rb"#![ \t]*(?:\S*/)?python[\d.]*w?(?P<options>(?:[ \t]+-\w+)*)[ \t]*\n"),
)
"""What uv puts in front of a Python script; the first where the interpreter's path is long or has a space in it."""

OUTSIDE = re.compile(r'^"?\.\./\.\./\.\./.*$', re.MULTILINE)
"""The lines of a RECORD about files that are not in site-packages: torch's has 13,000 of the others."""

HEADERS = re.compile(r"^\.\./\.\./\.\./include/site/python3[^/]*/")

CODING = re.compile(rb"#[^\n]*?coding[:=][ \t]*[-\w.]+[^\n]*\n")
"""The declaration of PEP 263, which counts in the first two lines only."""


@dataclass(frozen=True)
class Interpreter:
    """The target's Python: its path as the node sees it, and its version, `3.12` or `3.12.12`."""

    path: str
    version: str

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


def interpreter(path: str, version: str = "") -> Interpreter:
    """The interpreter at a path that need not exist here; what ``version`` leaves open is read from the path.

    ``.../cpython-3.12.12-linux-aarch64-gnu/bin/python3`` and ``/usr/bin/python3.13`` both say it.
    """
    if not os.path.isabs(path):
        raise ArmstageError(
            f"Expected an absolute path in `python`, but found `{path}`",
            hint="Give the path of the interpreter as the node sees it, for example /usr/bin/python3.13",
        )
    if version and not re.fullmatch(r"3\.\d+(\.\d+)?", version):
        raise ArmstageError(
            f"Expected a version such as 3.12 in `python_version`, but found `{version}`",
            hint="Give its two or three numbers and nothing else",
        )
    file_says = re.fullmatch(r"python(3\.\d+)", os.path.basename(path))
    if version and file_says and file_says[1] != ".".join(version.split(".")[:2]):
        raise ArmstageError(f"`python_version` is `{version}`, but `python` is `{path}`", hint="Correct one of the two")
    named = re.findall(r"python-?(3\.\d+(?:\.\d+)?)", path)
    if not version and not named:
        raise ArmstageError(
            f"The version of Python can't be read from the path `{path}`",
            hint="Set `python_version`, for example 3.12",
        )
    version = version or named[-1]
    more_exact = [name for name in named if name.startswith(f"{version}.")]
    return Interpreter(path, more_exact[0] if more_exact else version)


def site_packages(environment: Path, python: Interpreter) -> Path:
    return environment / "lib" / f"python{python.minor}" / "site-packages"


def prepare(environment: Path) -> None:
    """Before uv unpacks: where uv runs on a Python of Fedora's it puts binary packages under ``lib64``."""
    for folder in ("bin", "lib", "share/armstage"):
        (environment / folder).mkdir(parents=True)
    (environment / "lib64").symlink_to("lib")


def finish(environment: Path, python: Interpreter) -> None:
    """Make what uv unpacked an environment of ``python``."""
    (environment / ".lock").unlink(missing_ok=True)
    for folder in ("lib", "include/site"):
        _rename_minor(environment / folder, f"python{python.minor}")
    site = site_packages(environment, python)
    site.mkdir(parents=True, exist_ok=True)
    scripts = _relocate_scripts(environment / "bin")
    _correct_records(site, scripts, f"../../../include/site/python{python.minor}/")
    for name, target in (("python", python.path), ("python3", "python"), (f"python{python.minor}", "python")):
        (environment / "bin" / name).unlink(missing_ok=True)
        (environment / "bin" / name).symlink_to(target)
    _write(environment / "pyvenv.cfg", configuration(python).encode())


def configuration(python: Interpreter) -> str:
    """The text of pyvenv.cfg."""
    return f"home = {os.path.dirname(python.path)}\ninclude-system-site-packages = false\nversion = {python.version}\n"


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Put a new file in the place of one that may be a hard link into uv's cache."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _rename_minor(folder: Path, name: str) -> None:
    """``lib/python3.11``, of the interpreter that uv runs on, becomes ``lib/python3.13``."""
    for found in folder.glob("python3*"):
        if found.name != name:
            found.rename(folder / name)


def _relocate_scripts(folder: Path) -> dict[str, bytes]:
    """Give every Python script of a folder the trampoline; those that changed, by name."""
    changed = {}
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(2) != b"#!":
                continue
            content = relocatable(b"#!" + file.read())
        if content is not None:
            _write(path, content, mode=0o755)
            changed[path.name] = content
    return changed


def relocatable(script: bytes) -> bytes | None:
    """A script with the trampoline as its head, or None where it is not a script for uv's Python."""
    head = next((match for pattern in HEADS if (match := pattern.match(script))), None)
    if head is None:
        return None
    body = script[head.end() :]
    trampoline = TRAMPOLINE % head["options"]
    coding = CODING.match(body)
    if coding is None:
        return trampoline + body
    shebang, rest = trampoline.split(b"\n", 1)
    return shebang + b"\n" + coding.group() + rest + body[coding.end() :]


def _correct_records(site: Path, scripts: dict[str, bytes], include: str) -> None:
    """Have each RECORD say what its package's scripts and headers are now."""
    for path in site.glob("*.dist-info/RECORD"):
        text = path.read_text(encoding="utf-8")
        corrected = corrected_record(text, scripts, include)
        if corrected != text:
            _write(path, corrected.encode())


def corrected_record(text: str, scripts: dict[str, bytes], include: str) -> str:
    """A RECORD with new digests and sizes for ``scripts``, and headers where ``include`` says.

    Format: the specification "Recording installed projects": path, `sha256=` URL-safe base64, size.
    """

    def corrected(line: re.Match[str]) -> str:
        path, *rest = next(csv.reader([line[0]]))
        folder, _slash, name = path.rpartition("/")
        if folder == "../../../bin" and name in scripts:
            rest = [f"sha256={_digest(scripts[name])}", str(len(scripts[name]))]
        row = io.StringIO()
        csv.writer(row, lineterminator="").writerow([HEADERS.sub(include, path), *rest])
        return row.getvalue()

    return OUTSIDE.sub(corrected, text)


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
