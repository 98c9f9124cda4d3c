# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What `./armstage stage --help` and its likes print: what the verb adds to ansible-playbook, and its variables."""

from __future__ import annotations

import textwrap
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parent.parent
WIDTH = 100

WHAT = {
    "stage": """\
        usage: ./armstage stage [-i INVENTORY] [--check] [--diff] [--limit HOSTS] [--no-allocation] [-e VARIABLE=VALUE]

        Detect, choose, stage and verify the hosts of an inventory. A second run changes nothing.

          ./armstage stage                                         this host, a Spark
          ./armstage stage -i inventory/slurm --check --diff       what would be done on a Slurm cluster
          ./armstage stage -i inventory/cluster -e armstage_root=/work/me/.local

          --limit HOSTS     Ansible's patterns, and Slurm's hostlists: 'gb[01-03,07]'
          --no-allocation   ask no node: with -e armstage_cuda_version=13.0
        """,
    "verify": """\
        usage: ./armstage verify [-i INVENTORY] [--limit HOSTS] [--fleet] [-e VARIABLE=VALUE]

        Prove on the nodes that what is staged works: import torch, decode a clip. Changes nothing.

          ./armstage verify -i inventory/spark                     each Spark
          ./armstage verify --fleet                                the preflight on every usable node of a Slurm cluster

          --limit HOSTS     Ansible's patterns, and Slurm's hostlists: 'gb[01-03,07]'
          --fleet           by one srun; its own options: ./armstage verify --fleet --help
        """,
    "preflight": """\
        usage: ./armstage preflight [-i INVENTORY] [--limit HOSTS] [-e VARIABLE=VALUE]

        Run the checks A1-A5 and G1-G10 on the nodes and write report.json and report.html. Changes nothing on them.

          ./armstage preflight -i inventory/spark -e preflight_workload=90GiB
          ./armstage preflight -e '{"preflight_checks": ["G5"]}'   measure the bandwidth, on an idle GPU

          --limit HOSTS     Ansible's patterns, and Slurm's hostlists: 'gb[01-03,07]'
        """,
}
ROLES = {"preflight": "preflight"}
"""Whose variables a verb explains, where they are not those of the role armstage."""


def text(verb: str) -> str:
    """The help of a verb that is an ansible-playbook run."""
    role = ROLES.get(verb, "armstage")
    parts = [
        textwrap.dedent(WHAT[verb]).rstrip(),
        "ansible-playbook's own options: ./armstage exec ansible-playbook --help",
        f"Variables of role {role}:\n\n" + "\n".join(_variables(role)),
    ]
    if verb in ROLES:
        parts.append("Those of the toolchain itself, armstage_root among them: ./armstage stage --help")
    return "\n\n".join(parts)


def _variables(role: str) -> list[str]:
    """Each variable with what it is, from the role's own specification."""
    specification = yaml.safe_load((PROJECT / "roles" / role / "meta" / "argument_specs.yml").read_text())
    options = specification["argument_specs"]["main"]["options"]
    column = max(map(len, options)) + 4
    return [_described(name, option["description"], option["default"], column) for name, option in options.items()]


def _described(name: str, description: str, default: object, column: int) -> str:
    """Templates and what is empty say nothing to a reader; their descriptions do."""
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    words = description if default in ("", []) or "{{" in shown else f"{description} Default: {shown}."
    return textwrap.fill(
        words, WIDTH, initial_indent=f"  {name}".ljust(column), subsequent_indent=" " * column, break_long_words=False
    )
