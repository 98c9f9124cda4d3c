# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`./armstage rollback`: move the links of what is staged back.

    ./armstage rollback --to previous                     what was linked before the last run that moved links
    ./armstage rollback --to cu128 -i inventory/cluster   no environment newer than that of cu128, on any node

Nothing is fetched or removed, and jobs that run are not touched. `./armstage stage` goes forward again. Other options
go to ansible-playbook (--check, --diff, --limit).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PLAYBOOK = PROJECT / "playbooks" / "rollback.yml"
sys.path.insert(0, str(PROJECT / "module_utils"))

from armstage import inventory  # noqa: E402
from armstage.command_line import USAGE, Parser  # noqa: E402
from armstage.errors import ArmstageError  # noqa: E402


def command(arguments: list[str]) -> list[str]:
    """The run of ansible-playbook that was asked for."""
    parser = Parser(
        prog="./armstage rollback",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--to", required=True, metavar="TAG|previous", help="where to go")
    options, rest = parser.parse_known_args(arguments)
    return ["ansible-playbook", str(PLAYBOOK), "-e", json.dumps({"armstage_rollback_to": options.to}), *rest]


def main(arguments: list[str]) -> int:
    words = command(arguments)
    try:
        inventory.check(inventory.sources(arguments), PROJECT / "inventory")
    except ArmstageError as error:
        print(f"armstage: {error.text}", file=sys.stderr)
        return USAGE
    return subprocess.call(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
