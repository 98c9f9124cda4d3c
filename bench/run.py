"""Every benchmark, or the ones named: ./armstage bench [NAME ...]. Each prints ratios against a named alternative."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main() -> int:
    known = sorted(path.stem for path in FOLDER.glob("*.py") if path.name != Path(__file__).name)
    wanted = sys.argv[1:] or known
    if unknown := set(wanted) - set(known):
        print(
            f"armstage bench: no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(known)}",
            file=sys.stderr,
        )
        return 3
    failed = 0
    for name in wanted:
        print(f"== {name}", flush=True)
        failed += subprocess.run([sys.executable, str(FOLDER / f"{name}.py")], check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
