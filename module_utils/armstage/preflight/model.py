"""What a check says, as data: a status, a sentence, what to do about it, and where it was read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PASS, FAIL, WARN, SKIP, INFO = "PASS", "FAIL", "WARN", "SKIP", "INFO"

GRAVITY = (FAIL, WARN, INFO, PASS, SKIP)
"""The statuses, the gravest first."""

READY, WARNINGS, BLOCKED = "ready", "ready-with-warnings", "blocked"

EXIT = {READY: 0, WARNINGS: 1, BLOCKED: 2}
"""Exit statuses of the command line; 3 is for usage."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


@dataclass(frozen=True)
class Fact:
    """One value that a check went by, and where it stood: a file, or a command."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class Finding:
    """What a check found. ``hint`` is what to do, ``source`` where it was read, ``data`` plain JSON for the report.

    ``hint`` is empty where nothing is to be done. A SKIP says why nothing was judged.
    """

    status: str
    detail: str
    hint: str = ""
    source: str = ""
    facts: tuple[Fact, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A finding under its check's number and name; ``seconds`` is what it took."""

    id: str
    name: str
    finding: Finding
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """``G1 PASS: ...``: the form that other tools match on, always one line."""
        return f"{self.id} {self.finding.status}: {plain(self.finding.detail)}"

    def as_dict(self) -> dict[str, Any]:
        finding = self.finding
        return {
            "id": self.id,
            "name": self.name,
            "status": finding.status,
            "detail": plain(finding.detail),
            "hint": plain(finding.hint),
            "source": plain(finding.source),
            "facts": [
                {"name": plain(fact.name), "value": plain(fact.value), "source": plain(fact.source)}
                for fact in finding.facts
            ],
            "data": dict(finding.data),
            "seconds": round(self.seconds, 3),
        }


def verdict(statuses: Iterable[str]) -> str:
    """``blocked`` with any FAIL, ``ready-with-warnings`` with any WARN, else ``ready``."""
    found = set(statuses)
    return BLOCKED if FAIL in found else WARNINGS if WARN in found else READY


def worst(problems: Sequence[Finding], otherwise: Finding) -> Finding:
    """One finding for several: the gravest status and its hint first, every sentence; else ``otherwise``.

    The facts and data of ``otherwise`` are kept in either case.
    """
    if not problems:
        return otherwise
    ordered = sorted(problems, key=lambda problem: GRAVITY.index(problem.status))
    return Finding(
        ordered[0].status,
        "; ".join(dict.fromkeys(problem.detail for problem in ordered)),
        "; ".join(dict.fromkeys(problem.hint for problem in ordered if problem.hint)),
        ", ".join(dict.fromkeys(problem.source for problem in ordered if problem.source)) or otherwise.source,
        tuple(dict.fromkeys([*otherwise.facts, *(fact for problem in ordered for fact in problem.facts)])),
        {**otherwise.data, **{key: value for problem in ordered for key, value in problem.data.items()}},
    )


def plain(text: str) -> str:
    """Text for a terminal: what a node says can't break the line, move the cursor or turn the writing around."""
    return _CONTROL.sub(" ", text.encode("utf-8", "backslashreplace").decode("utf-8")).strip()
