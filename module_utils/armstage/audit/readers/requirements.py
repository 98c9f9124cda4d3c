"""pip's requirements files: requirements and options, with their lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...readers.nodes import Comment
from ..pep508 import Requirement

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z-]*)(?:[=\s]\s*|(?<=-[a-z])(?=\S))?(.*)")
_PER_REQUIREMENT = re.compile(r"\s--?(?:hash|config-settings?|global-option|no-binary|only-binary)\b.*")


@dataclass(frozen=True)
class Entry:
    """One logical line: a requirement, or an option with its value (`--index-url`, `-r`)."""

    line: int
    text: str
    requirement: Requirement | None = None
    option: str = ""
    value: str = ""


def read(text: str, first_line: int = 1) -> tuple[list[Entry], list[Comment]]:
    """Every entry that is understood and every comment. Paths, editables and what else pip takes are left out."""
    entries: list[Entry] = []
    comments: list[Comment] = []
    joined, start = "", first_line
    for line, row in enumerate(text.split("\n"), first_line):
        comment = _COMMENT.search(row)
        if comment:
            comments.append(Comment(line, comment[0].rstrip(), not row[: comment.start()].strip()))
            row = row[: comment.start()]
        if not joined:
            start = line
        if row.rstrip("\r").endswith("\\"):
            joined += row.rstrip("\r")[:-1] + " "
            continue
        entry = parse(joined + row.strip(), start)
        joined = ""
        if entry:
            entries.append(entry)
    return entries, comments


def parse(text: str, line: int) -> Entry | None:
    """The entry of one logical line, or None for an empty one and for what is no requirement."""
    text = text.strip()
    if not text:
        return None
    if text.startswith("-"):
        match = _OPTION.match(text)
        return Entry(line, text, option=match[1], value=match[2].strip()) if match else None
    try:
        return Entry(line, text, Requirement.parse(_PER_REQUIREMENT.sub("", text)))
    except ValueError:
        return None
