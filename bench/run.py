"""Every benchmark, or the ones named. Each prints ratios against a named alternative."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "module_utils"))

from armstage.command_line import Parser  # noqa: E402


def main() -> int:
    known = sorted(path.stem for path in FOLDER.glob("*.py") if path.name != Path(__file__).name)
    parser = Parser(prog="./armstage bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(known)}; all by default")
    wanted = parser.parse_args().names or known
    if unknown := set(wanted) - set(known):
        parser.error(f"there is no benchmark `{'`, `'.join(sorted(unknown))}`, there are {', '.join(known)}")
    failed = 0
    for name in wanted:
        print(f"== {name}", flush=True)
        failed += subprocess.run([sys.executable, str(FOLDER / f"{name}.py")], check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
