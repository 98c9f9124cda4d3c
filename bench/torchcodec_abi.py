"""Telling which FFmpeg core torchcodec would load, against importing it: both in one arm64 node, on one environment.

The alternative is what people type to find out: `python -c "import torchcodec"` after env.sh, without byte-code, as
from a root that nobody but the stager may write. Needs a root staged by `./armstage demo`.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "module_utils")]

from lab import nodes  # noqa: E402
from lab.host import cache_folder  # noqa: E402

NODE = "armstage-bench"
ROUNDS = 3
INSPECT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from armstage.elf.torchcodec import inspect
found = inspect(env=sys.argv[2], ffmpeg_dirs=[sys.argv[3]], ffmpeg_major=7)
assert found.ok, found.message
"""


def seconds(argv):
    begin = time.perf_counter()
    nodes.execute(NODE, argv)
    return time.perf_counter() - begin


def main() -> int:
    staged = cache_folder() / "demo" / "work" / os.environ.get("USER", "user") / ".local"
    if not (staged / "envs/cu130").exists():
        print(f"skipped: nothing is staged at {staged}; run ./armstage demo first")
        return 0
    nodes.up(nodes.Node(NODE, shared=[str(cache_folder() / "demo" / "work"), str(ROOT / "module_utils")]))
    try:
        read = [
            "python3",
            "-c",
            INSPECT,
            str(ROOT / "module_utils"),
            f"{staged}/envs/cu130",
            f"{staged}/ffmpeg-linuxarm64/lib",
        ]
        load = ["sh", "-c", f". {staged}/env.sh && python -B -c 'import torchcodec'"]
        times = [(seconds(read), seconds(load)) for _round in range(ROUNDS)]
    finally:
        nodes.down(NODE)
    ours, alternative = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = alternative / ours
    print(f"torchcodec_abi_info: {ours:.2f} s, import torchcodec in the node: {alternative:.2f} s, ratio {ratio:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
