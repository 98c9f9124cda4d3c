"""A file of the project, read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..readers.nodes import Comment


@dataclass(frozen=True, eq=False)
class Source:
    """Path below the project, kind, text, and what a reader made of it.

    ``document`` is a Table (pyproject, uv.lock, setup.cfg), Items of documents (YAML, JSON), Entries
    (requirements), a Script (shell) or a Module (Python).
    """

    path: str
    kind: str
    text: str = field(repr=False)
    document: Any = field(repr=False)
    comments: tuple[Comment, ...] = field(repr=False, default=())
    rows: tuple[str, ...] = field(repr=False, default=())

    def row(self, line: int) -> str:
        """The text of a line without what surrounds it."""
        return self.rows[line - 1].strip() if 0 < line <= len(self.rows) else ""
