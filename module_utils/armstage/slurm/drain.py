"""Nodes taken out of Slurm's hands for a change and given back: only those that were taken out here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ArmstageError
from . import hostlist, nodes
from .commands import output_of

BUSY = ("ALLOCATED", "MIXED", "COMPLETING")


@dataclass(frozen=True)
class Plan:
    """``update``: the nodes whose state changes. ``kept``: node -> why it is left as it is, though not as wanted."""

    update: tuple[str, ...]
    kept: dict[str, str]


def plan(found: Sequence[nodes.Node], state: str, mark: str) -> Plan:
    """What makes nodes ``drained`` or ``resumed`` (pure). ``mark`` begins the reason of what was drained here.

    A node that someone else drained stays theirs: it is neither marked nor resumed.
    """
    update, kept = [], {}
    for node in found:
        drained = "DRAIN" in node.states
        ours = drained and node.reason.startswith(mark)
        if (state == "drained" and not drained) or (state == "resumed" and ours):
            update.append(node.name)
        elif drained and not ours:
            kept[node.name] = f"drained by another: {node.reason or 'without a reason'}"
    return Plan(tuple(update), kept)


def read(expression: str) -> list[nodes.Node]:
    """The nodes of a hostlist. Raises ArmstageError where Slurm does not have one."""
    names = hostlist.expand(expression)
    found = {node.name: node for node in nodes.parse(output_of(["scontrol", "show", "node", "-o"]))}
    absent = [name for name in names if name not in found]
    if absent:
        raise ArmstageError(f"Slurm has no node `{hostlist.compress(absent)}`", hint="List what there is: sinfo -N")
    return [found[name] for name in names]


def update(names: Sequence[str], state: str, reason: str) -> None:
    """Raises ArmstageError with what scontrol said, such as that this user may not."""
    where = f"NodeName={hostlist.compress(names)}"
    words = ["State=DRAIN", f"Reason={reason}"] if state == "drained" else ["State=RESUME"]
    output_of(["scontrol", "update", where, *words])


def wait_until_free(expression: str, seconds: float) -> None:
    """Until no job runs there. Raises ArmstageError naming the nodes that are still busy."""
    end = time.monotonic() + seconds
    while True:
        busy = [node.name for node in read(expression) if set(node.states) & set(BUSY)]
        if not busy:
            return
        if time.monotonic() >= end:
            raise ArmstageError(
                f"Jobs still run on `{hostlist.compress(busy)}` after {seconds:g} s",
                hint="They stay drained: wait longer (`wait`), and see `squeue -w` for the jobs",
            )
        time.sleep(min(5.0, max(0.1, end - time.monotonic())))
