"""CPython for aarch64 in python-build-standalone's layout, from the packages of the node's own image.

What differs from the upstream: the standard library is Debian's, extension modules are files instead of built in, and
the libraries that they need lie in `lib/`, where the interpreter's DT_RPATH finds them. So it runs from any folder.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from armstage.elf import reader
from armstage.errors import ArmstageError

from . import image, toolchain
from .command import output_of
from .host import Host
from .packing import pack

BUILD = "20260501"
MINOR = image.PYTHON_MINOR
PLACE = "github.com/astral-sh/python-build-standalone/releases/download"
LIBRARIES = "usr/lib/aarch64-linux-gnu"
# Part of glibc, and so of the system, in the upstream's builds too.
SYSTEM_LIBRARIES = re.compile(r"(ld-linux-aarch64|libc|libm|libdl|librt|libpthread|libutil|libresolv|libcrypt)\.so\.")
LEFT_OUT = ("test", "sitecustomize.py", "EXTERNALLY-MANAGED", f"config-{MINOR}-aarch64-linux-gnu")
# Where the upstream's builds are installed while they are made; who unpacks one replaces it by the real folder.
BUILD_PREFIX = "/install"
LAUNCHER = "int Py_BytesMain(int, char **);\nint main(int count, char **words) { return Py_BytesMain(count, words); }\n"
PKG_CONFIG = f"""\
prefix={BUILD_PREFIX}
exec_prefix=${{prefix}}
libdir=${{exec_prefix}}/lib
includedir=${{prefix}}/include

Name: Python
Description: Python library
Version: {MINOR}
Libs: -L${{libdir}} -lpython{MINOR}
Cflags: -I${{includedir}}/python{MINOR}
"""


def make(work: Path, host: Host) -> tuple[str, str, Path]:
    """Version, address without scheme, and the archive, made below `work`."""
    image.ensure(host)
    toolchain.ensure(host)
    if not image.archive().exists():
        raise ArmstageError("Expected the image's root filesystem, but the image was pulled", hint="See docs/lab.md")
    root, python = work / "root", work / "python"
    unpack_libraries(root)
    library = root / f"usr/lib/python{MINOR}"
    shutil.copytree(library, python / f"lib/python{MINOR}", ignore=shutil.ignore_patterns(*LEFT_OUT))
    add_libraries(root, python)
    add_metadata(python)
    add_launcher(python, work, host)
    version = version_in(root)
    name = f"cpython-{version}+{BUILD}-aarch64-unknown-linux-gnu-install_only_stripped.tar.gz"
    archive = work / name
    pack(python, "python", archive)
    return version, f"{PLACE}/{BUILD}/{name}", archive


def unpack_libraries(target: Path) -> None:
    target.mkdir()
    folders = [f"./{folder}" for folder in (LIBRARIES, f"usr/lib/python{MINOR}")]
    output_of(["tar", "-xf", str(image.archive()), "-C", str(target), *folders], timeout=120)


def version_in(root: Path) -> str:
    """`3.13.5`, as the standard library's bytecode cannot say but the interpreter's library does."""
    library = (root / LIBRARIES / f"libpython{MINOR}.so.1.0").read_bytes()
    found = re.search(rb"\0(" + re.escape(MINOR).encode() + rb"\.\d+)\0", library)
    if not found:
        raise ArmstageError(f"Expected a version {MINOR}.N in libpython{MINOR}.so.1.0, but found none")
    return found.group(1).decode()


def add_libraries(root: Path, python: Path) -> None:
    """Copy what libpython and the extension modules need; a module that needs what the image lacks is left out."""
    available = {path.name: path for path in (root / LIBRARIES).glob("*.so*")}
    wanted = {f"libpython{MINOR}.so.1.0"}
    for module in sorted((python / f"lib/python{MINOR}/lib-dynload").glob("*.so")):
        libraries = set(needed(module, available))
        if libraries <= set(available):
            wanted |= libraries
        else:
            module.unlink()
    wanted |= set(needed(available[f"libpython{MINOR}.so.1.0"], available))
    for name in sorted(wanted):
        shutil.copy(available[name], python / "lib" / name)
    (python / f"lib/libpython{MINOR}.so").symlink_to(f"libpython{MINOR}.so.1.0")


def needed(path: Path, available: dict[str, Path], seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """The sonames that a file needs, and those that they need in turn, less the system's own."""
    for name in reader.read(str(path)).needed:
        if name in seen or SYSTEM_LIBRARIES.match(name):
            continue
        yield name
        if name in available:
            yield from needed(available[name], available, seen | {name})


def add_metadata(python: Path) -> None:
    """Build settings that name the upstream's prefix; an empty site-packages, and pkg-config's file."""
    library = python / f"lib/python{MINOR}"
    for path in library.glob("_sysconfigdata_*.py"):
        path.write_text(re.sub(r"(?<=')/usr(?=[/'])", BUILD_PREFIX, path.read_text()))
        (library / "__pycache__" / f"{path.stem}.cpython-{MINOR.replace('.', '')}.pyc").unlink(missing_ok=True)
    (library / "site-packages").mkdir()
    (python / "lib/pkgconfig").mkdir()
    (python / f"lib/pkgconfig/python-{MINOR}.pc").write_text(PKG_CONFIG)


def add_launcher(python: Path, work: Path, host: Host) -> None:
    """`bin/python3.13`: one call into libpython, which DT_RPATH finds beside it as in the upstream's builds."""
    folder, source = python / "bin", work / "launcher.c"
    folder.mkdir()
    source.write_text(LAUNCHER)
    options = ["-Wl,-rpath,$ORIGIN/../lib", "-Wl,--disable-new-dtags", "-Wl,--unresolved-symbols=ignore-in-shared-libs"]
    command = [f"{toolchain.prefix(host)}gcc", "-O2", "-s", "-o", str(folder / f"python{MINOR}"), str(source)]
    output_of([*command, f"-L{python / 'lib'}", f"-l:libpython{MINOR}.so.1.0", *options], timeout=60)
    for name in ("python3", "python"):
        (folder / name).symlink_to(f"python{MINOR}")


def checksum_file(address: str, digest: str) -> tuple[str, str]:
    """Where the upstream keeps this archive's checksum, and the text there."""
    folder, _, name = address.rpartition("/")
    return f"{folder}/SHA256SUMS", f"{digest}  {name}\n"
