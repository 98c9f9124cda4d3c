"""Staging the torch environment of a stack from a warm cache, against uv installing the same pins alone.

Both are processes, started alternately, with the same uv, cache and filesystem, for aarch64 and Python 3.13. The module
also verifies, lays out, looks at every ELF file, writes a record, syncs and publishes; uv leaves a folder of packages.
"""

from __future__ import annotations

import json
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

MODULE = """\
import json, sys
import ansible.module_utils
from ansible.module_utils.testing import patch_module_args
ansible.module_utils.__path__.append(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import python_env
with patch_module_args(json.loads(sys.argv[3])):
    python_env.main()
"""


def seconds(argv):
    begin = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    return time.perf_counter() - begin


def by_uv(folder, packages):
    target = ["--python", sys.executable, "--python-platform", PLATFORM, "--python-version", PYTHON]
    return seconds(["uv", "pip", "install", *target, "--target", str(folder / "packages"), *packages])


def by_the_module(folder, **options):
    arguments = {"dest": str(folder / "root"), "tag": "cu130", "python": f"/usr/bin/python{PYTHON}", **options}
    paths = [str(ROOT / "module_utils"), str(ROOT / "library")]
    return seconds([sys.executable, "-c", MODULE, *paths, json.dumps(arguments)])


def compared(place, name, ours, alternative):
    """One warming round, which is not counted, then the medians of the rounds."""
    taken = {ours: [], alternative: []}
    for number in range(ROUNDS + 1):
        for measure in (ours, alternative) if number % 2 else (alternative, ours):
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
        "python_env with the stack's lock",
        lambda folder: by_the_module(folder, lock=str(LOCK), requirements=REQUIREMENTS),
        lambda folder: by_uv(folder, ["--require-hashes", "-r", str(LOCK)]),
    )
    compared(
        place,
        "python_env with the stack's requirements, resolved first",
        lambda folder: by_the_module(folder, requirements=REQUIREMENTS),
        lambda folder: by_uv(folder, REQUIREMENTS),
    )


if __name__ == "__main__":
    main()
