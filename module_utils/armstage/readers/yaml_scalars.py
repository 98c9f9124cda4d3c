"""The scalars of YAML: what their text stands for, by YAML 1.1 as PyYAML reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INTEGER = re.compile(
    r"[-+]?(?:0b(?P<binary>[01_]+)|0x(?P<hexadecimal>[0-9a-fA-F_]+)|0(?P<octal>[0-7_]+)|0|[1-9][0-9_]*"
    r"|(?P<sixties>[1-9][0-9_]*(?::[0-5]?[0-9])+))"
)
_FLOAT = re.compile(
    r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|(?P<sixties>[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_BASES = {"binary": 2, "octal": 8, "hexadecimal": 16}

_SPACES = re.compile(r"[ \t]+(?:\n[ \t\n]*)?|\n[ \t\n]*")
_ESCAPE = re.compile(
    r"\\(?:(?P<breaks>\n[ \t\n]*)|x(?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<sign>.))"
    r"|" + _SPACES.pattern
)
_ESCAPES = {
    **dict(zip("0abtnvfre", "\0\a\b\t\n\v\f\r\x1b")),
    **dict(zip(' "\\/\tN_LP', ' "\\/\t\x85\xa0\u2028\u2029')),
}


class Scalar(NamedTuple):
    """A text; what is not ``plain`` but quoted is never a number."""

    text: str
    plain: bool = True

    def value(self) -> str | int | float | bool | None:
        if not self.plain:
            return self.text
        if self.text in _CONSTANTS:
            return _CONSTANTS[self.text]
        try:
            return _number(self.text)
        except ValueError:  # `0x_`, and integers longer than Python reads
            return self.text


def _number(text: str) -> str | int | float:
    match = _INTEGER.fullmatch(text)
    digits, sign = text.replace("_", "").lstrip("+-"), -1 if text.startswith("-") else 1
    if match:
        base = _BASES.get(match.lastgroup or "")
        if match["sixties"]:
            return sign * int(_sixties(digits))
        return sign * (int(match[match.lastgroup or ""].replace("_", "") or "0", base) if base else int(digits))
    match = _FLOAT.fullmatch(text)
    if not match:
        return text
    if match["sixties"]:
        return sign * _sixties(digits)
    return sign * float(digits[1:] if digits[1:].isalpha() else digits)


def _sixties(digits: str) -> float:
    """`1:30` and `1:30.5`: the digits of base 60."""
    total: float = 0
    for power, place in enumerate(reversed(digits.split(":"))):
        total += (float(place) if "." in digits else int(place)) * 60**power
    return total


def joined(rows: int) -> str:
    """What stands for so many ends of rows within a text that goes on over them."""
    return " " if rows == 1 else "\n" * (rows - 1)


def single_quoted(body: str) -> str:
    return _SPACES.sub(_joined, body).replace("''", "'")


def double_quoted(body: str) -> str | None:
    """The text; None where it has an escape that there is none of."""
    try:
        return _ESCAPE.sub(_escaped, body)
    except (KeyError, ValueError, OverflowError):
        return None


def _escaped(match: re.Match[str]) -> str:
    if match["breaks"]:
        return "\n" * (match["breaks"].count("\n") - 1)
    if match["sign"]:
        return _ESCAPES[match["sign"]]
    code = match["x"] or match["u"] or match["U"]
    return chr(int(code, 16)) if code else _joined(match)


def _joined(match: re.Match[str]) -> str:
    """Spaces as they are, but none around the end of a row."""
    return joined(match[0].count("\n")) if "\n" in match[0] else match[0]


def block(rows: Sequence[str], first: int, header: str, least: int) -> tuple[str, int] | None:
    """The text of a `|` or `>` whose rows begin at ``first``, at column ``least`` or further on, and how many they are.

    ``header`` is the sign with what follows it: `|`, `>-`, `|2+`. None where an empty row before the text is longer
    than the text is indented: that one has no meaning.
    """
    given = header.strip("|>-+")
    depth: int | None = least + int(given) - 1 if given else _depth(rows, first, least)
    if depth is None:
        return None
    own = list(_rows(rows, first, depth))
    content = next((number for number in range(len(own), 0, -1) if own[number - 1]), 0)
    text = _folded(own[:content]) if header.startswith(">") else "\n".join(own[:content])
    if content and "-" not in header and first + content < len(rows):
        text += "\n"
    return text + ("\n" * (len(own) - content) if "+" in header else ""), len(own)


def _depth(rows: Sequence[str], first: int, least: int) -> int | None:
    """The column at which the first row that holds anything begins."""
    longest = least
    for number in range(first, len(rows)):
        column = len(rows[number]) - len(rows[number].lstrip(" "))
        if column < len(rows[number]):
            return None if least <= column < longest else max(longest, column)
        longest = max(longest, column)
    return longest


def _rows(rows: Sequence[str], first: int, depth: int) -> Iterator[str]:
    """The rows of the text from this column on; "" for an empty one."""
    for number in range(first, len(rows)):
        row = rows[number]
        if row[:depth].strip(" ") or (number + 1 == len(rows) and not row[depth:]):
            return
        yield row[depth:]


def _folded(rows: Sequence[str]) -> str:
    """The rows of a `>` in one, but for those that are indented further, and empty ones."""
    parts: list[str] = []
    breaks, before = 0, ""
    for row in rows:
        if not row:
            breaks += 1
            continue
        apart = bool(before) and (before[0] in " \t" or row[0] in " \t")
        parts += ["\n" * (breaks + apart) if breaks or apart or not before else " ", row]
        breaks, before = 0, row
    return "".join(parts)
