"""Version numbers as people write them: compared, and held against conditions such as ``>=2.11,<2.12``."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

from .errors import ArmstageError

_OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def release(version: Any) -> tuple[int, ...]:
    """The numbers that order versions: ``2.11.0+cu130`` and ``2.11`` are both (2, 11).

    Raises ArmstageError for text that does not start with a number.
    """
    return _release(str(version).strip())


@functools.cache
def _release(text: str) -> tuple[int, ...]:
    match = re.match(r"[vn]?(\d+(?:\.\d+)*)", text)
    if match is None:
        raise ArmstageError(f"Expected a version number, but received: `{text}`", hint="Write it as in 2.11.0")
    numbers = [int(number) for number in match.group(1).split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def minor(version: Any) -> str:
    """The first two numbers: ``3.12`` of ``3.12.12``. ``3.13t`` is none: its wheels are others than those of 3.13."""
    match = re.fullmatch(r"(\d+\.\d+)(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\+\S*)?", str(version).strip(), re.ASCII)
    if match is None:
        raise ArmstageError(
            f"Expected a version such as `3.12`, but received: `{version}`",
            hint="Write at least two numbers and nothing else, in quotes",
        )
    return match[1]


def matches(version: Any, condition: str) -> bool:
    """True when the version meets every part of a condition such as ``>=2.11,<2.12``."""
    numbers = release(version)
    return all(compare(numbers, limit) for compare, limit in _parts(condition))


@functools.cache
def _parts(condition: str) -> list[tuple[Callable[[Any, Any], bool], tuple[int, ...]]]:
    parts = []
    for part in condition.split(","):
        match = re.fullmatch(r"\s*(==|!=|>=|<=|>|<)\s*(\S+)\s*", part)
        if match is None:
            raise ArmstageError(f"Expected a condition such as `>=2.11`, but received: `{part}`")
        parts.append((_OPERATORS[match.group(1)], release(match.group(2))))
    return parts


def within(version: Any, span: str) -> bool:
    """True when the minor version lies in ``oldest-newest``, both included: 3.12.12 in ``3.10-3.14``."""
    oldest, newest = span.split("-")
    return release(oldest) <= release(minor(version)) <= release(newest)
