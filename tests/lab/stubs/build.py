"""Compile the stand-ins for libcuda.so.1 and libnvidia-ml.so.1 (see stub.h for what they answer)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = ("libcuda", "libnvidia-ml")


def build(
    folder: str | Path,
    compiler: str = "aarch64-linux-gnu-gcc",
    version: str = "580.95.05",
    defines: tuple[str, ...] = (),
) -> Path:
    """Make `<name>.so.<version>` of each library in ``folder``, with its `.so.1` link: the folder.

    The file's name carries the driver version, as it does in NVIDIA's packages.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        file = folder / f"{name}.so.{version}"
        options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{name}.so.1"]
        symbols = [f"-D{define}" for define in defines]
        command = [compiler, *options, *symbols, "-o", str(file), str(HERE / f"{name}.c")]
        subprocess.run(command, check=True, timeout=120)
        link = folder / f"{name}.so.1"
        link.unlink(missing_ok=True)
        link.symlink_to(file.name)
    return folder


if __name__ == "__main__":
    print(build(*sys.argv[1:]))
