"""Mappings and lists that remember the line each of their values was read from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union

Path = tuple[Union[str, int], ...]


class Table(dict[str, Any]):
    """A mapping; ``lines`` holds the line of each key, ``line`` the one where the mapping begins."""

    def __init__(self, line: int = 1) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}

    def put(self, key: str, value: Any, line: int) -> None:
        self[key] = value
        self.lines[key] = line

    def table(self, *keys: str) -> Table:
        """The table below these keys; an empty one where there is none."""
        found: Any = self
        for key in keys:
            found = found.get(key) if isinstance(found, Table) else None
        return found if isinstance(found, Table) else Table(self.line)

    def items_of(self, *keys: str) -> Items:
        """The list below these keys; an empty one where there is none."""
        found = self.table(*keys[:-1]).get(keys[-1])
        return found if isinstance(found, Items) else Items(self.line)


class Items(list[Any]):
    """A list; ``lines`` holds the line of each item, ``line`` the one where the list begins."""

    def __init__(self, line: int = 1) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []

    def put(self, value: Any, line: int) -> None:
        self.append(value)
        self.lines.append(line)

    def pairs(self) -> Iterator[tuple[int, Any]]:
        """Line and value of each item."""
        return zip(self.lines, self)

    def tables(self) -> Iterator[tuple[int, Table]]:
        """Line and table of each item that is one."""
        return ((line, value) for line, value in self.pairs() if isinstance(value, Table))


@dataclass(frozen=True)
class Comment:
    """A comment as written, from its marker on; ``alone`` when nothing else is on its line."""

    line: int
    text: str
    alone: bool


class ReadError(ValueError):
    """A file that does not follow its own format: the line, and what was expected there."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


def leaves(value: Any, line: int = 1, path: Path = ()) -> Iterator[tuple[Path, int, Any]]:
    """Path, line and value of everything below that is neither a mapping nor a list."""
    if isinstance(value, Table):
        for key, inner in value.items():
            yield from leaves(inner, value.lines[key], (*path, key))
    elif isinstance(value, Items):
        for index, (inner_line, inner) in enumerate(value.pairs()):
            yield from leaves(inner, inner_line, (*path, index))
    else:
        yield path, line, value
