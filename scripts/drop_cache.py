# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`./armstage drop-cache`: drop the page cache of the hosts, and before each of several runs.

    ./armstage drop-cache                                  this host
    ./armstage drop-cache -i inventory/spark               all hosts of an inventory
    ./armstage drop-cache --run 'python bench.py 1' --run 'python bench.py 2'

Each command of --run runs where the cache was dropped: with -i on all those hosts, else here. Other options go to
ansible-playbook (--check, --limit, -K, -e page_cache_only_below=100).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "module_utils"))

from armstage import inventory  # noqa: E402
from armstage.command_line import USAGE, Parser  # noqa: E402
from armstage.errors import ArmstageError  # noqa: E402

NOT_DROPPED = "not run, since the page cache could not be dropped"


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our options, and the rest for ansible-playbook."""
    parser = Parser(
        prog="./armstage drop-cache",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-i", "--inventory", action="append", default=[], help="as ansible-playbook takes it")
    parser.add_argument("-l", "--limit", help="as ansible-playbook takes it")
    parser.add_argument("-C", "--check", action="store_true", help="say what would be freed; run nothing")
    parser.add_argument("--run", action="append", default=[], metavar="COMMAND", help="a shell command; repeatable")
    return parser.parse_known_args(arguments)


def hosts_of(options: argparse.Namespace) -> list[str]:
    """The options that choose hosts, for ansible-playbook and for ansible."""
    inventories = options.inventory or [str(PROJECT / "inventory" / "localhost")]
    limit = ["--limit", options.limit] if options.limit else []
    return [word for inventory in inventories for word in ("-i", inventory)] + limit


def drop_command(options: argparse.Namespace, rest: list[str]) -> list[str]:
    check = ["--check"] if options.check else []
    return ["ansible-playbook", str(PROJECT / "playbooks" / "page_cache.yml"), *hosts_of(options), *check, *rest]


def run_command(options: argparse.Namespace, command: str) -> list[str]:
    """The command here, or on the hosts, where nothing in it is a template."""
    if not options.inventory:
        return ["sh", "-c", command]
    words = json.dumps({"cmd": "{% raw %}" + command + "{% endraw %}"})
    return ["ansible", "all", *hosts_of(options), "-m", "ansible.builtin.shell", "-a", words]


def main(arguments: list[str]) -> int:
    """The exit status of the first step that failed, or 0."""
    options, rest = parse(arguments)
    if not options.run:
        return subprocess.call(drop_command(options, rest))
    outcomes = []
    for number, command in enumerate(options.run, 1):
        dropped = subprocess.call(drop_command(options, rest))
        if dropped or options.check:
            outcomes.append((dropped, f"{command}: {NOT_DROPPED if dropped else 'not run, as --check asked'}"))
            continue
        print(f"== run {number} of {len(options.run)}: {command}", flush=True)
        begin = time.monotonic()
        status = subprocess.call(run_command(options, command))
        outcomes.append((status, f"{command}: {time.monotonic() - begin:.1f} s, exit status {status}"))
    print("== " + "\n== ".join(text for _status, text in outcomes))
    return next((status for status, _text in outcomes if status), 0)


if __name__ == "__main__":
    try:
        inventory.check(inventory.sources(sys.argv[1:]), PROJECT / "inventory")
        sys.exit(main(sys.argv[1:]))
    except ArmstageError as error:
        print(f"armstage: {error.text}", file=sys.stderr)
        sys.exit(USAGE)
    except KeyboardInterrupt:
        sys.exit(130)
