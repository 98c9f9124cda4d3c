"""The words of a shell script: quoting, expansions, comments and here-documents."""

from __future__ import annotations

import re
from typing import Callable

from ...readers.nodes import Comment, ReadError
from .shell_tree import Arithmetic, Literal, Parameter, Part, Pipeline, Redirect, Script, Substitution, Word

BREAKS = " \t\n;&|<>()"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[-@*#?$!]")
_BRACED = re.compile(
    r"(?P<prefix>!|#(?=[A-Za-z0-9_@*]))?(?P<name>[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[-@*#?$!])(?P<index>\[)?"
)
_OPERATOR = re.compile(r":[-=?+]|[-=?+]|##?|%%?|//?|\^\^?|,,?|@|:")
_ANSI = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
}
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_EXTENDED_GLOB = re.compile(r"[@?*+!]\(")

Parse = Callable[[str, int], list[Pipeline]]
"""Commands of a text whose first line has the given number."""


class Words:
    """A cursor over a script that reads words; ``parse`` reads the commands of substitutions."""

    def __init__(self, text: str, line: int, parse: Parse) -> None:
        self.text = text
        self.at = 0
        self.first_line = line
        self.parse = parse
        self.comments: list[Comment] = []
        self.pending: list[tuple[int, str, bool, bool, list[Redirect]]] = []  # here-documents not yet read
        self._counted = (0, line)

    # Places

    def line(self, at: int | None = None) -> int:
        """The line of an offset, counted on from the last one asked for."""
        at = self.at if at is None else at
        known, line = self._counted
        if at < known:
            return self.first_line + self.text.count("\n", 0, at)
        line += self.text.count("\n", known, at)
        self._counted = (at, line)
        return line

    def fail(self, message: str, at: int | None = None) -> ReadError:
        return ReadError(self.line(at), message)

    def ahead(self, token: str) -> bool:
        return self.text.startswith(token, self.at)

    @property
    def character(self) -> str:
        return self.text[self.at : self.at + 1]

    def space(self) -> None:
        """Skip blanks, joined lines and a comment."""
        while True:
            if self.character in (" ", "\t") and self.character:
                self.at += 1
            elif self.ahead("\\\n"):
                self.at += 2
            elif self.character == "#":
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                before = self.text[self.text.rfind("\n", 0, self.at) + 1 : self.at]
                self.comments.append(Comment(self.line(), self.text[self.at : end].rstrip(), not before.strip()))
                self.at = end
            else:
                return

    def newline(self) -> None:
        """Step over the line break, and over the here-documents that begin behind it."""
        self.at += 1
        for number, delimiter, literal, strip, redirects in self.pending:
            start, line = self.at, self.line()
            body, end = [], None
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                row = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                if (row.lstrip("\t") if strip else row) == delimiter:
                    end = stop
                    break
                body.append(row.lstrip("\t") if strip else row)
            if end is None and delimiter:
                self.at = len(self.text)
            text = "".join(row + "\n" for row in body)
            word = Word(text, line, (Literal(text, True),)) if literal else self.inner(text, line).heredoc_word()
            old = redirects[number]
            redirects[number] = Redirect(old.operator, old.target, old.fd, word, line)
            del start
        self.pending.clear()

    def inner(self, text: str, line: int) -> Words:
        return Words(text, line, self.parse)

    # Words

    def word(self, stop: str = BREAKS) -> Word | None:
        """The word at the cursor, or None where there is none."""
        start = self.at
        line = self.line()
        parts: list[Part] = []
        while self.at < len(self.text):
            if self.ahead("\\\n"):
                self.at += 2
                continue
            if self.text[self.at] in stop and not self.extends(parts):
                break
            self.part(parts, stop)
        if self.at == start:
            return None
        return Word(self.text[start : self.at].replace("\\\n", ""), line, _joined(parts))

    def extends(self, parts: list[Part]) -> bool:
        """Whether a `(` or `<(` at the cursor is part of a word: a glob, or a process substitution."""
        return bool(re.match(r"[<>]\(", self.text[self.at : self.at + 2])) and not parts

    def part(self, parts: list[Part], stop: str) -> None:
        """Read one part of a word: a quoted string, an expansion or plain characters."""
        character = self.text[self.at]
        if character == "'":
            end = self.closing("'", self.at + 1)
            parts.append(Literal(self.text[self.at + 1 : end], True))
            self.at = end + 1
        elif character == '"':
            self.at += 1
            self.double_quoted(parts)
        elif character == "\\":
            parts.append(Literal(self.text[self.at + 1 : self.at + 2], True))
            self.at += 2
        elif character == "$":
            self.dollar(parts, False)
        elif character == "`":
            parts.append(self.backticks(False))
        elif character in "<>" and self.text.startswith("(", self.at + 1):
            self.at += 1
            parts.append(self.parenthesized(False))
        elif _EXTENDED_GLOB.match(self.text, self.at):
            start = self.at
            self.at += 2
            self.balanced("(", ")")
            parts.append(Literal(self.text[start : self.at]))
        else:
            end = self.at + 1
            while end < len(self.text) and self.text[end] not in stop and self.text[end] not in "'\"\\$`<>@?*+!":
                end += 1
            parts.append(Literal(self.text[self.at : end]))
            self.at = end

    def closing(self, mark: str, start: int) -> int:
        end = self.text.find(mark, start)
        if end < 0:
            raise self.fail(f"expected a closing `{mark}`", start - 1)
        return end

    def double_quoted(self, parts: list[Part]) -> None:
        """The rest of a double-quoted string, the cursor behind its opening mark."""
        start = self.at - 1
        parts.append(Literal("", True))
        while True:
            if self.at >= len(self.text):
                raise self.fail('expected a closing `"`', start)
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return
            self.quoted_part(parts, '"')

    def quoted_part(self, parts: list[Part], end: str) -> None:
        """One part inside double quotes or of a here-document."""
        character = self.text[self.at]
        if character == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
            escaped = self.text[self.at + 1]
            parts.append(Literal("" if escaped == "\n" else escaped, True))
            self.at += 2
        elif character == "$":
            self.dollar(parts, True)
        elif character == "`":
            parts.append(self.backticks(True))
        else:
            stop = self.at + 1
            while stop < len(self.text) and self.text[stop] not in ("\\", "$", "`", end):
                stop += 1
            parts.append(Literal(self.text[self.at : stop], True))
            self.at = stop

    def heredoc_word(self) -> Word:
        """The whole text, expanded as a here-document is."""
        parts: list[Part] = []
        while self.at < len(self.text):
            self.quoted_part(parts, "")
        return Word(self.text, self.first_line, _joined(parts))

    # Expansions

    def dollar(self, parts: list[Part], quoted: bool) -> None:
        start = self.at
        if self.ahead("$(("):
            self.at += 3
            if self.arithmetic():
                parts.append(Arithmetic(self.text[start + 3 : self.at - 2]))
                return
            self.at = start
        if self.ahead("$("):
            self.at += 1
            parts.append(self.parenthesized(quoted))
        elif self.ahead("${"):
            self.at += 2
            parts.append(self.braced(quoted))
        elif self.ahead("$'") and not quoted:
            self.at += 2
            end = self.at
            while self.text[end : end + 1] != "'":
                if end >= len(self.text):
                    raise self.fail("expected a closing `'`", start)
                end += 2 if self.text[end] == "\\" else 1
            parts.append(Literal(_ANSI_ESCAPE.sub(_ansi, self.text[self.at : end]), True))
            self.at = end + 1
        elif self.ahead('$"') and not quoted:
            self.at += 2
            self.double_quoted(parts)
        elif self.ahead("$["):
            self.at += 2
            self.balanced("[", "]")
            parts.append(Arithmetic(self.text[start + 2 : self.at - 1]))
        else:
            match = _NAME.match(self.text, self.at + 1)
            self.at = match.end() if match else self.at + 1
            parts.append(Parameter(match[0], quoted=quoted) if match else Literal("$", quoted))

    def arithmetic(self) -> bool:
        """Step behind the `))` that ends an arithmetic expression; False where it is a subshell instead."""
        depth = 0
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "(":
                depth += 1
            elif character == ")":
                if depth == 0:
                    if not self.ahead("))"):
                        return False
                    self.at += 2
                    return True
                depth -= 1
            elif character in "'\"`" or self.ahead("$"):
                self.part([], "")
                continue
            self.at += 1
        return False

    def parenthesized(self, quoted: bool) -> Substitution:
        """A substitution, the cursor at its `(`."""
        start = self.at
        self.at += 1
        line = self.line()
        reader = self.inner(self.text[self.at :], line)
        pipelines, length = _until_parenthesis(reader, self)
        if length < 0:
            raise self.fail("expected a closing `)`", start)
        self.at += length
        return Substitution(Script(pipelines), quoted)

    def backticks(self, quoted: bool) -> Substitution:
        start = self.at
        end = start + 1
        while self.text[end : end + 1] != "`":
            if end >= len(self.text):
                raise self.fail("expected a closing backtick", start)
            end += 2 if self.text[end] == "\\" else 1
        body = re.sub(r'\\([$`\\"])' if quoted else r"\\([$`\\])", r"\1", self.text[start + 1 : end])
        self.at = end + 1
        return Substitution(Script(self.parse(body, self.line(start))), quoted)

    def braced(self, quoted: bool) -> Parameter:
        """`${...}`, the cursor behind its brace."""
        start = self.at - 2
        match = _BRACED.match(self.text, self.at)
        if match is None:
            self.balanced("{", "}")
            return Parameter(self.text[start + 2 : self.at - 1], quoted=quoted)
        self.at = match.end()
        name = match["name"]
        if match["index"]:
            self.balanced("[", "]")
            name = self.text[match.start("name") : self.at]
        operator = _OPERATOR.match(self.text, self.at)
        self.at = operator.end() if operator else self.at
        word_start, line = self.at, self.line()
        parts: list[Part] = []
        while not self.ahead("}"):
            if self.at >= len(self.text):
                raise self.fail("expected a closing `}`", start)
            if quoted and self.text[self.at] == "'":
                parts.append(Literal("'", True))
                self.at += 1
            elif self.text[self.at] == "\\":
                parts.append(Literal(self.text[self.at + 1 : self.at + 2], True))
                self.at += 2
            else:
                self.part(parts, "}")
        text = self.text[word_start : self.at]
        self.at += 1
        word = Word(text, line, _joined(parts)) if operator else None
        return Parameter(name, (match["prefix"] or "") + (operator[0] if operator else ""), word, quoted)

    def balanced(self, opening: str, closing: str) -> None:
        """Step behind the closing mark, the cursor behind the opening one."""
        start, depth = self.at, 1
        while depth:
            if self.at >= len(self.text):
                raise self.fail(f"expected a closing `{closing}`", start)
            character = self.text[self.at]
            if character in "'\"`\\$":
                self.part([], "")
                continue
            depth += (character == opening) - (character == closing)
            self.at += 1


def _until_parenthesis(reader: Words, outer: Words) -> tuple[list[Pipeline], int]:
    """The commands up to the closing parenthesis, and how far it is; -1 where there is none."""
    from .shell import Parser  # the grammar needs words, and words with substitutions need the grammar

    parser = Parser(reader)
    pipelines = parser.commands((")",))
    if not reader.ahead(")"):
        return pipelines, -1
    outer.comments.extend(reader.comments)
    return pipelines, reader.at + 1


def _joined(parts: list[Part]) -> tuple[Part, ...]:
    """The parts, neighbouring literals of one kind joined."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, Literal) and isinstance(last, Literal) and (part.quoted == last.quoted or not part.text):
            found[-1] = Literal(last.text + part.text, last.quoted or part.quoted)
        else:
            found.append(part)
    return tuple(found)


def _ansi(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3]
    if digits:
        code = int(digits, 16)
        return chr(code) if code <= 0x10FFFF else "\ufffd"
    return chr(int(match[4], 8) & 0xFF) if match[4] else _ANSI.get(match[5], match[5])
