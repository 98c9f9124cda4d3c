"""The YAML that people write configurations in, read without PyYAML, which nodes need not have.

Block and flow collections, plain, quoted and block scalars, comments and several documents. Anchors,
tags and complex keys are refused by name: a file that uses them is not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""", re.DOTALL)
_FLOW_TEXT = re.compile(r"(?:(?!\s#|:(?:[\s,\]}]|$))[^,\[\]{}])*")
_SPACE = re.compile(r"(\s|(?<=\s)#[^\n]*)*")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?\s*(#.*)?$")
_INTEGER, _REAL = re.compile(r"[-+]?\d[\d_]*"), re.compile(r"[-+]?(\d[\d_]*\.[\d_]*|\.\d+)([eE][-+]\d+)?")


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
        if re.match(r"\?(\s|$)", text):
            self.refuse("begins a complex key")
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
            return self._block_scalar(indent, text.partition("#")[0].strip())
        if text[0] in "[{\"'":
            flow = _Flow(text, self._line)
            value = flow.value(0)
            flow.end()
            return value
        parts = [_uncommented(text)]
        while self.at < len(self.lines) and (not self.lines[self.at].strip() or self.indent() > indent):
            stripped = self.lines[self.at].strip()
            if stripped.startswith("#"):
                break
            if _KEY.match(stripped):
                self.refuse("is indented under a value")
            parts.append(_uncommented(stripped))
            self.at += 1
        return _plain(_joined("\n".join(parts).rstrip()))

    def _line(self) -> str | None:
        """The next line, for a flow collection that goes on; None at the end."""
        if self.at >= len(self.lines):
            return None
        self.at += 1
        return self.lines[self.at - 1].strip()

    def _block_scalar(self, indent: int, header: str) -> str:
        """The lines below a `|` or `>`, with or without their last newlines as its header says."""
        lines: list[str] = []
        while self.at < len(self.lines) and (not self.lines[self.at].strip() or self.indent() > indent):
            lines.append(self.lines[self.at])
            self.at += 1
        first = next((line for line in lines if line.strip()), "")
        given = re.search(r"\d", header)
        depth = max(indent, 0) + int(given[0]) if given else len(first) - len(first.lstrip(" "))
        text = "\n".join(line[depth:] for line in lines)
        body = text.rstrip("\n")
        ends = text[len(body) :] + "\n" if lines else ""
        if header[0] == ">":
            body = _folded(body)
        if "-" in header:
            return body
        return body + (ends if "+" in header else "\n" if body else "")


class _Flow:
    """``{a: 1, b: [x, "y"]}``: a collection or a quoted text in one piece."""

    def __init__(self, text: str, line: Callable[[], str | None]) -> None:
        self.text, self.at, self._line = text, 0, line

    def _more(self) -> bool:
        """Read on into the next line; False where there is none."""
        line = self._line()
        if line is not None:
            self.text += "\n" + line
        return line is not None

    def refuse(self) -> None:
        raise ArmstageError(f"Expected a flow collection or a quoted text that ends, but read: `{self.text[:80]}`")

    def space(self) -> None:
        """Go on to the next character, over comments and the ends of lines."""
        self._skip()
        while self.at >= len(self.text) and self._more():
            self._skip()

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def end(self) -> None:
        self._skip()
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
        return self._text()

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
        key = self._text()
        self.space()
        if self.text[self.at : self.at + 1] != ":":
            return key, None
        self.at += 1
        self.space()
        if self.text[self.at : self.at + 1] in (",", "}"):
            return key, None
        return key, self.value(depth + 1)

    def _text(self) -> Any:
        if self.text[self.at : self.at + 1] in ('"', "'"):
            return _plain(self._whole(_QUOTED))
        if self.text[self.at : self.at + 1] in ("&", "*", "!"):
            self.refuse()
        return _plain(_joined(self._whole(_FLOW_TEXT).strip()))

    def _whole(self, pattern: re.Pattern[str]) -> str:
        """What matches here, over as many lines as it takes."""
        match = pattern.match(self.text, self.at)
        while (match is None or (pattern is _FLOW_TEXT and match.end() == len(self.text))) and self._more():
            match = pattern.match(self.text, self.at)
        if match is None:
            self.refuse()
            return ""
        self.at = match.end()
        return match[0]


def _folded(text: str) -> str:
    """Lines of a `>` scalar: one newline is a space, several are one fewer; deeper lines keep theirs."""
    lines = text.split("\n")
    folded = lines[0]
    for before, line in zip(lines, lines[1:]):
        keep = not line or not before or line[0] in " \t" or before[:1] in (" ", "\t")
        folded += ("\n" if keep else " ") + line
    return re.sub(r"(?<=[^\s])\n\n+(?=[^\s])", lambda match: match[0][1:], folded)


def _uncommented(text: str) -> str:
    return re.split(r"\s+#", text, maxsplit=1)[0].rstrip()


def _joined(text: str) -> str:
    """Lines of a plain or quoted scalar: one newline is a space, several are one fewer."""
    return re.sub(r"[ \t]*\n\s*", lambda match: "\n" * (match[0].count("\n") - 1) or " ", text)


ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "e": "\x1b",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\n": "",
}
"""What follows a backslash in double quotes, where it is not the character itself."""


def _escaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else ESCAPES.get(match[4], match[4])


def _plain(text: str) -> Any:
    """A scalar: quoted text, number, word or plain text."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return _joined(text[1:-1]).replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        body = _joined(re.sub(r"\\\n\s*", "", text[1:-1]))
        return re.sub(
            r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U0*([0-9A-Fa-f]{1,6})|(.))", _escaped, body, flags=re.DOTALL
        )
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    return float(text.replace("_", "")) if _REAL.fullmatch(text) else text
