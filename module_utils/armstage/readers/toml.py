"""TOML 1.0 with line numbers, which the standard library's reader (3.11 and newer) does not keep.

Dates and times stay text. What TOML 1.1 adds to inline tables (line breaks, a last comma) is read as well.
"""

from __future__ import annotations

import re
from typing import Any, Callable

from .nodes import Comment, Items, ReadError, Table

_SPACE = re.compile(r"[ \t]*")
_COMMENT = re.compile(r"#[^\n]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"((?:[^"\\\n]|\\[^\n])*)"')
_LITERAL = re.compile(r"'([^'\n]*)'")
_BASIC_BLOCK = re.compile(r'"""(?:\r?\n)?((?:[^"\\]|\\.|"(?!""(?!")))*)"""(?!")', re.DOTALL)
_LITERAL_BLOCK = re.compile(r"'''(?:\r?\n)?((?:[^']|'(?!''(?!')))*)'''(?!')", re.DOTALL)
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d(?::\d\d(?:\.\d+)?)?"
)
_FLOAT = re.compile(
    r"[+-]?(?:inf|nan|(?:0|[1-9](?:_?\d)*)(?:\.\d(?:_?\d)*(?:[eE][+-]?\d(?:_?\d)*)?|[eE][+-]?\d(?:_?\d)*))"
)
_INTEGER = re.compile(
    r"0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*|[+-]?(?:0|[1-9](?:_?\d)*)"
)
_WORD = re.compile(r"[^\s,\]}#=]+")
_ESCAPE = re.compile(r"\\(?:([btnfre\"\\])|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[ \t]*\r?\n\s*)|\\.?")
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}


def read(text: str) -> tuple[Table, list[Comment]]:
    """The document and its comments. Raises ReadError."""
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.line = 1
        self.comments: list[Comment] = []
        self.root = Table(1)
        self.closed: set[int] = set()  # tables that may not grow: inline ones, by id

    def document(self) -> tuple[Table, list[Comment]]:
        current = self.root
        headers: set[int] = set()
        while True:
            self.blank()
            if self.at >= len(self.text):
                return self.root, self.comments
            if self.text.startswith("[[", self.at):
                current = self.array_header()
            elif self.text[self.at] == "[":
                current = self.table_header(headers)
            else:
                self.key_value(current)
            self.end_of_line()

    def fail(self, message: str) -> ReadError:
        return ReadError(self.line, message)

    # What separates

    def space(self) -> None:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]

    def comment(self) -> None:
        match = _COMMENT.match(self.text, self.at)
        if match:
            before = self.text[self.text.rfind("\n", 0, self.at) + 1 : self.at]
            self.comments.append(Comment(self.line, match[0].rstrip(), not before.strip()))
            self.at = match.end()

    def blank(self) -> None:
        """Skip white space, line breaks and comments."""
        while True:
            self.space()
            self.comment()
            if not self.text.startswith("\n", self.at):
                return
            self.at += 1
            self.line += 1

    def end_of_line(self) -> None:
        self.space()
        self.comment()
        if self.at < len(self.text) and self.text[self.at] != "\n":
            raise self.fail(f"expected the end of the line, but found `{self.text[self.at]}`")

    def expect(self, token: str) -> None:
        if not self.text.startswith(token, self.at):
            raise self.fail(f"expected `{token}`")
        self.at += len(token)

    # Keys and headers

    def key(self) -> list[str]:
        parts = []
        while True:
            self.space()
            for pattern in (_BARE_KEY, _LITERAL, _BASIC):
                match = pattern.match(self.text, self.at)
                if match:
                    break
            else:
                raise self.fail("expected a key")
            parts.append(
                match[0] if pattern is _BARE_KEY else match[1] if pattern is _LITERAL else self.unescape(match[1])
            )
            self.at = match.end()
            self.space()
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def descend(self, table: Table, keys: list[str], line: int) -> Table:
        """The table below ``keys``, made where it is missing; of an array of tables, the last one."""
        for key in keys:
            if key not in table:
                table.put(key, Table(line), line)
            found = table[key]
            if isinstance(found, Items) and found and isinstance(found[-1], Table):
                found = found[-1]
            if not isinstance(found, Table) or id(found) in self.closed:
                raise self.fail(f"`{key}` is not a table that can be extended")
            table = found
        return table

    def table_header(self, headers: set[int]) -> Table:
        line = self.line
        self.expect("[")
        keys = self.key()
        self.expect("]")
        table = self.descend(self.root, keys, line)
        if id(table) in headers:
            raise self.fail(f"table `{'.'.join(keys)}` is defined twice")
        headers.add(id(table))
        return table

    def array_header(self) -> Table:
        line = self.line
        self.expect("[[")
        keys = self.key()
        self.expect("]]")
        parent = self.descend(self.root, keys[:-1], line)
        array = parent.get(keys[-1])
        if array is None:
            array = Items(line)
            parent.put(keys[-1], array, line)
        if not isinstance(array, Items) or id(array) in self.closed:
            raise self.fail(f"`{'.'.join(keys)}` is not an array of tables")
        table = Table(line)
        array.put(table, line)
        return table

    def key_value(self, table: Table) -> None:
        line = self.line
        keys = self.key()
        self.expect("=")
        self.space()
        value = self.value()
        parent = self.descend(table, keys[:-1], line)
        if keys[-1] in parent:
            raise ReadError(line, f"key `{'.'.join(keys)}` is defined twice")
        parent.put(keys[-1], value, line)

    # Values

    def value(self) -> Any:
        start = self.text[self.at : self.at + 1]
        if start in ('"', "'"):
            return self.string()
        if start == "[":
            return self.array()
        if start == "{":
            return self.inline_table()
        match = _WORD.match(self.text, self.at)
        word = match[0] if match else ""
        if word in ("true", "false"):
            self.at += len(word)
            return word == "true"
        return self.number()

    def number(self) -> Any:
        readers: list[tuple[re.Pattern[str], Callable[[str], Any]]] = [
            (_DATE, str),
            (_FLOAT, float),
            (_INTEGER, _integer),
        ]
        for pattern, convert in readers:
            match = pattern.match(self.text, self.at)
            if match and self.text[match.end() : match.end() + 1] in ("", " ", "\t", "\n", ",", "]", "}", "#"):
                self.at = match.end()
                return convert(match[0])
        raise self.fail("expected a value")

    def string(self) -> str:
        for pattern, literal in ((_BASIC_BLOCK, False), (_LITERAL_BLOCK, True), (_BASIC, False), (_LITERAL, True)):
            match = pattern.match(self.text, self.at)
            if match:
                value = match[1] if literal else self.unescape(match[1])
                self.line += match[0].count("\n")
                self.at = match.end()
                return value
        raise self.fail("expected the end of a string")

    def unescape(self, text: str) -> str:
        if "\\" not in text:
            return text

        def replace(match: re.Match[str]) -> str:
            if match[1]:
                return _ESCAPED[match[1]]
            digits = match[2] or match[3] or match[4]
            if digits:
                return _character(digits) or self.unknown(match[0])
            return "" if "\n" in match[0] else self.unknown(match[0])

        return _ESCAPE.sub(replace, text)

    def unknown(self, escape: str) -> str:
        raise self.fail(f"unknown escape `{escape}`")

    def array(self) -> Items:
        items = Items(self.line)
        self.expect("[")
        while True:
            self.blank()
            if self.text.startswith("]", self.at):
                break
            line = self.line
            items.put(self.value(), line)
            self.blank()
            if self.text.startswith("]", self.at):
                break
            self.expect(",")
        self.expect("]")
        self.closed.add(id(items))
        return items

    def inline_table(self) -> Table:
        table = Table(self.line)
        self.expect("{")
        while True:
            self.blank()
            if self.text.startswith("}", self.at):
                break
            self.key_value(table)
            self.blank()
            if self.text.startswith("}", self.at):
                break
            self.expect(",")
        self.expect("}")
        self.closed.add(id(table))
        return table


def _integer(text: str) -> int:
    return int(text.replace("_", ""), 0 if text[:2] in ("0x", "0o", "0b") else 10)


def _character(digits: str) -> str:
    code = int(digits, 16)
    return "" if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF else chr(code)
