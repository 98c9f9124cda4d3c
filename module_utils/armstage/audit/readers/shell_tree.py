"""What a shell script is made of: words of quoted and expanded parts, commands, and lists of commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Union

from ...readers.nodes import Comment


@dataclass(frozen=True)
class Literal:
    """Text as it stands, its quotes and backslashes resolved."""

    text: str
    quoted: bool = False


@dataclass(frozen=True)
class Parameter:
    """`$name` or `${name:-word}`: ``operator`` is `:-`, `+`, `%%` or the like and ``word`` what follows it."""

    name: str
    operator: str = ""
    word: Word | None = None
    quoted: bool = False


@dataclass(frozen=True)
class Substitution:
    """`$(...)`, backticks, `<(...)` or `>(...)`."""

    script: Script
    quoted: bool = False


@dataclass(frozen=True)
class Arithmetic:
    """`$((...))`."""

    text: str


Part = Union[Literal, Parameter, Substitution, Arithmetic]


@dataclass(frozen=True)
class Word:
    """One word; ``text`` is its source, ``line`` where it begins."""

    text: str
    line: int
    parts: tuple[Part, ...]

    @property
    def literal(self) -> str | None:
        """The word's value where it does not depend on any expansion, else None."""
        return "".join(part.text for part in self.parts if isinstance(part, Literal)) if self.is_literal else None

    @property
    def is_literal(self) -> bool:
        return all(isinstance(part, Literal) for part in self.parts)

    @property
    def prefix(self) -> str:
        """The literal text that the word begins with."""
        text = ""
        for part in self.parts:
            if not isinstance(part, Literal):
                break
            text += part.text
        return text

    @property
    def quoted(self) -> bool:
        return any(getattr(part, "quoted", False) for part in self.parts)

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter of the word, those in defaults of others too."""
        for part in self.parts:
            if isinstance(part, Parameter):
                yield part
                if part.word:
                    yield from part.word.parameters()


@dataclass(frozen=True)
class Assignment:
    """`name=word`, `name+=word`, `name[i]=word` or, with ``items``, `name=(...)`."""

    name: str
    value: Word
    append: bool
    line: int
    items: tuple[Word, ...] | None = None


@dataclass(frozen=True)
class Redirect:
    """`fd operator target`; of a here-document, ``body`` is its text and ``body_line`` its first line."""

    operator: str
    target: Word
    fd: str = ""
    body: Word | None = None
    body_line: int = 0


@dataclass
class Simple:
    """Assignments, words and redirects; without words the assignments are the shell's own."""

    line: int
    assignments: list[Assignment] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass
class Compound:
    """`if`, `while`, `until`, `for`, `select`, `case`, `{`, `(`, `((`, `[[` or `function`.

    ``words`` are those of a `for`, `case` or `[[`; ``bodies`` its lists of commands, in source order.
    """

    kind: str
    line: int
    name: str = ""
    words: list[Word] = field(default_factory=list)
    bodies: list[list[Pipeline]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


Command = Union[Simple, Compound]


@dataclass
class Pipeline:
    """Commands joined by `|`, and the operator that joins the pipeline to the one before it (`&&`, `||`, `;`, `&`)."""

    commands: list[Command]
    joined_by: str = ";"
    negated: bool = False


@dataclass
class Script:
    """A script, its commands in order and its comments."""

    pipelines: list[Pipeline]
    comments: list[Comment] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """A simple command where it stands: its pipeline and position there, the function it is part of, and whether
    it runs only on a condition (`if`, `case`, behind `&&` or `||`)."""

    command: Simple
    pipeline: Pipeline
    position: int
    function: str = ""
    conditional: bool = False

    @property
    def after(self) -> list[Simple]:
        """The simple commands that its output is piped to."""
        return [command for command in self.pipeline.commands[self.position + 1 :] if isinstance(command, Simple)]


def simple_commands(script: Script) -> Iterator[Seen]:
    """Every simple command of the script in source order, those in substitutions and functions too."""
    yield from _in_list(script.pipelines, "", False)


def _in_list(pipelines: list[Pipeline], function: str, conditional: bool) -> Iterator[Seen]:
    for pipeline in pipelines:
        chained = conditional or pipeline.joined_by in ("&&", "||")
        for position, command in enumerate(pipeline.commands):
            if isinstance(command, Simple):
                for word in words_of(command):
                    yield from _in_word(word, function, chained)
                yield Seen(command, pipeline, position, function, chained)
            else:
                name = command.name if command.kind == "function" else function
                for word in [*command.words, *(redirect.target for redirect in command.redirects)]:
                    yield from _in_word(word, name, chained)
                for number, body in enumerate(command.bodies):
                    chosen = command.kind == "case" or (command.kind == "if" and number > 0)
                    yield from _in_list(body, name, chained or chosen)


def _in_word(word: Word, function: str, conditional: bool) -> Iterator[Seen]:
    for part in word.parts:
        if isinstance(part, Substitution):
            yield from _in_list(part.script.pipelines, function, conditional)
        elif isinstance(part, Parameter) and part.word:
            yield from _in_word(part.word, function, conditional)


def words_of(command: Simple) -> Iterator[Word]:
    """Every word of a simple command, in source order as far as it matters: assignments, words, redirects."""
    for assignment in command.assignments:
        yield assignment.value
        yield from assignment.items or ()
    yield from command.words
    for redirect in command.redirects:
        yield redirect.target
        if redirect.body:
            yield redirect.body
