"""`armstage-preflight`: the checks in a job script, a prolog or a shell, without Ansible."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence

from ..command_line import USAGE, Parser
from ..errors import ArmstageError
from .model import EXIT, WARNINGS, Outcome
from .report import terminal
from .request import Request, numbers, workload
from .runner import run_checks

EPILOG = """\
exit status: 0 ready, 1 ready with warnings, 2 blocked, 3 the command line was not understood

In a job script, after `. env.sh`:
    armstage-preflight --workload 90GiB || exit
"""


def parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="armstage-preflight",
        description="Check that this node and its environment are ready for a run. Changes nothing.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="G1,G3", help="these checks and no others")
    add("--skip", action="append", default=[], metavar="G8", help="all but these")
    add("--workload", default="", metavar="90GiB", help="the memory that the run will need, for G3")
    add("--sample", type=float, default=0.0, metavar="SECONDS", help="let G4 sample the GPU for so long, beside a load")
    add("--live", action="store_true", help="let A5 import torch and run a small kernel")
    add(
        "--config", action="append", default=[], metavar="PATH", help="a configuration or launch script, for G10 and G8"
    )
    add("--env", default="", metavar="PATH", help="the environment (default: that of env.sh, or of this staged root)")
    add("--staged", default="", metavar="PATH", help="the staged root (default: where this program lies)")
    add("--playbooks", default="", metavar="PATH", help="a checkout of dgx-spark-playbooks, for G8")
    add("--online", action="store_true", help="let G8 ask that checkout's origin")
    add("--timeout", type=float, default=30.0, metavar="SECONDS", help="for each check (default: 30)")
    add("--root", default="/", metavar="PATH", help="the folder below which proc/ and sys/ are read")
    add("--nvidia-smi", default="nvidia-smi", metavar="PATH", help="where NVML says nothing")
    add("--json", action="store_true", help="everything as JSON instead of lines")
    add("--html", default="", metavar="FILE", help="also write the report, one self-contained page")
    return parser


def request_of(options: argparse.Namespace, environ: Mapping[str, str], program: str) -> Request:
    """The request that a command line makes. Raises ArmstageError for a value that is not understood."""
    return Request(
        root=options.root,
        env=options.env,
        staged=options.staged or environ.get("ARMSTAGE_ROOT", "") or staged_root(program),
        nvidia_smi=options.nvidia_smi,
        checks=numbers(options.only),
        skip=numbers(options.skip),
        workload=workload(options.workload),
        timeout=options.timeout,
        sample=options.sample,
        live=options.live,
        online=options.online,
        configs=tuple(options.config),
        playbooks=options.playbooks,
        environ=environ,
    )


def staged_root(program: str) -> str:
    """The staged root that a program lies in as ``<root>/bin/armstage-preflight``, or an empty text."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    return root if os.path.isdir(os.path.join(root, "envs")) else ""


def writable(report: str) -> None:
    """Raises ArmstageError for a report that could not be written where it is to be: before the checks, not after."""
    folder = os.path.dirname(os.path.abspath(report))
    if report and (os.path.isdir(report) or not os.access(folder, os.W_OK)):
        expected = (
            "a file, but it is a folder"
            if os.path.isdir(report)
            else f"a file in a folder that one may write: `{folder}`"
        )
        raise ArmstageError(
            f"Expected `{report}` in `--html` to be {expected}", hint="Name a file, such as report.html"
        )


def complain(error: ArmstageError) -> None:
    print(f"armstage-preflight: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""), file=sys.stderr)


def say(text: str) -> None:
    """Print a text; where nobody reads on (``| head``), the checks go on and the exit status tells."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the verdict, or 3."""
    options = parser().parse_args(arguments)
    style = terminal.style(sys.stdout, os.environ)
    try:
        request = request_of(options, dict(os.environ), sys.argv[0])
        request.require_root()
        writable(options.html)
    except ArmstageError as error:
        complain(error)
        return USAGE

    def show(outcome: Outcome) -> None:
        if not options.json:
            say(style(outcome.line, outcome.finding.status))

    result = run_checks(request, show, describe=options.json or bool(options.html))
    status = EXIT[result["verdict"]]
    if options.html:
        from .report import build, html

        name = result["host"].get("name") or "this host"
        try:
            with open(options.html, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(html.page(build.report({name: result})))
        except OSError as error:
            complain(ArmstageError(f"Failed to write `{options.html}`: {error.strerror}"))
            status = status or EXIT[WARNINGS]
    if options.json:
        say(json.dumps(result, indent=2, sort_keys=True))
    else:
        say("\n".join(style(line.text, line.status) for line in terminal.closing({"": result})))
    return status
