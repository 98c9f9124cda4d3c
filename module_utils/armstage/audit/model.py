"""Rules, what they find, and the project they look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Callable

from .declarations import Declarations
from .facts import Facts
from .locks import Lock
from .scripts import ShellScript
from .source import Source

ERROR = "error"
WARNING = "warning"
"""Error: it fails on aarch64, or runs there without the GPU. Warning: it does so in a situation that the project does
not exclude."""


@dataclass(frozen=True)
class Found:
    """What a rule found: where, and where they differ from the rule's own, why it matters and what to do.

    ``last_line`` ends the statement that ``line`` lies in, ``first_line`` begins it: an ignore comment may
    stand at either end.
    """

    source: Source
    line: int
    why: str = ""
    fix: str = ""
    first_line: int = 0
    last_line: int = 0
    level: str = ""


@dataclass(frozen=True)
class Project:
    """Everything that was read, and what is known about aarch64 and the node."""

    files: tuple[Source, ...]
    facts: Facts
    declared: Declarations
    locks: tuple[Lock, ...]
    scripts: tuple[ShellScript, ...]

    def of(self, *kinds: str) -> Iterator[Source]:
        return (source for source in self.files if source.kind in kinds)


@dataclass(frozen=True)
class Rule:
    """One thing that goes wrong on aarch64.

    ``why`` and ``fix`` are sentences for people. ``bad`` and ``good`` are small projects, path -> text: the first
    has the fault, the second has not; ``cuda`` is the driver's CUDA version that they are read with. What is
    ``mended`` is by `./armstage project fix PATH --lock own`, in the project's own pyproject.toml and uv.lock.
    """

    id: str
    title: str
    level: str
    why: str
    fix: str
    bad: Mapping[str, str]
    good: Mapping[str, str]
    check: Callable[[Project], Iterator[Found]]
    cuda: str = ""
    mended: bool = False
