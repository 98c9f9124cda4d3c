"""INI files (`setup.cfg`, training configurations) with the line of every value's every line."""

from __future__ import annotations

import re

from ...readers.nodes import Comment, Items, Table

_SECTION = re.compile(r"\[([^\]]+)\]\s*$")
_OPTION = re.compile(r"([^=:\s\[][^=:]*?)\s*[=:]\s*(.*)")


def read(text: str) -> tuple[Table, list[Comment]]:
    """Section -> option -> its lines (`Items` of text); options before any section lie under an empty name."""
    root = Table()
    comments: list[Comment] = []
    section, value, indent = _section(root, "", 1), None, 0
    for line, row in enumerate(text.split("\n"), 1):
        content = row.strip()
        if content.startswith(("#", ";")):
            comments.append(Comment(line, content, True))
            continue
        header, column = _SECTION.match(content), len(row) - len(row.lstrip())
        if value is not None and content and column > indent:
            value.put(content, line)
        elif header and column == 0:
            section, value = _section(root, header[1].strip(), line), None
        elif content:
            option = _OPTION.match(content)
            if option:
                value, indent = Items(line), column
                section.put(option[1].strip().lower(), value, line)
                if option[2]:
                    value.put(option[2], line)
    return root, comments


def _section(root: Table, name: str, line: int) -> Table:
    if name not in root:
        root.put(name, Table(line), line)
    found: Table = root[name]
    return found
