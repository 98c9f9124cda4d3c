"""The YAML that people write configurations in, read without PyYAML, which nodes need not have.

Block and flow collections, plain, quoted and block scalars, comments and several documents. Anchors,
tags and complex keys are refused by name: a file that uses them is not guessed at.
"""

from __future__ import annotations

import re
from typing import Any

from ..errors import ArmstageError

WORDS = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
    "yes": True,
    "no": False,
    "on": True,
    "off": False,
}

DEEPEST = 60

_KEY = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s\[\]{},#&*!|>'"%@`-][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+|$)"""
)
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?\s*(#.*)?$")
_INTEGER, _REAL = re.compile(r"[-+]?\d[\d_]*"), re.compile(r"[-+]?(\d[\d_]*\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?")


def documents(text: str) -> list[Any]:
    """Every document of a text as dicts, lists and scalars. Raises ArmstageError, naming the line."""
    found = []
    for first, lines in _split(text):
        reader = _Reader(lines, first)
        if reader.more():
            found.append(reader.block(reader.indent(), 0))
            if reader.more():
                reader.refuse("is not indented as the lines before it")
    return found


def _split(text: str) -> list[tuple[int, list[str]]]:
    """(number of the first line, lines) of each document; a line of its own that only parts them is empty."""
    parts: list[tuple[int, list[str]]] = [(1, [])]
    for number, line in enumerate(text.expandtabs(8).splitlines(), 1):
        if re.match(r"(---|\.\.\.)(\s|$)", line):
            parts.append((number, [line[3:].strip()]))
        else:
            directive = line.startswith("%") and not any(parts[-1][1])
            parts[-1][1].append("" if directive else line)
    return parts


class _Reader:
    """Lines of one document, and where the reading stands."""

    def __init__(self, lines: list[str], first: int) -> None:
        self.lines, self.first, self.at = lines, first, 0

    def refuse(self, why: str) -> None:
        line = self.lines[min(self.at, len(self.lines) - 1)].strip()
        raise ArmstageError(f"Line {self.first + self.at} {why}: `{line[:80]}`")

    def more(self) -> bool:
        """Go on to the next line with content; False at the end."""
        while self.at < len(self.lines):
            stripped = self.lines[self.at].strip()
            if stripped and not stripped.startswith("#"):
                return True
            self.at += 1
        return False

    def indent(self) -> int:
        line = self.lines[self.at]
        return len(line) - len(line.lstrip(" "))

    def block(self, indent: int, depth: int) -> Any:
        """The collection or scalar whose lines begin at this column."""
        if depth > DEEPEST:
            self.refuse("is nested too deeply")
        text = self.lines[self.at][indent:]
        if re.match(r"-(\s|$)", text):
            return self._sequence(indent, depth)
        if _KEY.match(text) and text[0] not in "[{":
            return self._mapping(indent, depth)
        return self._scalar(text, indent - 1)

    def _sequence(self, indent: int, depth: int) -> list[Any]:
        found = []
        while self.more() and self.indent() == indent and re.match(r"-(\s|$)", self.lines[self.at][indent:]):
            line = self.lines[self.at]
            rest = line[indent + 1 :]
            inner = indent + 1 + len(rest) - len(rest.lstrip(" "))
            if not rest.strip() or rest.strip().startswith("#"):
                self.at += 1
                found.append(self._nested(indent, depth))
            elif _BLOCK.fullmatch(rest.strip()):
                found.append(self._scalar(rest.strip(), indent))
            else:
                # what follows the dash is a block of its own, at its own column
                self.lines[self.at] = " " * inner + rest.strip(" ")
                found.append(self.block(inner, depth + 1))
        return found

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.more() and self.indent() == indent:
            text = self.lines[self.at][indent:]
            match = _KEY.match(text)
            if match is None:
                self.refuse("is no `key: value`")
                break
            key, rest = str(_plain(match["key"])), text[match.end() :].strip()
            if not rest or rest.startswith("#"):
                self.at += 1
                same = self.more() and self.indent() == indent and re.match(r"-(\s|$)", self.lines[self.at][indent:])
                found[key] = self._sequence(indent, depth + 1) if same else self._nested(indent, depth)
            else:
                found[key] = self._scalar(rest, indent)
        return found

    def _nested(self, indent: int, depth: int) -> Any:
        if self.more() and self.indent() > indent:
            return self.block(self.indent(), depth + 1)
        return None

    def _scalar(self, text: str, indent: int) -> Any:
        """A value that begins on this line and may go on over deeper ones."""
        if text[0] in "&*!":
            self.refuse("uses an anchor, an alias or a tag")
        self.at += 1
        if _BLOCK.fullmatch(text):
            return self._block_scalar(indent, text[0])
        if text[0] in "[{\"'":
            while not _closed(text) and self.at < len(self.lines):
                text += "\n" + self.lines[self.at].strip()
                self.at += 1
            flow = _Flow(text)
            value = flow.value(0)
            flow.end()
            return value
        parts = [_uncommented(text)]
        while self.at < len(self.lines) and (not self.lines[self.at].strip() or self.indent() > indent):
            stripped = self.lines[self.at].strip()
            if stripped.startswith("#"):
                break
            if stripped:
                parts.append(_uncommented(stripped))
            self.at += 1
        return _plain(" ".join(parts))

    def _block_scalar(self, indent: int, style: str) -> str:
        lines: list[str] = []
        while self.at < len(self.lines) and (not self.lines[self.at].strip() or self.indent() > indent):
            lines.append(self.lines[self.at])
            self.at += 1
        depth = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
        return ("\n" if style == "|" else " ").join(line[depth:] for line in lines).strip()


class _Flow:
    """``{a: 1, b: [x, "y"]}``: a collection or a quoted text in one piece."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def refuse(self) -> None:
        raise ArmstageError(f"Expected a flow collection or a quoted text that ends, but read: `{self.text[:80]}`")

    def space(self) -> None:
        match = re.compile(r"(\s|(?<=\s)#[^\n]*)*").match(self.text, self.at)
        self.at = match.end() if match else self.at

    def end(self) -> None:
        self.space()
        if self.at < len(self.text) and not self.text[self.at :].lstrip().startswith("#"):
            self.refuse()

    def value(self, depth: int) -> Any:
        self.space()
        if self.at >= len(self.text) or depth > DEEPEST:
            self.refuse()
        sign = self.text[self.at : self.at + 1]
        if sign == "[":
            return self._items("]", depth)
        if sign == "{":
            return {str(key): value for key, value in self._items("}", depth)}
        return self._text(",]}")

    def _items(self, closing: str, depth: int) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        while True:
            self.space()
            if self.text[self.at : self.at + 1] == closing:
                self.at += 1
                return found
            found.append(self._pair(depth) if closing == "}" else self.value(depth + 1))
            self.space()
            if self.text[self.at : self.at + 1] == ",":
                self.at += 1
            elif self.text[self.at : self.at + 1] != closing:
                self.refuse()

    def _pair(self, depth: int) -> tuple[Any, Any]:
        key = self._text(":,}")
        self.space()
        if self.text[self.at : self.at + 1] != ":":
            return key, None
        self.at += 1
        self.space()
        if self.text[self.at : self.at + 1] in (",", "}"):
            return key, None
        return key, self.value(depth + 1)

    def _text(self, stops: str) -> Any:
        quoted = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""", re.DOTALL).match(self.text, self.at)
        if quoted:
            self.at = quoted.end()
            return _plain(quoted[0])
        if self.text[self.at : self.at + 1] in ('"', "'", "&", "*", "!"):
            self.refuse()
        match = re.compile(rf"(?:(?!\s#|:(?=[\s,\]}}]|$))[^{re.escape(stops.replace(':', ''))}\[\]{{}}\n])*").match(
            self.text, self.at
        )
        assert match is not None
        self.at = match.end()
        return _plain(match[0].strip())


def _closed(text: str) -> bool:
    """Whether brackets and quotes are balanced."""
    rest = re.sub(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""", "", text, flags=re.DOTALL)
    if re.match(r"[\"']", rest):
        return False
    rest = re.sub(r"(^|\s)#[^\n]*", "", rest)
    return rest.count("[") + rest.count("{") <= rest.count("]") + rest.count("}") and not re.search(
        r"(^|[\s\[{,:])[\"']", rest
    )


def _uncommented(text: str) -> str:
    return re.split(r"\s+#", text, maxsplit=1)[0].rstrip()


def _plain(text: str) -> Any:
    """A scalar: quoted text, number, word or plain text."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return re.sub(
            r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text[1:-1], flags=re.DOTALL
        )
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    return float(text.replace("_", "")) if _REAL.fullmatch(text) else text
