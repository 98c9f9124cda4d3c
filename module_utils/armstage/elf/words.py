"""Lists and names as the problems of an environment word them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .loader import Missing, Process


@dataclass(frozen=True)
class Problem:
    """What is wrong, and what to do about it."""

    message: str
    hint: str


def listed(items: Iterable[object], last: str = "and") -> str:
    """``4, 5 and 6``."""
    texts = [str(item) for item in items]
    return f" {last} ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def quoted(items: Iterable[str], last: str = "and") -> str:
    return listed((f"`{item}`" for item in items), last)


def found_wrong(missing: Missing, process: Process) -> str:
    """What is wrong with the file of a missing name, as a sentence; empty where there is no file."""
    if missing.reason:
        return missing.reason
    for path, why in process.passed_over.items():
        if path.rpartition("/")[2] == missing.name:
            return f"`{path}` {why}"
    return ""
