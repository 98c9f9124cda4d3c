"""One command on many nodes by one srun: Slurm is the fan-out, every node answers as one task, or with nothing."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ArmstageError
from ..run import run
from . import hostlist
from .commands import environment, hint_for, said
from .nodes import Node
from .step import EXIT_ERROR, PATH, program

# $1 seconds, the rest the command. Other text on standard output is a TaskProlog's.
ANSWER = """\
limit=$1; shift
output=$(timeout -k 5 "$limit" "$@" 2>&1 </dev/null); status=$?
printf 'armstage-fleet %s %s ' "${SLURMD_NODENAME:-$(uname -n)}" "$status"
printf %s "$output" | base64 | tr -d '\\n'
echo .
"""
_ANSWER = re.compile(r"armstage-fleet (\S+) (\d+) ([A-Za-z0-9+/=]*)\.")
_LABELLED = re.compile(r"^ *(\d+): (.*)$", re.MULTILINE)
TIMED_OUT = (124, 137)
NOT_BEGUN = (EXIT_ERROR, 255)
"""What srun exits with where it asked no node: on its own failure, and on options that it does not understand."""

STATUS = {0: "ready", 1: "warnings", 2: "blocked"}
"""Exit status of bin/armstage-preflight -> its verdict."""

HINTS = {
    "timed out": "Look on the node: a filesystem or a driver that hangs looks like this; `--timeout` allows more time",
    "no answer": "See what Slurm says of it: `scontrol show node`, `squeue --me --start`, and the log of its slurmd",
    "failed": "Run `bin/armstage-preflight` on the node by hand to see all that it says",
    "busy": "Ask again when its jobs have ended",
    "unusable": "See what Slurm says of it: `sinfo --list-reasons`, `scontrol show node`",
}
"""What to do about a node without findings, by the verdict of its answer."""

NOT_ASKED = ("busy", "unusable")


@dataclass(frozen=True)
class Fleet:
    """What to run, and how srun gets the nodes; ``seconds`` is what one node may take, ``wait`` what the queue may."""

    command: Sequence[str]
    nodes: Sequence[str]
    partition: str = ""
    seconds: int = 120
    wait: int = 600
    arguments: Sequence[str] = ()

    def argv(self, srun: str = "srun") -> list[str]:
        """srun with one small task a node. A node that fails takes no other with it (``--no-kill``)."""
        inside = bool(os.environ.get("SLURM_JOB_ID"))
        return [
            srun,
            f"--nodelist={hostlist.compress(self.nodes)}",
            *(f"--nodes={len(self.nodes)}", f"--ntasks={len(self.nodes)}", "--ntasks-per-node=1"),
            *("--no-kill", "--wait=0", "--kill-on-bad-exit=0", "--quiet", "--chdir=/", "--input=none"),
            *("--label", "--propagate=NONE", "--mpi=none", "--export=HOME,USER,LOGNAME,PATH,LANG"),
            *((f"--jobid={os.environ['SLURM_JOB_ID']}", "--overlap") if inside else (f"--time={self.minutes}",)),
            *((f"--partition={self.partition}",) if self.partition and not inside else ()),
            *self.arguments,
            *("/bin/sh", "-c", ANSWER, "sh", str(self.seconds), *self.command),
        ]

    @property
    def minutes(self) -> int:
        return self.seconds // 60 + 2


@dataclass(frozen=True)
class Answer:
    """What one node said. ``verdict``: ready, warnings, blocked; else failed, timed out, no answer, busy, unusable."""

    node: str
    verdict: str
    detail: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


def select(nodes: Sequence[Node], unusable: Mapping[str, str]) -> tuple[list[str], list[Answer]]:
    """Whom to ask, and the answers of those not asked: a node without room would hold up all the others."""
    asked, others = [], []
    for node in nodes:
        if unusable[node.name]:
            others.append(Answer(node.name, "unusable", unusable[node.name]))
        elif node.states[0] == "ALLOCATED":
            others.append(Answer(node.name, "busy", "all of it is allocated to jobs"))
        else:
            asked.append(node.name)
    return asked, others


def ask(fleet: Fleet) -> list[Answer]:
    """Run it: an answer for every node. Raises ArmstageError where srun asked none."""
    variables = {**environment(), "PATH": PATH, "LANG": "C.UTF-8", "SLURM_EXIT_ERROR": str(EXIT_ERROR)}
    done = run(fleet.argv(program("srun")), timeout=fleet.wait + fleet.seconds + 30, env=variables, max_output=1 << 28)
    answers = {answer.node: answer for answer in map(parse_answer, whole(done.out))}
    if not answers and (done.rc in NOT_BEGUN or "srun: fatal: " in done.err):
        raise ArmstageError(
            f"None of `{hostlist.compress(fleet.nodes)}` was asked: {said(done.err, done.rc)}",
            hint=hint_for(done.err) or "See `sinfo`, and the options that srun was given with --partition and --srun",
        )
    silent = "the node, or Slurm on it, hangs" if answers else "the nodes were not to be had, or hang"
    missing = said(done.err, done.rc) if done.err.strip() else silent
    return [answers.get(name) or Answer(name, "no answer", missing) for name in fleet.nodes]


def whole(output: str) -> list[tuple[str, str, str]]:
    """(node, exit status, output in base64) of every answer that is complete in what ``srun --label`` printed.

    Slurm passes a task's output on in pieces of 1024 bytes, between those of others; the labels tell whose each is.
    """
    tasks: dict[str, str] = {}
    for task, piece in _LABELLED.findall(output):
        tasks[task] = tasks.get(task, "") + piece
    return [found for text in tasks.values() for found in _ANSWER.findall(text)]


def parse_answer(line: tuple[str, str, str]) -> Answer:
    """What one node said, of ``whole``."""
    node, status, output = line[0], int(line[1]), base64.b64decode(line[2]).decode("utf-8", "replace")
    if status in TIMED_OUT:
        return Answer(node, "timed out", _last(output))
    try:
        result = json.loads(output)
    except ValueError:
        result = None
    if not isinstance(result, dict):
        return Answer(node, "failed", _last(output) or f"exit status {status}")
    worst = [str(line) for line in result.get("lines", []) if re.match(r"\w+ (FAIL|WARN)\b", str(line))]
    return Answer(node, STATUS.get(status, "failed"), "; ".join(worst), result)


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""


def table(answers: Sequence[Answer]) -> list[str]:
    """One line for all nodes that say the same, the worst last; what is wrong, not what is well."""
    groups: dict[tuple[str, str], list[str]] = {}
    for answer in answers:
        groups.setdefault((answer.verdict, answer.detail), []).append(answer.node)
    order = ("ready", "warnings", "busy", "unusable", "blocked", "failed", "timed out", "no answer")
    rows = sorted(groups.items(), key=lambda item: order.index(item[0][0]))
    return [
        f"{verdict:10} {len(names):5}  {hostlist.compress(names)}{'  ' + detail if detail else ''}"
        for (verdict, detail), names in rows
    ]


def results(answers: Sequence[Answer], seconds: int) -> dict[str, dict[str, Any]]:
    """Node -> what the report takes: its findings, or ``msg`` and ``hint`` for why there are none, and whether it was
    ``asked``. ``seconds`` is what each was given."""
    return {answer.node: _result(answer, seconds) for answer in answers}


def _result(answer: Answer, seconds: int) -> dict[str, Any]:
    if "checks" in answer.result:
        return dict(answer.result)
    if answer.result:
        said = f"It has no `bin/armstage-preflight`; the proof that was run instead says: {answer.verdict}"
        return {"msg": said, "hint": "Stage again: ./armstage stage"}
    verdict = f"timed out after {seconds} s" if answer.verdict == "timed out" else answer.verdict
    return {
        "msg": f"{verdict}: {answer.detail}" if answer.detail else verdict,
        "hint": HINTS[answer.verdict],
        "asked": answer.verdict not in NOT_ASKED,
    }


def exit_status(answers: Sequence[Answer]) -> int:
    """As the preflight's: 0 all ready, 1 warnings or nodes not asked, 2 a node that should work and does not."""
    verdicts = {answer.verdict for answer in answers}
    if verdicts & {"blocked", "failed", "timed out", "no answer"}:
        return 2
    return 0 if verdicts == {"ready"} else 1
