"""armstage-preflight's default run against the public recipe's two `import torch`, both in one arm64 node.

The recipe asks torch for its CUDA and its capability in two programs. Without byte-code both sides run as in a root
that nobody but the stager may write; with it, as after the first import of torch by somebody who may. The program is a
zip of sources and has none in either case. Needs a root staged by `./armstage demo`.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "module_utils")]

from lab import nodes  # noqa: E402
from lab.host import cache_folder  # noqa: E402

from armstage.preflight import bundle  # noqa: E402

NODE = "armstage-bench-preflight"
ROUNDS = 3
IMPORT = "import torch; torch.version.cuda, torch.cuda.is_available()"


def seconds(script):
    begin = time.perf_counter()
    nodes.execute(NODE, ["sh", "-c", script])
    return time.perf_counter() - begin


def compare(name, setup, program):
    recipe = f'{setup} python -c "{IMPORT}" && python -c "{IMPORT}"'
    seconds(recipe)  # what may be kept is there from now on
    mine = statistics.median(seconds(f"{setup} {program}") for _round in range(ROUNDS))
    theirs = statistics.median(seconds(recipe) for _round in range(ROUNDS))
    print(f"{name}: armstage-preflight {mine:.2f} s, two imports of torch {theirs:.2f} s, ratio {theirs / mine:.1f}")


def main() -> int:
    work = cache_folder() / "demo" / "work"
    staged = work / os.environ.get("USER", "user") / ".local"
    if not (staged / "envs/cu130").exists():
        print(f"skipped: nothing is staged at {staged}; run ./armstage demo first")
        return 0
    with tempfile.TemporaryDirectory(dir=work) as folder:
        program = Path(folder, "armstage-preflight")
        program.write_bytes(bundle.build())
        program.chmod(0o755)
        nodes.up(nodes.Node(NODE, shared=[str(work)]))
        try:
            for name, settings in {
                "without byte-code": f'PYTHONDONTWRITEBYTECODE=1 PYTHONPYCACHEPREFIX="{folder}/none"',
                "with byte-code": f'PYTHONPYCACHEPREFIX="{folder}/kept"',
            }.items():
                compare(name, f". {staged}/env.sh && export {settings} &&", program)
        finally:
            nodes.down(NODE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
