"""Requirements and their markers (PEP 508, "Dependency specifiers").

A marker holds, does not hold, or depends on what is not known: which extras are asked for, or which
Python will be used. `Marker.holds` answers True, False or None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from .pep440 import Specifier

Environment = Mapping[str, str]

_LINUX = {
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
AARCH64: Environment = {**_LINUX, "platform_machine": "aarch64"}
X86_64: Environment = {**_LINUX, "platform_machine": "x86_64"}

_ALIASES = {
    "os.name": "os_name",
    "sys.platform": "sys_platform",
    "platform.version": "platform_version",
    "platform.machine": "platform_machine",
    "platform.python_implementation": "platform_python_implementation",
    "python_implementation": "platform_python_implementation",
}
_TOKEN = re.compile(
    r"\s*(?:(?P<string>'[^']*'|\"[^\"]*\")|(?P<symbol>\(|\)|===|~=|==|!=|<=|>=|<|>)|(?P<word>[A-Za-z_][\w.]*))"
)
_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?\s*")
_VERSIONED = ("python_version", "python_full_version", "implementation_version", "platform_release")


@dataclass(frozen=True)
class Comparison:
    """`variable operator value`; ``reversed`` when it was written the other way round."""

    variable: str
    operator: str
    value: str
    reversed: bool = False

    def holds(self, environment: Environment) -> bool | None:
        actual = environment.get(self.variable)
        if actual is None:
            return None
        left, right = (self.value, actual) if self.reversed else (actual, self.value)
        if self.operator == "in":
            return left in right
        if self.operator == "not in":
            return left not in right
        if self.variable in _VERSIONED:
            try:
                return Specifier.parse(self.operator + right).admits(left)
            except ValueError:
                pass
        return {
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }.get(self.operator, left == right)


@dataclass(frozen=True)
class Every:
    """Markers joined by `and`."""

    parts: tuple[Node, ...]

    def holds(self, environment: Environment) -> bool | None:
        answers = [part.holds(environment) for part in self.parts]
        return False if False in answers else None if None in answers else True


@dataclass(frozen=True)
class Either:
    """Markers joined by `or`."""

    parts: tuple[Node, ...]

    def holds(self, environment: Environment) -> bool | None:
        answers = [part.holds(environment) for part in self.parts]
        return True if True in answers else None if None in answers else False


Node = Union[Comparison, Every, Either]


@dataclass(frozen=True)
class Marker:
    """A marker as written, and what it says."""

    text: str
    root: Node

    @classmethod
    def parse(cls, text: str) -> Marker:
        """Raises ValueError for text that is no marker."""
        tokens = _tokens(text)
        root = _either(tokens, text)
        if tokens:
            raise ValueError(f"`{text}` is not a marker: `{tokens[0][1]}` is one word too many")
        return cls(text.strip(), root)

    def holds(self, environment: Environment) -> bool | None:
        return self.root.holds(environment)


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"`{text}` is not a marker")
        found.append((str(match.lastgroup), match[0].strip()))
        at = match.end()
    return found


def _either(tokens: list[tuple[str, str]], text: str) -> Node:
    parts = [_every(tokens, text)]
    while tokens and tokens[0] == ("word", "or"):
        tokens.pop(0)
        parts.append(_every(tokens, text))
    return parts[0] if len(parts) == 1 else Either(tuple(parts))


def _every(tokens: list[tuple[str, str]], text: str) -> Node:
    parts = [_atom(tokens, text)]
    while tokens and tokens[0] == ("word", "and"):
        tokens.pop(0)
        parts.append(_atom(tokens, text))
    return parts[0] if len(parts) == 1 else Every(tuple(parts))


def _atom(tokens: list[tuple[str, str]], text: str) -> Node:
    if tokens and tokens[0][1] == "(":
        tokens.pop(0)
        inner = _either(tokens, text)
        if not tokens or tokens.pop(0)[1] != ")":
            raise ValueError(f"`{text}` is not a marker: `)` is missing")
        return inner
    operands = []
    operator = ""
    for position in range(3):
        if not tokens:
            raise ValueError(f"`{text}` is not a marker: it ends too early")
        kind, token = tokens.pop(0)
        if position != 1:
            operands.append((kind, token))
        elif token == "not" and tokens and tokens.pop(0)[1] == "in":
            operator = "not in"
        elif kind == "symbol" or token == "in":
            operator = token
        else:
            raise ValueError(f"`{text}` is not a marker: `{token}` compares nothing")
    kinds = [kind for kind, _ in operands]
    if sorted(kinds) != ["string", "word"]:
        raise ValueError(f"`{text}` is not a marker: it must compare a variable with a string")
    variable = operands[kinds.index("word")][1]
    value = operands[kinds.index("string")][1][1:-1]
    return Comparison(_ALIASES.get(variable, variable), operator, value, reversed=kinds[0] == "string")


@dataclass(frozen=True)
class Requirement:
    """One requirement; ``name`` is normalized, ``url`` set for `name @ URL`."""

    text: str
    name: str
    extras: tuple[str, ...]
    specifier: Specifier
    url: str
    marker: Marker | None

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Raises ValueError for text that is no requirement."""
        match = _NAME.match(text)
        if match is None:
            raise ValueError(f"`{text}` is not a requirement")
        extras = tuple(part.strip() for part in (match[2] or "").split(",") if part.strip())
        rest = text[match.end() :]
        url = ""
        if rest.startswith("@"):
            url, _, marker = _split_url(rest[1:].strip())
            specifier = Specifier()
        else:
            conditions, _, marker = rest.partition(";")
            conditions = conditions.strip()
            if conditions.startswith("(") and conditions.endswith(")"):
                conditions = conditions[1:-1]
            specifier = Specifier.parse(conditions)
        parsed = Marker.parse(marker) if marker.strip() else None
        return cls(text.strip(), normalize(match[1]), extras, specifier, url, parsed)

    def applies_to(self, environment: Environment) -> bool:
        """Whether it may be asked for in this environment."""
        return self.marker is None or self.marker.holds(environment) is not False

    @property
    def excludes_aarch64(self) -> bool:
        """Whether it is asked for on x86_64 Linux and never on aarch64 Linux."""
        return self.applies_to(X86_64) and not self.applies_to(AARCH64)


def normalize(name: str) -> str:
    """The name that PyPI knows a project by: `Flash_Attn` is `flash-attn`."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _split_url(text: str) -> tuple[str, str, str]:
    """URL and marker: in `name @ URL ; marker` the semicolon has a space before it."""
    match = re.search(r"\s;|;\s", text)
    return (text[: match.start()].strip(), ";", text[match.end() :]) if match else (text, "", "")
