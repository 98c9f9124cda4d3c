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

PLAYBOOK = Path(__file__).resolve().parent.parent / "playbooks" / "rollback.yml"


def command(arguments: list[str]) -> list[str]:
    """The run of ansible-playbook that was asked for."""
    parser = argparse.ArgumentParser(
        prog="./armstage rollback",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--to", required=True, metavar="TAG|previous", help="where to go")
    options, rest = parser.parse_known_args(arguments)
    return ["ansible-playbook", str(PLAYBOOK), "-e", json.dumps({"armstage_rollback_to": options.to}), *rest]


if __name__ == "__main__":
    sys.exit(subprocess.call(command(sys.argv[1:])))
