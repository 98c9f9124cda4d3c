"""Staging the torch environment of a stack from a warm cache, against uv installing the same pins alone.

Both are processes, started alternately, with the same uv, cache and filesystem, for aarch64 and Python 3.13. Staging
is what python_env does, without the 0.3 s that Ansible takes to start any module: besides uv's work it lays out the
environment, looks at every ELF file, writes a record, syncs and publishes. uv leaves a folder of packages.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "vars/stacks/locks/2026.05-cu130.txt"
REQUIREMENTS = [
    "torch==2.11.0",
    "torchvision==0.26.0",
    "torchcodec==0.11.1",
    "nvidia-npp>=13.0,<13.1",
    "numpy==2.5.5",
]
PLATFORM, PYTHON = "aarch64-manylinux_2_28", "3.13"
ROUNDS = 3

STAGE = """\
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from armstage.staging.environment import Desired, Source
from armstage.staging.provision import LiveReporter, act
from armstage.staging.venv import interpreter
root, python, lock, *requirements = sys.argv[2:]
source = Source(lock=Path(lock).read_text() if lock else "")
act(Desired(Path(root), "cu130", interpreter(python), tuple(requirements), (source,)), LiveReporter())
"""


def seconds(argv):
    begin = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    return time.perf_counter() - begin


def by_uv(folder, packages):
    target = ["--python", sys.executable, "--python-platform", PLATFORM, "--python-version", PYTHON]
    return seconds(["uv", "pip", "install", *target, "--target", str(folder / "packages"), *packages])


def by_staging(folder, lock=""):
    arguments = [str(ROOT / "module_utils"), str(folder / "root"), f"/usr/bin/python{PYTHON}", str(lock), *REQUIREMENTS]
    return seconds([sys.executable, "-c", STAGE, *arguments])


def compared(place, name, ours, alternative):
    """One warming round, which is not counted, then the medians of the rounds."""
    taken = {ours: [], alternative: []}
    for number in range(ROUNDS + 1):
        for measure in (ours, alternative) if number % 2 else (alternative, ours):
            os.sync()  # what the round before has removed is not to be waited for in this one
            with tempfile.TemporaryDirectory(dir=place) as folder:
                taken[measure].append(measure(Path(folder)))
    own, other = (statistics.median(taken[measure][1:]) for measure in (ours, alternative))
    print(f"{name}: {own:.2f} s, uv pip install: {other:.2f} s, ratio {own / other:.2f}", flush=True)


def main():
    if shutil.which("uv") is None:
        sys.exit("bench: uv is not on the path")
    cache = subprocess.run(["uv", "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    place = Path(cache).parent
    compared(
        place,
        "stage by the stack's lock",
        lambda folder: by_staging(folder, LOCK),
        lambda folder: by_uv(folder, ["--require-hashes", "-r", str(LOCK)]),
    )
    compared(
        place,
        "resolve and stage the stack's requirements",
        by_staging,
        lambda folder: by_uv(folder, REQUIREMENTS),
    )


if __name__ == "__main__":
    main()
