"""The YAML of configuration files, with line numbers and without a third-party reader.

Read are block and flow mappings and sequences, plain, quoted and block scalars, comments, anchors,
aliases, tags (skipped) and several documents in one file. Not read are complex keys (`? key`) and
directives' effects. Scalars become int, float, bool or None by YAML 1.2's core schema, else text.
"""

from __future__ import annotations

import re
from typing import Any

from .nodes import Comment, Items, ReadError, Table

_KEY = re.compile(
    r"""(?P<key> "(?:[^"\\]|\\.)*" | '(?:[^']|'')*'
        | (?![\[\]{},#&*!|>%@`"']|[-?:](?:\s|$)) (?:[^:#\s] | :(?=\S) | (?<=\S)\# | [ \t]+(?=[^\s#:]|:\S))+ )
        [ \t]*:(?=[ \t]|$)""",
    re.VERBOSE,
)
_PROPERTY = re.compile(r"(?P<mark>[&!])(?P<name>[^\s,\[\]{}]*)(?:[ \t]+|$)")
_BLOCK = re.compile(r"(?P<style>[|>])(?P<header>[-+0-9]*)[ \t]*(?:#.*)?$")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_PLAIN_END = re.compile(r"[ \t]+#|:[ \t]|:$")
_FLOW_PLAIN = re.compile(r"(?:[^\s,\[\]{}:#]|:(?![\s,\[\]{}]|$)|(?<=\S)#|[ \t]+(?=[^\s,\[\]{}#:]|:[^\s,\[\]{}]))+")
_DOCUMENT = re.compile(r"(?:---|\.\.\.)(?:\s|$)")
_INTEGER = re.compile(r"[-+]?\d+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "e": "\x1b", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|\n[ \t]*|(.))")


def read(text: str) -> tuple[Items, list[Comment]]:
    """The documents of the file, in order, and its comments. Raises ReadError."""
    reader = _Reader(text)
    return reader.documents(), reader.comments


def resolve(text: str) -> Any:
    """The value of a plain scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


class _Reader:
    def __init__(self, text: str) -> None:
        self.rows = text.lstrip("\ufeff").replace("\r\n", "\n").split("\n")
        self.row = 0
        self.comments: list[Comment] = []
        self.anchors: dict[str, Any] = {}

    # Rows

    def fail(self, message: str) -> ReadError:
        return ReadError(self.row + 1, message)

    def note(self, row: int, column: int) -> None:
        """Keep the comment that begins at this place, if one does."""
        text = self.rows[row][column:].lstrip()
        if text.startswith("#"):
            self.comments.append(Comment(row + 1, text.rstrip(), not self.rows[row][:column].strip()))

    def blank(self) -> None:
        """Go to the next row that holds more than space and comments."""
        while self.row < len(self.rows):
            text = self.rows[self.row].strip()
            if text and not text.startswith("#"):
                return
            self.note(self.row, 0)
            self.row += 1

    def here(self) -> tuple[int, str]:
        """Indentation and text of the current row; (-1, "") at the end of the document."""
        if self.row >= len(self.rows) or _DOCUMENT.match(self.rows[self.row]):
            return -1, ""
        text = self.rows[self.row]
        stripped = text.lstrip(" ")
        return len(text) - len(stripped), stripped.rstrip()

    def documents(self) -> Items:
        found = Items()
        self.blank()
        while self.row < len(self.rows):
            row = self.rows[self.row]
            if row.startswith("%"):
                self.row += 1
            elif _DOCUMENT.match(row):
                self.rows[self.row] = "   " + row[3:]
                if not row[3:].strip() or row[3:].lstrip().startswith("#"):
                    self.note(self.row, 3)
                    self.row += 1
            else:
                line = self.row + 1
                found.put(self.node(0, 0), line)
                self.blank()
                if self.here()[0] >= 0:
                    raise self.fail("expected less indentation or the end of the document")
            self.blank()
        return found

    # Block nodes

    def node(self, indent: int, sequence_indent: int) -> Any:
        """The node at or below the current row, of at least this indentation; None where there is none."""
        self.blank()
        column, text = self.here()
        if column < (sequence_indent if _is_item(text) else indent):
            return None
        if _is_item(text):
            return self.sequence(column)
        if text.startswith("? "):
            raise self.fail("complex keys are not read")
        if _KEY.match(text):
            return self.mapping(column)
        return self.inline(column, indent - 1)

    def sequence(self, indent: int) -> Items:
        items = Items(self.row + 1)
        while True:
            self.blank()
            column, text = self.here()
            if column != indent or not _is_item(text):
                if column > indent:
                    raise self.fail("expected `- `")
                return items
            line = self.row + 1
            self.rows[self.row] = " " * (indent + 1) + self.rows[self.row][indent + 1 :].replace("\t", " ")
            rest = self.rows[self.row].strip()
            if not rest or rest.startswith("#"):
                self.note(self.row, indent + 1)
                self.row += 1
                line_of = self.line_ahead(line)
                items.put(self.node(indent + 1, indent + 1), line_of)
            else:
                items.put(self.node(indent + 1, indent + 1), line)

    def mapping(self, indent: int) -> Table:
        table = Table(self.row + 1)
        while True:
            self.blank()
            column, text = self.here()
            match = _KEY.match(text) if column == indent else None
            if match is None:
                if column > indent or (column == indent and not _is_item(text)):
                    raise self.fail("expected `key:`")
                return table
            line = self.row + 1
            key = self.scalar_key(match["key"])
            self.rows[self.row] = " " * (indent + match.end()) + text[match.end() :]
            table.put(key, self.value(indent), line)

    def line_ahead(self, default: int) -> int:
        self.blank()
        return self.row + 1 if self.row < len(self.rows) else default

    def value(self, indent: int) -> Any:
        """What follows `key:` on the current row or below it."""
        column = len(self.rows[self.row]) - len(self.rows[self.row].lstrip())
        rest = self.rows[self.row].strip()
        if not rest or rest.startswith("#"):
            self.note(self.row, column)
            self.row += 1
            return self.node(indent + 1, indent)
        return self.inline(column, indent)

    def inline(self, column: int, indent: int) -> Any:
        """A node that begins at this column of the current row, its parent at ``indent``."""
        match = _PROPERTY.match(self.rows[self.row], column)
        if match:
            rest = self.rows[self.row][match.end() :]
            self.rows[self.row] = " " * match.end() + rest
            if not rest.strip() or rest.lstrip().startswith("#"):
                self.note(self.row, match.end())
                self.row += 1
                value = self.node(indent + 1, indent)
            elif _KEY.match(rest):
                value = self.mapping(match.end())
            else:
                value = self.inline(match.end(), indent)
            if match["mark"] == "&":
                self.anchors[match["name"]] = value
            return value
        text = self.rows[self.row][column:]
        block = _BLOCK.match(text)
        if block:
            return self.block_scalar(block["style"], block["header"], indent)
        if text[0] in "[{\"'":
            return self.flow_node(column)
        if text[0] == "*":
            name = text.split()[0]
            self.finish(column + len(name))
            return self.anchors.get(name[1:])
        return self.plain(column, indent)

    def block_scalar(self, style: str, header: str, indent: int) -> str:
        self.row += 1
        rows: list[str] = []
        inner = indent + int(re.sub(r"\D", "", header)) if re.search(r"\d", header) else None
        while self.row < len(self.rows):
            text = self.rows[self.row]
            column = len(text) - len(text.lstrip(" "))
            if text.strip():
                if inner is None and column > indent:
                    inner = column
                if column < (inner if inner is not None else indent + 1):
                    break
            rows.append(text[inner:] if inner is not None else "")
            self.row += 1
        body = "\n".join(rows).rstrip("\n") + "\n" if any(rows) else ""
        if style == ">":
            folded = re.sub(r"(?<=[^\n ])\n(\n*)(?=[^\n ])", lambda match: match[1] or " ", body.rstrip("\n"))
            body = folded + body[len(body.rstrip("\n")) :]
        return body.rstrip("\n") if "-" in header else body

    def plain(self, column: int, indent: int) -> Any:
        parts = []
        while True:
            text = self.rows[self.row][column:]
            end = _PLAIN_END.search(text)
            if end and end[0].startswith(":"):
                raise self.fail("a mapping may not begin here")
            parts.append((text[: end.start()] if end else text).strip())
            self.note(self.row, column + end.start() if end else len(self.rows[self.row]))
            self.row += 1
            ended = end is not None
            skipped = self.row
            while skipped < len(self.rows) and not self.rows[skipped].strip():
                skipped += 1
            if ended or skipped >= len(self.rows):
                break
            below = self.rows[skipped]
            column = len(below) - len(below.lstrip(" "))
            if column <= indent or below.lstrip().startswith("#") or _DOCUMENT.match(below):
                break
            self.row = skipped
        return resolve(parts[0]) if len(parts) == 1 else " ".join(parts)

    def finish(self, column: int) -> None:
        """Nothing but a comment may follow on this row."""
        rest = self.rows[self.row][column:].strip()
        if rest and not rest.startswith("#"):
            raise self.fail(f"expected the end of the line, but found `{rest}`")
        self.note(self.row, column)
        self.row += 1

    def scalar_key(self, text: str) -> str:
        return _unquote(text) if text[0] in "\"'" else text.strip()

    # Flow nodes: read over line breaks

    def flow_node(self, column: int) -> Any:
        flow = _Flow(self, self.row, column)
        value = flow.node()
        self.row = flow.row
        self.finish(flow.column)
        return value


class _Flow:
    """A cursor over rows, for `[...]`, `{...}` and quoted scalars."""

    def __init__(self, reader: _Reader, row: int, column: int) -> None:
        self.reader = reader
        self.row = row
        self.column = column

    def peek(self) -> str:
        """The next character that is neither space nor comment; moves there."""
        rows = self.reader.rows
        while self.row < len(rows):
            rest = rows[self.row][self.column :]
            stripped = rest.lstrip()
            if stripped and not (stripped.startswith("#") and (stripped != rest or self.column == 0)):
                self.column += len(rest) - len(stripped)
                return stripped[0]
            self.reader.note(self.row, self.column)
            self.row += 1
            self.column = 0
        raise ReadError(len(rows), "expected the end of a list, mapping or string")

    def node(self) -> Any:
        start = self.peek()
        match = _PROPERTY.match(self.reader.rows[self.row], self.column)
        if match:
            self.column = match.end()
            value = self.node()
            if match["mark"] == "&":
                self.reader.anchors[match["name"]] = value
            return value
        if start == "[":
            return self.sequence()
        if start == "{":
            return self.mapping()
        if start in "\"'":
            return self.quoted(start)
        return self.plain()

    def sequence(self) -> Items:
        items = Items(self.row + 1)
        self.column += 1
        while self.peek() != "]":
            line = self.row + 1
            value = self.node()
            if self.peek() == ":":  # a pair by itself is a mapping of one key
                self.column += 1
                pair = Table(line)
                pair.put(str(value), self.node(), line)
                value = pair
            items.put(value, line)
            self.separator("]")
        self.column += 1
        return items

    def mapping(self) -> Table:
        table = Table(self.row + 1)
        self.column += 1
        while self.peek() != "}":
            line = self.row + 1
            key = self.node()
            value = None
            if self.peek() == ":":
                self.column += 1
                if self.peek() not in ",}":
                    value = self.node()
            table.put(str(key), value, line)
            self.separator("}")
        self.column += 1
        return table

    def separator(self, end: str) -> None:
        found = self.peek()
        if found == ",":
            self.column += 1
        elif found != end:
            raise ReadError(self.row + 1, f"expected `,` or `{end}`, but found `{found}`")

    def quoted(self, mark: str) -> str:
        rows = self.reader.rows
        pattern = re.compile(r'"(?:[^"\\]|\\.)*"' if mark == '"' else r"'(?:[^']|'')*'(?!')", re.DOTALL)
        text = rows[self.row][self.column :]
        while True:
            match = pattern.match(text)
            if match:
                lines = match[0].split("\n")
                self.column = len(lines[-1]) + (self.column if len(lines) == 1 else 0)
                return _unquote(match[0])
            self.row += 1
            if self.row >= len(rows):
                raise ReadError(len(rows), "expected the end of a string")
            text += "\n" + rows[self.row]

    def plain(self) -> Any:
        match = _FLOW_PLAIN.match(self.reader.rows[self.row], self.column)
        if not match:
            raise ReadError(self.row + 1, f"expected a value, but found `{self.peek()}`")
        self.column = match.end()
        text = match[0].strip()
        return self.reader.anchors.get(text[1:]) if text.startswith("*") else resolve(text)


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith(("- ", "-\t"))


def _unquote(text: str) -> str:
    body = text[1:-1]
    body = re.sub(r"(?<!\\)[ \t]*\n[ \t]*", " ", body) if "\n" in body else body
    if text[0] == "'":
        return body.replace("''", "'")

    def replace(match: re.Match[str]) -> str:
        digits = match[1] or match[2] or match[3]
        if digits:
            return chr(int(digits, 16))
        return _ESCAPES.get(match[4], match[4]) if match[4] else ""

    return _ESCAPE.sub(replace, body)
