"""Builds `armstage-preflight`: one file that runs wherever there is a Python 3.9, the same bytes from the same sources.

It is a zip file of the modules that ``cli`` imports, behind a few lines of shell. The shell starts Python
with -I, so that a variable that leaked into the job (PYTHONHOME, PYTHONPATH) can't break the program that
is to report it, and goes on to the next Python where one is for another machine, or too old.
"""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[2]
"""The folder that holds the package `armstage`."""

START = "armstage.preflight.cli"

ASSETS = ("armstage/preflight/report/page.css", "armstage/preflight/report/page.js")

HEAD = """\
#!/bin/sh
# armstage-preflight: is this node ready for a run? See --help. Below these lines is a zip file of Python.
for python in python3 "${ARMSTAGE_ENV:+$ARMSTAGE_ENV/bin/python3}" /usr/bin/python3; do
    [ -n "$python" ] || continue
    "$python" -IS "$0" "$@" 2>&3
    status=$?
    case $status in 126 | 127) ;; *) exit "$status" ;; esac
done 3>&2 2>/dev/null
echo "armstage-preflight: no Python 3.9 or newer runs here; hint: source env.sh of the staged root" >&2
exit 3
"""

MAIN = """\
import sys
from zipimport import zipimporter

if sys.version_info < (3, 9):
    sys.exit(127)


class Importer(zipimporter):
    # The base compiles a module to say where it is from, and again to load it (CPython 3.13, zipimport.py).
    def get_filename(self, fullname):
        name = self.prefix + fullname.rpartition(".")[2]
        return self.archive + "/" + name + ("/__init__.py" if self.is_package(fullname) else ".py")


sys.path_hooks.insert(0, Importer)
sys.path_importer_cache.clear()

from armstage.preflight.cli import main

sys.exit(main())
"""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: the oldest that a zip file can hold."""


def build(packages: Path = PACKAGES) -> bytes:
    """The program. Nothing is compressed: what compresses to other bytes elsewhere would not be the same file."""
    files = [path_of(packages, name) for name in closure(packages)]
    program = io.BytesIO()
    program.write(HEAD.encode("ascii"))
    with zipfile.ZipFile(program, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.py", MAIN.encode("ascii"))
        for path in sorted([*files, *ASSETS]):
            _add(archive, path, (packages / path).read_bytes())
    return program.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.create_system, entry.external_attr = 3, 0o100644 << 16
    archive.writestr(entry, content)


def closure(packages: Path) -> set[str]:
    """The modules below `armstage` that the program imports, at any level, and their packages."""
    found: set[str] = set()
    ahead = [START]
    while ahead:
        name = ahead.pop()
        if name in found:
            continue
        found.add(name)
        parent = name.rpartition(".")[0]
        ahead += [parent] if parent else []
        ahead += imports(packages, name)
    return found


def imports(packages: Path, name: str) -> Iterator[str]:
    """The project's modules that one module imports, also inside of functions."""
    path = packages / path_of(packages, name)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join(
                [*package.split(".")[: len(package.split(".")) - node.level + 1], *filter(None, [node.module])]
            )
            yield from (module for alias in node.names if is_module(packages, module := f"{base}.{alias.name}"))
            if is_module(packages, base):
                yield base


def is_module(packages: Path, name: str) -> bool:
    path = packages / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def path_of(packages: Path, name: str) -> str:
    """The file of a module, from the folder of packages."""
    path = name.replace(".", "/")
    return f"{path}/__init__.py" if (packages / path).is_dir() else f"{path}.py"
