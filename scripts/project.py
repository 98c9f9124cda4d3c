# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`./armstage project audit PATH` and `./armstage project fix PATH --lock own|shared`: a user's own project.

`fix` runs playbooks/project.yml. `audit` reads the project for what breaks on aarch64; the rules are in
docs/rules.md. Its exit status: 0 nothing found, 1 warnings, 2 errors, 3 usage, or the project can't be read.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "module_utils"))

from armstage import inventory  # noqa: E402
from armstage.audit import project, sarif  # noqa: E402
from armstage.audit.facts import Facts, node_facts, read_compatibility  # noqa: E402
from armstage.audit.model import ERROR  # noqa: E402
from armstage.command_line import USAGE, Parser  # noqa: E402
from armstage.errors import ArmstageError  # noqa: E402
from armstage.nvidia import driver  # noqa: E402

AUDIT = """Reads the project for what breaks on aarch64, without running any of it. Exit status: 0 nothing found,
1 warnings, 2 errors, 3 usage, or the project can't be read."""

FIX = """own: pyproject.toml gets a line for aarch64 beside each one that does not serve it, an explicit index with
marked sources, and what these concern is locked again; what x86_64 installs stays. shared: both files stay as they are,
and the environment gets another torch after the sync. Both make .venv-aarch64 for the nodes of the inventory and prove
it there. Other options go to ansible-playbook."""

ASSUMED_CUDA = "13.0"
"""Of a driver that nobody said anything about: the one that PyPI's own wheels of the default stack are for."""

CLEAN, WARNINGS, ERRORS = range(3)
ALONE = {
    "stagers": {
        "hosts": {
            "localhost": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        }
    },
    "nodes": {},
}
"""The inventory of a machine that is asked for no node."""

COLOURS = {"error": "\033[31m", "warning": "\033[33m", "bold": "\033[1m", "dim": "\033[2m"}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="./armstage project", description="A user's own project on aarch64.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="audit|fix")
    audit = verbs.add_parser("audit", help="read a project for what breaks on aarch64", description=AUDIT)
    audit.add_argument("path", help="the project's folder, or one file")
    form = audit.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the findings as JSON")
    form.add_argument("--sarif", action="store_true", help="the findings as SARIF 2.1.0, for code review")
    audit.add_argument("--rule", action="append", default=[], metavar="RULE", help="only this rule; repeatable")
    add_node_options(audit)
    fix = verbs.add_parser("fix", help="mend its lock, or make an environment beside it", description=FIX)
    fix.add_argument("path", help="the project's folder, with pyproject.toml and uv.lock")
    fix.add_argument("--lock", required=True, choices=("own", "shared"), help="whose the lock is to change")
    fix.add_argument("-i", "--inventory", action="append", default=[], help="the stager and its nodes, as for `stage`")
    fix.add_argument("--cuda", default="", metavar="13.0", help="CUDA of the nodes' driver, where no node is asked")
    fix.add_argument(
        "--index", default="auto", help="auto, pypi, the tag of a wheel index such as cu130, or an address"
    )
    fix.add_argument("--extra", action="append", default=[], help="an extra of the project; repeatable")
    fix.add_argument("--group", action="append", default=[], help="a dependency group; repeatable")
    fix.add_argument("-C", "--check", action="store_true", help="say what would be done; change nothing")
    fix.add_argument("-D", "--diff", action="store_true", help="show the changes of each file")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.verb == "audit":
        audit.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    return options


def add_node_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cuda", default="", metavar="13.0", help="CUDA of the nodes' driver; on aarch64 it is read")
    parser.add_argument("--python", default="3.12", metavar="3.12", help="Python that the nodes run the project with")


def facts_of(options: argparse.Namespace) -> Facts:
    """What is known of the node: this host where it is one, else what the options say."""
    here: Mapping[str, Any] = driver.read() if platform.machine() == "aarch64" else {}
    usable = here if here.get("cuda_version") else {}
    return Facts(read_compatibility(), node_facts(usable, options.cuda), options.python)


def audit(options: argparse.Namespace) -> int:
    found = project.audit(options.path, facts_of(options), options.rule)
    if options.json:
        print(json.dumps(found.result(), indent=2))
    elif options.sarif:
        print(json.dumps(sarif.document(found), indent=2))
    else:
        print(report(found, sys.stdout.isatty() and not os.environ.get("NO_COLOR"), folder_of(options.path)))
    if not found.findings:
        return CLEAN
    return ERRORS if any(finding.level == ERROR for finding in found.findings) else WARNINGS


def folder_of(path: str) -> str:
    """The project's folder, where one file of it was given."""
    return os.path.dirname(path) or "." if os.path.isfile(path) else path


def fix(options: argparse.Namespace) -> int:
    """Run the playbook; its own exit status."""
    inventory.check(options.inventory, PROJECT / "inventory")
    with tempfile.TemporaryDirectory() as folder:
        inventories, variables = options.inventory, {"armstage_cuda_version": options.cuda} if options.cuda else {}
        if not inventories and platform.machine() != "aarch64":
            alone = Path(folder) / "hosts.yml"
            alone.write_text(json.dumps(ALONE))
            inventories = [str(alone)]
            if not options.cuda:
                print(
                    f"No node is asked: its driver is taken to run CUDA {ASSUMED_CUDA} (--cuda), and nothing is built"
                )
                variables["armstage_cuda_version"] = ASSUMED_CUDA
        return subprocess.call(playbook(options, inventories, variables))


def playbook(options: argparse.Namespace, inventories: list[str], variables: dict[str, Any]) -> list[str]:
    chosen = [f"--extra={name}" for name in options.extra] + [f"--group={name}" for name in options.group]
    variables = {
        "project_path": str(Path(options.path).absolute()),
        "project_lock": options.lock,
        "project_index": options.index,
        "project_selection": chosen,
        **variables,
    }
    argv = ["ansible-playbook", str(PROJECT / "playbooks" / "project.yml"), "--extra-vars", json.dumps(variables)]
    argv += [word for inventory in inventories for word in ("-i", inventory)]
    argv += ["--check"] if options.check else []
    return [*argv, *(["--diff"] if options.diff else []), *options.rest]


def report(found: project.Audit, colour: bool = False, path: str = "") -> str:
    """The findings for a terminal, by file, a line that counts them and, where ``path`` can be fixed, how."""

    def paint(style: str, text: str) -> str:
        return f"{COLOURS[style]}{text}\033[0m" if colour else text

    lines = []
    file = None
    for finding in found.findings:
        if finding.file != file:
            file = finding.file
            lines += [*([""] if lines else []), paint("bold", file)]
        lines.append(f"  {finding.line}: {paint(finding.level, finding.level)} {finding.rule}: {finding.text}")
        lines.append(f"      {finding.why}")
        lines.append(f"      {paint('dim', 'fix:')} {finding.fix}")
    for unread in found.unread:
        place = f"{unread.file}:{unread.line}" if unread.line else unread.file
        lines.append(f"not read: {place}: {unread.reason}")
    if found.unlocked:
        first, *others = found.unlocked
        asking = f"{first} and {_counted(len(others), 'other file')} ask" if others else f"{first} asks"
        lines.append(f"not checked: whether what {asking} for has aarch64 wheels: that takes a uv.lock")
    errors = sum(finding.level == ERROR for finding in found.findings)
    warnings = len(found.findings) - errors
    read = sum(found.read.values())
    ignored = f", {_counted(found.ignored, 'finding')} taken back by comments" if found.ignored else ""
    total = f"{_counted(errors, 'error')} and {_counted(warnings, 'warning')} in {_counted(read, 'file')} read{ignored}"
    lines += [*([""] if lines else []), total]
    if found.mendable and path:
        lines.append(f"next: ./armstage project fix {shlex.quote(path)} --lock own")
    return "\n".join(lines)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    try:
        return fix(options) if options.verb == "fix" else audit(options)
    except ArmstageError as error:
        print(f"armstage: {error.text}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        return USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
