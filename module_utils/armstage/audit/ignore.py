"""`# armstage: ignore[rule] reason`: comments that take a finding back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..readers.nodes import Comment
from .model import WARNING, Found, Project, Rule
from .source import Source

_DIRECTIVE = re.compile(r"#+\s*armstage:\s*(?P<word>\w+)\s*(?:\[(?P<rules>[^\]]*)\])?\s*(?::|-+)?\s*(?P<reason>.*)")


@dataclass(frozen=True)
class Ignore:
    """The rules that one comment takes back for its own line or, when it stands alone, for the next ones."""

    comment: Comment
    rules: tuple[str, ...]
    reason: str
    problem: str

    def covers(self, rule: str, first: int, last: int, alone: set[int]) -> bool:
        """Whether it holds for a finding of this rule in a statement of these lines. ``alone`` are the lines
        that hold nothing but a comment: between a comment and what it is about there may be others."""
        if self.problem or rule not in self.rules:
            return False
        if first <= self.comment.line <= last:
            return True
        below = self.comment.line
        while self.comment.alone and below in alone:
            below += 1
        return self.comment.alone and below == first


def read(comments: Iterable[Comment], known: Iterable[str]) -> list[Ignore]:
    """The ignores among the comments; one that says too little has a ``problem``."""
    found = []
    names = set(known)
    for comment in comments:
        match = _DIRECTIVE.match(comment.text)
        if match is None:
            continue
        rules = tuple(name.strip() for name in (match["rules"] or "").split(",") if name.strip())
        unknown = [name for name in rules if name not in names]
        problem = ""
        if match["word"] != "ignore" or not rules:
            problem = "it names no rule: `# armstage: ignore[rule] reason`"
        elif unknown:
            problem = f"there is no rule {', '.join(f'`{name}`' for name in unknown)}"
        elif not re.search(r"\w", match["reason"]):
            problem = "it gives no reason, and without one it takes nothing back"
        found.append(Ignore(comment, rules, match["reason"].strip(), problem))
    return found


def without_effect(source: Source, ignores: Iterable[Ignore]) -> Iterator[Found]:
    for ignore in ignores:
        if ignore.problem:
            yield Found(source, ignore.comment.line, why=f"The comment does nothing: {ignore.problem}")


def _by_comments(_project: Project) -> Iterator[Found]:
    """The findings of this rule come with reading the comments: see project.findings_of."""
    return iter(())


RULE = Rule(
    "ignore-without-effect",
    "An ignore comment that takes nothing back",
    WARNING,
    "An ignore comment needs a rule that exists and a reason",
    "`# armstage: ignore[uv-pip-without-python] the image has one environment`, on the line or above it",
    bad={"setup.sh": "uv pip install torch==2.11.0  # armstage: ignore[uv-pip-without-python]\n"},
    good={
        "setup.sh": "uv pip install torch==2.11.0  # armstage: ignore[uv-pip-without-python] the image has "
        "one environment\n"
    },
    check=_by_comments,
)
