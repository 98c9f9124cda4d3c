"""Slurm's hostlist expressions: ``gb200-rack[1-2]-[09-14,20],login1`` and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..errors import ArmstageError

MAX_HOSTS = 65536
"""MAX_RANGE of Slurm's hostlist.c: a longer list is a typing error."""

_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_LAST_NUMBER = re.compile(r"(.*?)(\d+)(\D*)", re.ASCII)


def expand(expression: str) -> list[str]:
    """The names of an expression, in its order; each name once. Zero padding is kept.

    Raises ArmstageError naming the part that is no hostlist.
    """
    names: dict[str, None] = {}
    for part in _parts(expression):
        for name in _expand_part(part, part):
            names[name] = None
            if len(names) > MAX_HOSTS:
                raise _too_many(part)
    return list(names)


def compress(names: Iterable[str]) -> str:
    """A short expression of the same names: those that differ in their last number only share one bracket.

    ``expand(compress(names))`` holds the same names, in another order where numbers were not sorted.
    """
    groups: dict[tuple[str, str, bool], set[str]] = {}
    for name in dict.fromkeys(names):
        match = _LAST_NUMBER.fullmatch(name)
        head, number, tail = match.groups() if match else (name, "", "")
        groups.setdefault((head, tail, bool(number)), set()).add(number)
    return ",".join(_joined(head, numbers, tail) for (head, tail, _numbered), numbers in groups.items())


def _joined(head: str, numbers: set[str], tail: str) -> str:
    if len(numbers) == 1:
        return head + next(iter(numbers)) + tail
    # 9 and 09 are different names: in a run every number has the first one's padding.
    ordered = sorted(numbers, key=lambda number: (int(number), len(number)))
    runs: list[list[str]] = []
    for number in ordered:
        if runs and _follows(runs[-1][-1], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    return f"{head}[{','.join(run[0] if len(run) == 1 else f'{run[0]}-{run[-1]}' for run in runs)}]{tail}"


def _follows(before: str, number: str) -> bool:
    return number == str(int(before) + 1).zfill(len(before))


def _parts(expression: str) -> Iterator[str]:
    """The parts between commas, white space and line ends outside brackets."""
    depth, part = 0, ""
    for character in expression:
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            raise _no_hostlist(expression, "brackets are not balanced")
        if depth == 0 and (character == "," or character.isspace()):
            if part:
                yield part
            part = ""
        else:
            part += character
    if depth:
        raise _no_hostlist(expression, "a bracket is not closed")
    if part:
        yield part


def _expand_part(part: str, whole: str) -> Iterator[str]:
    """The names of a part of ``whole``. Left brackets vary slowest, as in Slurm."""
    head, bracket, rest = part.partition("[")
    odd = re.search(r"[(){}]", head)
    if odd:
        raise _no_hostlist(whole, f"`{odd[0]}` is in no node's name")
    if not bracket:
        yield part
        return
    inside, _, tail = rest.partition("]")
    tails = list(_expand_part(tail, whole))
    for count, number in enumerate(_numbers(inside, whole), 1):
        if count * len(tails) > MAX_HOSTS:
            raise _too_many(whole)
        for ending in tails:
            yield head + number + ending


def _numbers(inside: str, part: str) -> Iterator[str]:
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if not match:
            raise _no_hostlist(part, f"`{piece}` is neither a number nor a range such as 01-16")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise _no_hostlist(part, f"range `{piece}` runs backwards")
        if int(last) - int(first) >= MAX_HOSTS:
            raise _too_many(part)
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def _too_many(part: str) -> ArmstageError:
    return ArmstageError(
        f"Expected at most {MAX_HOSTS} hosts, but `{part}` is more", hint="Look for a digit too many in its ranges"
    )


def _no_hostlist(text: str, why: str) -> ArmstageError:
    return ArmstageError(
        f"Expected a hostlist, but received: `{text}` ({why})", hint="Write it as Slurm does: gb[01-16,20],login1"
    )
