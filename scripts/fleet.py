# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`./armstage verify --fleet`: the preflight on every usable node of a Slurm inventory, by one srun.

    ./armstage verify --fleet -i inventory/slurm
    ./armstage verify --fleet -i inventory/slurm --nodes 'gb[01-16]' --partition gb200 --json fleet.json

Runs `bin/armstage-preflight --json` of the staged root or, where that is not staged, the proof. Nodes that fail, hang
or don't answer are reported and hold up no other. As `./armstage preflight` does, it writes `report.json` and
`report.html` into `armstage-report`; `-e preflight_report=FOLDER` for another folder, empty for none. Exit status:
0 all ready, 1 warnings or nodes that were not asked, 2 a node that should work and does not, 3 none could be asked.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "module_utils"))

from armstage.command_line import USAGE, Parser  # noqa: E402
from armstage.errors import ArmstageError  # noqa: E402
from armstage.files import write_atomic, write_files  # noqa: E402
from armstage.preflight.report import build, html  # noqa: E402
from armstage.slurm import fleet, hostlist, nodes  # noqa: E402

REPORT = "armstage-report"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="./armstage verify --fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-i", "--inventory", default=str(PROJECT / "inventory" / "slurm"))
    parser.add_argument("-e", "--extra-vars", action="append", default=[], help="as ansible-playbook takes it")
    parser.add_argument("--nodes", "--limit", "-l", default="", metavar="HOSTLIST", help="only these")
    parser.add_argument("--partition", default="", help="the partition that srun runs in")
    parser.add_argument("--timeout", type=int, default=300, metavar="SECONDS", help="for one node (300)")
    parser.add_argument("--wait", type=int, default=600, metavar="SECONDS", help="for the nodes to be had (600)")
    parser.add_argument("--srun", default="", metavar="OPTIONS", help="more options of srun, such as --gres=gpu:1")
    parser.add_argument("--json", metavar="FILE", help="write every node's answer to this file")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> list[str]:
    """The options for Ansible's own programs."""
    return ["-i", options.inventory, *(word for each in options.extra_vars for word in ("-e", each))]


def inventory(options: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Host -> variables, of ansible-inventory."""
    command = ["ansible-inventory", *chosen(options), "--list", "--export"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said, _hint, hint = done.stderr.strip().removeprefix("armstage: ").partition("\nhint: ")
        raise ArmstageError(
            f"Failed to read the inventory `{options.inventory}`: {said}",
            hint=hint or "Run this on a login node, where Slurm's commands are, or name another inventory with -i",
        )
    return json.loads(done.stdout)["_meta"]["hostvars"]


def text_of(value: object) -> str:
    """A variable's text; ansible-inventory wraps what a template must not touch."""
    return str(value.get("__ansible_unsafe", "")) if isinstance(value, dict) else str(value)


def variables_of(options: argparse.Namespace, host: str) -> tuple[str, str]:
    """`armstage_root` and `preflight_report` as they are for a host, templates and all."""
    asked = (
        "hostvars | refused_variables([inventory_hostname])",
        "armstage_root",
        f"preflight_report | default({REPORT!r})",
    )
    wanted = json.dumps({"msg": [f"{{{{ {each} }}}}" for each in asked]})
    command = ["ansible", host, *chosen(options), "-c", "local", "-o", "-m", "debug", "-a", wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = done.stdout.partition("=> ")[2].strip()
    if done.returncode or not found:
        raise ArmstageError(
            f"Failed to read `armstage_root` of `{host}`: {(done.stdout + done.stderr).strip()[:300]}",
            hint="Set it in the inventory, as inventory/slurm/group_vars/all.yml does",
        )
    refused, root, report = json.loads(found)["msg"]
    if refused:
        message, _hint, hint = refused.partition("\nhint: ")
        raise ArmstageError(message, hint)
    return root, report


def command_for(root: str) -> list[str]:
    """The preflight, or what proves the environment where this root has none."""
    preflight = f"{root}/bin/armstage-preflight"
    proof = f". {shlex.quote(root)}/env.sh 2>&1 && exec python -B {shlex.quote(root)}/share/armstage/prove.py"
    return ["/bin/sh", "-c", f'if [ -x "$0" ]; then exec "$0" --json; fi; {proof}', preflight]


def check(options: argparse.Namespace) -> tuple[list[fleet.Answer], str]:
    """The answers, and the folder for the report."""
    hosts = {name: variables for name, variables in inventory(options).items() if "slurm_state" in variables}
    named = hostlist.expand(options.nodes)
    found = {
        name: nodes.Node(name, states=tuple(text_of(state).upper() for state in variables["slurm_states"]))
        for name, variables in hosts.items()
        if not named or name in named
    }
    if not found:
        raise ArmstageError(
            f"The inventory `{options.inventory}` has no Slurm nodes" + (f" of `{options.nodes}`" if named else ""),
            hint="See what it has: ./armstage exec ansible-inventory -i inventory/slurm --graph",
        )
    unusable = {name: text_of(hosts[name]["slurm_unusable"]) for name in found}
    asked, others = fleet.select(list(found.values()), unusable)
    root, report = variables_of(options, next(iter(found)))
    if not asked:
        return others, report
    more = shlex.split(options.srun)
    patience = f"up to {options.wait} s for the nodes to be had, {options.timeout} s for each"
    print(f"asking {hostlist.compress(asked)}: {patience}", flush=True)
    command = fleet.Fleet(command_for(root), asked, options.partition, options.timeout, options.wait, more)
    return [*fleet.ask(command), *others], report


def write_report(folder: str, answers: Sequence[fleet.Answer], seconds: int) -> None:
    report = build.report(fleet.results(answers, seconds))
    write_files(folder, {"report.json": build.text(report).encode(), "report.html": html.page(report).encode()})
    print(f"report: {Path(folder, 'report.html').absolute()}")


def main() -> int:
    options = parse(sys.argv[1:])
    try:
        answers, report = check(options)
        print("\n".join(fleet.table(answers)))
        if options.json:
            write_atomic(options.json, json.dumps({"nodes": [asdict(answer) for answer in answers]}, indent=1) + "\n")
        if report:
            write_report(report, answers, options.timeout)
    except ArmstageError as error:
        print(f"armstage: {error.text}", file=sys.stderr)
        return USAGE
    return fleet.exit_status(answers)


if __name__ == "__main__":
    sys.exit(main())
