"""YAML as PyYAML reads it, with line numbers and without PyYAML, which nodes need not have.

Read are block and flow collections, scalars in every style, comments, anchors, aliases, merge keys and several
documents. Scalars are of YAML 1.1, by which Python programs read their configurations: `yes` is true and 1e3 is text.
Other than there, a key is always text, as written, and so are dates and times; a tag of an application's own
(`!vault`) is passed over. Complex keys and YAML's own tags but `!!str` are refused, and whatever PyYAML refuses.
"""

from __future__ import annotations

import re
from typing import Any

from .nodes import Comment, Items, ReadError, Table
from .yaml_scalars import Scalar, block, double_quoted, joined, single_quoted

DEEPEST = 60
"""Collections within each other."""

MOST = 10**6
"""Values that a file may come to, those behind an alias counted each time."""

_FORBIDDEN = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What YAML does not allow, and the rarer line breaks (NEL, LS, PS), which YAML 1.1 and 1.2 read differently."""

_SPACE, _INDENT, _BLANK = re.compile(r"[ \t]*"), re.compile(r" *"), re.compile(r"[ \t]*$")
_BOUNDARY = re.compile(r"(?:---|\.\.\.)(?=[ \t]|$)")
_DIRECTIVE = re.compile(r"%YAML[ ]+1\.[0-9]+[ \t]*(?:[ \t]#.*)?$")
_DASH, _QUESTION = re.compile(r"-(?=[ \t]|$)"), re.compile(r"\?(?=[ \t]|$)")
_COLON, _FLOW_COLON = re.compile(r"[ \t]*:(?=[ \t]|$)"), re.compile(r"[ \t]*:")
_ANCHOR, _TAG = re.compile(r"&([0-9A-Za-z_-]+)(?=[ \t]|$)"), re.compile(r"![^ \t,\[\]{}]+(?=[ \t]|$)")
_ALIAS = re.compile(r"\*([0-9A-Za-z_-]+)(?=[ \t,\]}]|$)")
_HEADER = re.compile(r"(?P<marks>[|>](?:[-+]?[1-9]?|[1-9][-+]))(?:[ \t]+(?P<comment>#.*)|[ \t]*)$")
_QUOTED = {'"': re.compile(r'(?:[^"\\]|\\.|\\$)*'), "'": re.compile(r"(?:[^']|'')*")}

_REST = r"(?:[^ \t:#]|:(?=[^ \t])|(?<=[^ \t])#|[ \t]+(?=[^ \t:#]|:[^ \t]))"
_FLOW_REST = r"(?:[^ \t:#,\[\]{}]|:(?=[^ \t,\[\]{}])|(?<=[^ \t])#|[ \t]+(?=[^ \t:#,\[\]{}]|:[^ \t,\[\]{}]))"
_PLAIN = re.compile(r"""(?:[^ \t\-?:,\[\]{}#&*!|>'"%@`]|[-?:](?=[^ \t]))""" + _REST + "*")
_FLOW_PLAIN = re.compile(r"""(?:[^ \t\-?:,\[\]{}#&*!|>'"%@`]|-(?=[^ \t]))""" + _FLOW_REST + "*")
_MORE, _FLOW_MORE = re.compile(_REST + "+"), re.compile(_FLOW_REST + "+")


def read(text: str) -> tuple[Items, list[Comment]]:
    """The documents of the file, in order, and its comments. Raises ReadError."""
    reader = _Reader(text)
    return reader.documents(), reader.comments


class _Reader:
    """Rows, and the place that reading has come to."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"\r\n?", "\n", text[1:] if text.startswith("\ufeff") else text)
        self.rows = text.split("\n")
        self.row = self.column = self.depth = self.count = 0
        self.comments: list[Comment] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        match = _FORBIDDEN.search(text)
        if match:
            self.row = text.count("\n", 0, match.start())
            raise self.fail(f"the character U+{ord(match[0]):04X} may not stand in a YAML file")

    def fail(self, message: str) -> ReadError:
        return ReadError(self.row + 1, message)

    # The way to the next content

    def skip(self) -> bool:
        """Go over space, comments and ends of rows; False at the end of the file."""
        while True:
            row = self.rows[self.row]
            self.column = _end(_SPACE, row, self.column)
            if self.column < len(row):
                if row[self.column] != "#" or row[: self.column][-1:] not in ("", " ", "\t"):
                    return True
                self.comments.append(Comment(self.row + 1, row[self.column :].rstrip(), not row[: self.column].strip()))
                self.column = len(row)
            if self.row + 1 == len(self.rows):
                return False
            self.row, self.column = self.row + 1, 0

    def boundary(self, row: int) -> bool:
        return row < len(self.rows) and bool(_BOUNDARY.match(self.rows[row]))

    def ahead(self) -> int:
        """Go on to the next content and return its column; -1 at the end of the document."""
        if not self.skip() or (self.column == 0 and self.boundary(self.row)):
            return -1
        if "\t" in self.rows[self.row][: self.column] and not self.rows[self.row][: self.column].strip():
            raise self.fail("expected spaces, but the line is indented with a tab")
        return self.column

    def inside(self) -> str:
        """Go on to the next character inside of a flow collection, and return it."""
        if not self.skip() or (self.column == 0 and self.boundary(self.row)):
            raise self.fail("expected the end of a list or mapping")
        return self.rows[self.row][self.column]

    def at(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self.rows[self.row], self.column)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.fail("it is nested too deeply")

    def counted(self, values: int) -> None:
        self.count += values
        if self.count > MOST:
            raise self.fail(f"its aliases come to more than {MOST} values")

    def documents(self) -> Items:
        found = Items()
        bare, directive = True, False
        while self.skip():
            if self.column == 0 and self.boundary(self.row):
                ends, self.column = self.rows[self.row].startswith("."), 3
                start, column = self.row, self.ahead()
                fresh = self.row > start
                if ends and (directive or (column >= 0 and not fresh)):
                    raise self.fail("expected nothing behind `...`, and no directive before it")
                bare, directive = ends, False
                if ends:
                    continue
            elif self.column == 0 and self.at(_DIRECTIVE) and bare:
                self.column, directive = len(self.rows[self.row]), True
                continue
            elif directive or not bare:
                raise self.fail("expected `---`")
            else:
                start, column, bare, fresh = self.row, self.ahead(), False, True
            line = (start if column < 0 else self.row) + 1
            self.anchors = {}
            found.put(self.node(-1, fresh), line)
            if self.ahead() >= 0:
                raise self.fail("expected less indentation or the end of the document")
        return found

    # Block nodes

    def node(self, indent: int, fresh: bool, dashes: bool = False) -> Any:
        """The value at or below this place, its parent at column ``indent``; None where there is none.

        ``fresh`` where a list or mapping may begin on the current row, ``dashes`` where a list may be indented as
        little as its parent.
        """
        return _value(self.raw(indent, fresh, dashes))

    def raw(self, indent: int, fresh: bool, dashes: bool) -> Any:
        """As ``node``, but a scalar is still a Scalar: as a key it is text, whatever it reads like."""
        self.counted(1)
        row, column = self.row, self.ahead()
        fresh = fresh or self.row > row
        if not (column > indent or (dashes and column == indent and self.at(_DASH))):
            return Scalar("")
        row, count = self.row, self.count
        marks = self.marks()
        if not marks:
            return self.content(indent, fresh)
        if self.ahead() < 0 or self.row > row:
            return self.marked(marks, self.raw(indent, True, dashes), count)
        if not fresh or self.at(_DASH) or self.at(_HEADER):
            return self.marked(marks, self.content(indent, False), count)
        key = self.marked(marks, self.atom(indent), count)
        return self.mapping(column, key, row) if self.is_key(key, row) else key

    def content(self, indent: int, fresh: bool) -> Any:
        row, column = self.row, self.column
        if self.at(_DASH):
            if not fresh:
                raise self.fail("a list may not begin here")
            return self.sequence(column)
        if self.at(_QUESTION):
            raise self.fail("complex keys are not read")
        if self.rows[row][column] in "|>":
            return self.block_scalar(indent)
        found = self.atom(indent)
        if not self.is_key(found, row):
            return found
        if not fresh:
            raise self.fail("a mapping may not begin here")
        return self.mapping(column, found, row)

    def is_key(self, found: Any, row: int) -> bool:
        """Whether `:` follows on what was read, which must be text on one row then."""
        if not self.at(_COLON):
            return False
        if self.row != row or not isinstance(found, Scalar):
            raise self.fail("a mapping may not begin here")
        return True

    def sequence(self, column: int) -> Items:
        items = Items(self.row + 1)
        self.deeper()
        while True:
            self.column += 1
            row, inner = self.row, self.ahead()
            line = (self.row if inner > column else row) + 1
            items.put(self.node(column, True), line)
            following = self.ahead()
            if following > column:
                raise self.fail("expected `- `")
            if following < column or not self.at(_DASH):
                self.depth -= 1
                return items

    def mapping(self, column: int, key: Scalar, row: int) -> Table:
        """The mapping at this column whose first key was read, up to its colon."""
        pairs = _Pairs(row + 1)
        self.deeper()
        while True:
            self.column = _end(_COLON, self.rows[self.row], self.column)
            self.put(pairs, key, self.node(column, False, dashes=True), row + 1)
            following = self.ahead()
            if following < column:
                self.depth -= 1
                return pairs.table()
            row, count = self.row, self.count
            if following == column and not self.at(_DASH) and not self.at(_QUESTION):
                marks = self.marks()
                self.column = _end(_SPACE, self.rows[row], self.column)
                found = self.marked(marks, self.atom(column) if self.column < len(self.rows[row]) else "", count)
                if self.is_key(found, row):
                    key = found
                    continue
            raise ReadError(row + 1, "expected `key:`")

    def put(self, pairs: _Pairs, key: Scalar, value: Any, line: int) -> None:
        if not pairs.put(key, value, line):
            raise ReadError(line, "expected a mapping, or a list of them, behind `<<`")

    # Properties

    def marks(self) -> dict[str, str]:
        """The anchor (`&`) and the tag (`!`) of the node that follows."""
        found: dict[str, str] = {}
        while True:
            match = self.at(_ANCHOR) or self.at(_TAG)
            sign = match[0][0] if match else ""
            if not match or sign in found:
                return found
            found[sign] = match[0][1:]
            if sign == "!" and found[sign].startswith(("!", "<")) and found[sign] != "!str":
                raise self.fail(f"uses the tag `{match[0]}`, which is not read")
            self.column = _end(_SPACE, self.rows[self.row], match.end())

    def marked(self, marks: dict[str, str], raw: Any, count: int) -> Any:
        """The node with these properties; ``count`` is where the values that it stands for began to be counted."""
        if marks.get("!") == "!str":
            if not isinstance(raw, Scalar):
                raise self.fail("expected text behind `!!str`")
            raw = Scalar(raw.text, plain=False)
        if "&" in marks:
            self.anchors[marks["&"]] = _value(raw), self.count - count + 1
        return raw

    # Scalars, and what stands between brackets

    def atom(self, indent: int | None) -> Any:
        """Text, an alias or a flow collection; ``indent`` is None inside of brackets."""
        sign = self.rows[self.row][self.column]
        if sign == "[":
            return self.flow_sequence()
        if sign == "{":
            return self.flow_mapping()
        if sign in _QUOTED:
            return self.quoted(sign)
        return self.alias() if sign == "*" else self.plain(indent)

    def alias(self) -> Any:
        match = self.at(_ALIAS)
        if not match or match[1] not in self.anchors:
            name = self.rows[self.row][self.column :].split()[0]
            raise self.fail(f"`{name}` uses an anchor that is not defined above it")
        self.column = match.end()
        value, values = self.anchors[match[1]]
        self.counted(values)
        return value

    def plain(self, indent: int | None) -> Scalar:
        match = self.at(_FLOW_PLAIN if indent is None else _PLAIN)
        if not match:
            raise self.fail(f"expected a value, but found `{self.rows[self.row][self.column :][:40]}`")
        parts = [match[0]]
        while match:
            self.column = match.end()
            match = None
            row = self.row + 1
            if not self.at(_BLANK):
                break
            while row < len(self.rows) and _BLANK.match(self.rows[row]):
                row += 1
            if row == len(self.rows) or self.boundary(row):
                break
            column = _end(_INDENT, self.rows[row])
            if indent is None or column > indent:
                more = _FLOW_MORE if indent is None else _MORE
                match = more.match(self.rows[row], _end(_SPACE, self.rows[row], column))
            if match:
                parts += [joined(row - self.row), match[0]]
                self.row = row
        return Scalar("".join(parts))

    def quoted(self, sign: str) -> Scalar:
        first = self.row
        parts = []
        self.column += 1
        while True:
            match = self.at(_QUOTED[sign])
            parts.append(match[0] if match else "")
            self.column += len(parts[-1])
            if self.column < len(self.rows[self.row]):
                break
            if self.row + 1 == len(self.rows) or self.boundary(self.row + 1):
                raise ReadError(first + 1, "expected the end of a string")
            self.row, self.column = self.row + 1, 0
        self.column += 1
        text = single_quoted("\n".join(parts)) if sign == "'" else double_quoted("\n".join(parts))
        if text is None:
            raise ReadError(first + 1, "expected an escape that YAML knows behind `\\`")
        return Scalar(text, plain=False)

    def flow_node(self) -> Any:
        self.counted(1)
        self.inside()
        count = self.count
        marks = self.marks()
        if not marks:
            return self.atom(None)
        return self.marked(marks, Scalar("") if self.inside() in ",]}" else self.atom(None), count)

    def flow_entry(self) -> tuple[Any, bool, Any]:
        """What was read, whether `:` followed it, and the value behind that."""
        row = self.row
        found = self.flow_node()
        if not self.at(_FLOW_COLON):
            return found, False, None
        if self.row != row or not isinstance(found, Scalar):
            raise self.fail("expected a key of one line, and text")
        self.column = _end(_FLOW_COLON, self.rows[self.row], self.column)
        return found, True, None if self.inside() in ",]}" else _value(self.flow_node())

    def flow_sequence(self) -> Items:
        items = Items(self.row + 1)
        self.column += 1
        self.deeper()
        while self.inside() != "]":
            line = self.row + 1
            found, is_pair, value = self.flow_entry()
            if is_pair:  # by itself: a mapping of one key
                pair = _Pairs(line)
                self.put(pair, found, value, line)
                found = pair.table()
            items.put(_value(found), line)
            self.separator("]")
        self.column, self.depth = self.column + 1, self.depth - 1
        return items

    def flow_mapping(self) -> Table:
        pairs = _Pairs(self.row + 1)
        self.column += 1
        self.deeper()
        while self.inside() != "}":
            line = self.row + 1
            key, _is_pair, value = self.flow_entry()
            if not isinstance(key, Scalar):
                raise ReadError(line, "expected a key that is text")
            self.put(pairs, key, value, line)
            self.separator("}")
        self.column, self.depth = self.column + 1, self.depth - 1
        return pairs.table()

    def separator(self, end: str) -> None:
        found = self.inside()
        if found == ",":
            self.column += 1
        elif found != end:
            raise self.fail(f"expected `,` or `{end}`, but found `{found}`")

    # Block scalars

    def block_scalar(self, indent: int) -> Scalar:
        header = self.at(_HEADER)
        if not header:
            raise self.fail("expected nothing but `-`, `+` and a digit behind `|` or `>`")
        if header["comment"]:
            self.comments.append(Comment(self.row + 1, header["comment"].rstrip(), False))
        found = block(self.rows, self.row + 1, header["marks"], max(indent + 1, 1))
        if found is None:
            raise self.fail("the first lines below are empty, but longer than the indentation")
        text, rows = found
        self.row += rows
        self.column = len(self.rows[self.row])
        return Scalar(text, plain=False)


class _Pairs:
    """The pairs of a mapping; those that it merges in give way to its own."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._own: list[tuple[str, Any, int]] = []
        self._merged: list[tuple[str, Any, int]] = []

    def put(self, key: Scalar, value: Any, line: int) -> bool:
        """False for a merge key (`<<`) with nothing to merge."""
        if not (key.plain and key.text == "<<"):
            self._own.append((key.text, value, line))
            return True
        tables = list(reversed(value)) if isinstance(value, Items) else [value]
        if not all(isinstance(table, Table) for table in tables):
            return False
        self._merged += [(name, table[name], table.lines[name]) for table in tables for name in table]
        return True

    def table(self) -> Table:
        table = Table(self._line)
        for pair in (*self._merged, *self._own):
            table.put(*pair)
        return table


def _value(raw: Any) -> Any:
    return raw.value() if isinstance(raw, Scalar) else raw


def _end(pattern: re.Pattern[str], row: str, start: int = 0) -> int:
    """Where a match that begins at this column ends; the column itself where there is none."""
    match = pattern.match(row, start)
    return match.end() if match else start
