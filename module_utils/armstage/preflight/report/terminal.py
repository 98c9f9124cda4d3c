"""What a terminal shows: the checks' lines, the verdict, and the first three things to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from ..model import BLOCKED, FAIL, INFO, PASS, READY, SKIP, WARN, WARNINGS, plain
from . import build

FIRST = 3
"""Things to do that are shown."""

WHOLE = 6
"""Up to so many hosts every line of each is shown; beyond, those that ask for something."""

CODES = {FAIL: "31", WARN: "33", PASS: "32", INFO: "34", SKIP: "90"}

WORDS = {
    READY: "ready",
    WARNINGS: "ready, with warnings",
    BLOCKED: "blocked",
    build.UNKNOWN: "no answer",
}

STATUS_OF = {READY: PASS, WARNINGS: WARN, BLOCKED: FAIL, build.UNKNOWN: FAIL}


@dataclass(frozen=True)
class Line:
    """A line and the status it is coloured by, or an empty text."""

    text: str
    status: str = ""


def style(stream: TextIO, environ: Mapping[str, str]) -> Callable[[str, str], str]:
    """What colours a line by its status: only on a terminal, and never with NO_COLOR set (no-color.org)."""
    coloured = stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"

    def painted(text: str, status: str) -> str:
        return f"\033[{CODES[status]}m{text}\033[0m" if coloured and status in CODES else text

    return painted


def lines(results: build.Results) -> list[Line]:
    """The lines of every host, then the closing ones."""
    report = build.report(results)
    shown: list[Line] = []
    for host in report["hosts"]:
        if len(report["hosts"]) > WHOLE and host["verdict"] == READY:
            continue
        shown += _host(host, len(report["hosts"]))
    return [*shown, *_closing(report, len(results) > 1)]


def closing(results: build.Results) -> list[Line]:
    """The verdict and what to do first."""
    return list(_closing(build.report(results), len(results) > 1))


def _host(host: Mapping[str, Any], count: int) -> Iterator[Line]:
    if count > 1:
        yield Line("")
        yield Line(f"{plain(host['name'])}: {WORDS[host['verdict']]}", STATUS_OF[host["verdict"]])
    if host["error"]:
        yield Line(plain(host["error"]), FAIL)
    for check in host["checks"]:
        if count <= WHOLE or check["status"] in (FAIL, WARN):
            yield Line(f"{check['id']} {check['status']}: {plain(check['detail'])}", check["status"])


def _closing(report: Mapping[str, Any], several: bool) -> Iterator[Line]:
    yield Line("")
    counts = report["counts"]
    told = ", ".join(f"{counts[verdict]} {WORDS[verdict]}" for verdict in counts if counts[verdict])
    yield Line(
        f"verdict: {WORDS[report['verdict']]}" + (f" ({len(report['hosts'])} hosts: {told})" if several else ""),
        STATUS_OF[report["verdict"]],
    )
    for number, action in enumerate(report["actions"][:FIRST], 1):
        yield Line(f"{number}. {_todo(action, several)}", action["status"])
    left = len(report["actions"]) - FIRST
    if left > 0:
        yield Line(f"and {left} more")


def _todo(action: Mapping[str, Any], several: bool) -> str:
    where = f" on {_some(action['hosts'])}" if several else ""
    name = f"{action['id']} {action['name']}" if action["id"] else str(action["name"])
    return f"{name}{where}: {plain(action['hint'] or action['detail'])}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(plain, names[:3])) + more
