# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`./armstage stage`, `verify` and `preflight`: ansible-playbook with Slurm's words besides its own.

--limit 'gb[01-03,07]'   a hostlist expression, besides Ansible's patterns
--no-allocation          stage: for nodes that are not asked; with -e armstage_cuda_version=13.0
--fleet                  verify: the preflight on every usable node, by one srun (see scripts/fleet.py)
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "module_utils"))

from armstage import inventory  # noqa: E402
from armstage.command_line import USAGE  # noqa: E402
from armstage.errors import ArmstageError  # noqa: E402
from armstage.slurm import hostlist  # noqa: E402

# A bracket of Slurm's holds a range or a list; Ansible's own subscripts are written `[0]` and `[0:2]`.
HOSTLIST = re.compile(r"\[\d+(?:[-,]\d+)+\]")
ASSUMED = ["-e", "armstage_assume_nodes=true", "--skip-tags", "armstage_prove"]


def translate(arguments: list[str]) -> list[str]:
    """The arguments for ansible-playbook."""
    words: list[str] = []
    for word in arguments:
        if word == "--no-allocation":
            words += ASSUMED
        elif words and words[-1] in ("-l", "--limit"):
            words.append(expanded(word))
        elif word.startswith("--limit="):
            words.append(f"--limit={expanded(word.removeprefix('--limit='))}")
        else:
            words.append(word)
    return words


def expanded(pattern: str) -> str:
    """A pattern with its hostlists written out; what stands in front, such as `!` and `&`, holds for each name."""
    if "~" in pattern or not HOSTLIST.search(pattern):  # a regular expression has brackets of its own
        return pattern
    parts = re.split(r"[,:](?![^\[]*\])", pattern)
    return ",".join(
        mark + name
        for part in parts
        for mark, names in [(part[:1], part[1:]) if part[:1] in "!&" else ("", part)]
        for name in (hostlist.expand(names) if HOSTLIST.search(names) else [names])
    )


def main() -> None:
    verb, *arguments = sys.argv[1:]
    if {"-h", "--help"}.intersection(arguments) and "--fleet" not in arguments:
        from playbook_help import text  # with PyYAML, which nothing else here needs

        print(text(verb))
        return
    try:
        inventory.check(inventory.sources(arguments), PROJECT / "inventory")
        command = ["ansible-playbook", str(PROJECT / "playbooks" / f"{verb}.yml"), *translate(arguments)]
    except ArmstageError as error:
        print(f"armstage: {error.text}", file=sys.stderr)
        sys.exit(USAGE)
    if verb == "verify" and "--fleet" in arguments:
        arguments.remove("--fleet")
        os.execv(sys.executable, [sys.executable, str(PROJECT / "scripts" / "fleet.py"), *arguments])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
