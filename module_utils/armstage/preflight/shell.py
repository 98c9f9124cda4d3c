"""The commands of a shell script, and the options and variables that they are given.

Words are taken apart as a shell does it, as far as that can be told without running anything.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArmstageError

SHELLS = ("sh", "bash", "dash", "zsh")

VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?([-=])((?:[^{}]|\$\{[^{}]*\})*))?\}|(\w+))")
WHOLE_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
BUNDLING = ("ssh", "run", "create", "exec", "netstat", "ss", "rsync", "cp", "mkdir")
DECLARING = ("export", "env", "declare", "local", "readonly", "typeset", "exec", "-x", "-i", "-r", "-gx")
GIVING = ("-e", "--env", "-x", "--setenv")
"""Options that are followed by ``NAME=value`` (docker, mpirun, bwrap)."""

GIVEN = re.compile(r"--(?:env|setenv|export)=(.*)", re.DOTALL)

QUOTED_OR_COMMENT = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|(?<![^\s;&|()])#[^\n]*""", re.DOTALL)
HERE = re.compile(r"(?<!<)<<(?!<)-?\s*['\"\\]?([A-Za-z_][\w.-]*)['\"]?")
DIRECTIVE = re.compile(r"#SBATCH\s+(.*)")

OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(?:[=](.*)|\s+(\S.*))?", re.DOTALL)
OVERRIDE = re.compile(r"\+{0,2}((?:[A-Za-z_]\w*[.])+[A-Za-z_]\w*)=(.*)", re.DOTALL)
"""Hydra's ``trainer.n_gpus_per_node=2`` and ``+model.tp=2`` (verl, NeMo)."""

ARGUMENTS = re.compile(r"(^|_)(args?|arguments|opts|options|flags|cmd|command)$")
"""Names of variables and keys that hold a command line or a part of one."""

MAX_JOINED = 100
"""Lines that a quoted text may go on for."""

MAX_NESTED = 5
"""Variables in variables, and shells in shells."""

MAX_INNER = 2000
"""Commands in quotes of other commands, in one file."""

MAX_EXPANDED = 10**4
"""Characters of a word: one that holds itself twice doubles with every line."""


@dataclass(frozen=True)
class Setting:
    """One value. ``name`` is in lower case with underscores, ``where`` says file and place, ``group`` the command
    or the mapping it stands in. ``variable`` tells one of the environment."""

    name: str
    value: Any
    where: str
    group: str = ""
    variable: bool = False


@dataclass(frozen=True)
class Command:
    """One command line; ``where`` says file and line."""

    words: tuple[str, ...]
    where: str


class Inner:
    """How many commands may still come out of quotes: a text that holds itself has no end of them."""

    def __init__(self) -> None:
        self.depth, self.left = 0, MAX_INNER

    def script(self, text: str, where: str, known: Mapping[str, str] | None) -> Iterator[Command]:
        """The commands in a text that a command gives a shell; all of them are where that is."""
        if self.depth == MAX_NESTED:
            return
        self.depth += 1
        for command in script(text, where, known, self):
            self.left -= 1
            if self.left < 0:
                raise ArmstageError(f"more than {MAX_INNER} of its commands are in quotes of other commands")
            yield Command(command.words, where)
        self.depth -= 1


def script(
    text: str, path: str, known: Mapping[str, str] | None = None, inner: Inner | None = None
) -> Iterator[Command]:
    """The commands of a shell script, lines joined where they go on.

    Variables that the script sets before (or that are ``known``) stand for their values, ``bash -c '...'``
    and a here-document for a shell for the commands in it. Other here-documents are left out. ``#SBATCH``
    lines are the options of a command `sbatch`.
    """
    lines, position, joins = text.splitlines(), 0, MAX_JOINED
    variables, inner = dict(known or {}), inner or Inner()
    while position < len(lines):
        where = f"{path}, line {position + 1}"
        directive = DIRECTIVE.match(lines[position])
        if directive:
            yield Command(("sbatch", *_words(directive[1])), where)
        whole, position = _continued(lines, position)
        commands, end = _split(whole), position
        while commands is None and end < min(len(lines), position + joins):
            whole, end = f"{whole}\n{lines[end]}", end + 1
            commands = _split(whole)
        # A quote that is never closed is prose: looked for once, and not on every line again.
        position, joins = (position, 0) if commands is None else (end, joins)
        body, position = _here_document(_without_comments(whole), lines, position)
        for words in commands or ():
            expanded = list(_expanded(words, variables))
            _assign(expanded, variables)
            yield from with_inner(expanded, where, variables, inner)
            if body and _takes_a_script(expanded):
                yield from inner.script("\n".join(body), where, variables)


def _continued(lines: Sequence[str], position: int) -> tuple[str, int]:
    """A line with those that a backslash joins to it, and the place of the next. A comment joins nothing."""
    whole, position = lines[position], position + 1
    while whole.endswith("\\") and position < len(lines) and _without_comments(lines[position - 1]).endswith("\\"):
        whole, position = f"{whole[:-1]} {lines[position]}", position + 1
    return whole, position


def _here_document(whole: str, lines: Sequence[str], position: int) -> tuple[list[str], int]:
    """The lines of the here-document that follows, and the place after it. One that never ends is none."""
    here = HERE.search(whole)
    end = position
    while here and end < len(lines):
        if lines[end].strip() == here[1]:
            return list(lines[position:end]), end + 1
        end += 1
    return [], position


def _takes_a_script(words: Sequence[str]) -> bool:
    return any(os.path.basename(word) in (*SHELLS, "ssh") for word in words)


def _without_comments(text: str) -> str:
    return QUOTED_OR_COMMENT.sub(lambda found: "" if found[0][0] == "#" else found[0], text)


def _split(line: str) -> list[list[str]] | None:
    """The words of each command of a line; None where its quotes do not close."""
    lexer = shlex.shlex(_without_comments(line), posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split, lexer.commenters = True, ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) <= set(";&|()"):
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:
        return None
    return [words for words in commands if words]


def _words(text: str) -> list[str]:
    """The words of a part of a command line; split at spaces where its quotes do not close."""
    return [word for words in _split(text) or [text.split()] for word in words]


def _expanded(words: Sequence[str], variables: dict[str, str]) -> Iterator[str]:
    """Words with what their variables stand for. One that is a variable and nothing else, and that holds
    options or is the command itself, is as many words as it holds."""
    for position, word in enumerate(words):
        text = expand(word, variables)
        before = words[position - 1] if position else ""
        several = WHOLE_VARIABLE.fullmatch(word) and re.search(r"\s", text) and not re.fullmatch(r"-[a-z]*c", before)
        if several and (not position or re.search(r"(^|\s)-", text)):
            yield from _words(text)
        else:
            yield text


def expand(text: str, variables: dict[str, str]) -> str:
    """``$NAME``, ``${NAME}``, ``${NAME:-2}`` and ``${NAME:=2}``, as far as they are known."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[4]
        if found[2] == "=":
            variables.setdefault(name, found[3])
        return variables.get(name, found[0] if found[3] is None else found[3])

    for _pass in range(MAX_NESTED):
        longer = VARIABLE.sub(value, text) if "$" in text else text
        if longer == text or len(longer) > MAX_EXPANDED:
            break
        text = longer
    return text


def _assign(words: Sequence[str], variables: dict[str, str]) -> None:
    for word in words:
        match = ASSIGNMENT.fullmatch(word)
        if match:
            variables[match[1]] = (variables.get(match[1], "") if match[2] else "") + match[3]
        elif word not in DECLARING:
            break


def with_inner(
    words: Sequence[str], where: str, known: Mapping[str, str] | None = None, inner: Inner | None = None
) -> Iterator[Command]:
    """A command, and those in the text that it gives a shell: ``docker exec x bash -lc 'vllm serve ...'``."""
    yield Command(tuple(words), where)
    names = [os.path.basename(word) for word in words]
    texts = []
    for position, name in enumerate(names[:-2]):
        if name in SHELLS and re.fullmatch(r"-[a-z]*c", words[position + 1]):
            texts.append(words[position + 2])
    for name in {"ssh", "tmux", "screen"}.intersection(names):
        texts += [word for word in words[names.index(name) + 1 :] if re.search(r"\s", word) and word not in texts]
    inner = inner or Inner()
    for text in texts:
        yield from inner.script(text, where, known)


def assignments(words: Sequence[str]) -> dict[str, str]:
    """``NAME=value`` in front of a command, after ``export`` or ``env``, and docker's ``-e NAME=value``."""
    found: dict[str, str] = {}
    leading = True
    for position, word in enumerate(words):
        match = ASSIGNMENT.fullmatch(word)
        given = GIVEN.fullmatch(word)
        after = words[position - 1] if position else ""
        if match and (leading or after in GIVING):
            found[match[1]] = match[3]
        elif given:
            each = [ASSIGNMENT.fullmatch(part) for part in re.split(r",(?=[A-Za-z_]\w*=)", given[1])]
            found.update({one[1]: one[3] for one in each if one})
        elif word not in DECLARING:
            leading = False
    return found


def exported(words: Sequence[str]) -> bool:
    """Whether what a command assigns reaches other programs."""
    return bool({"export", *GIVING}.intersection(words)) or any(GIVEN.fullmatch(word) for word in words)


def arguments(values: Iterable[tuple[str, str]], where: str) -> Iterator[Command]:
    """The command lines that variables hold: ``VLLM_ARGS=--tensor-parallel-size 2``."""
    for name, value in values:
        if value.lstrip().startswith("-") or ARGUMENTS.search(name.lower()):
            yield Command(tuple(_words(value)), where)


def options(command: Command) -> Iterator[Setting]:
    """``--name value``, ``--name=value``, ``-tp 2``, ``--flag`` (True) and ``a.name=value`` of a command line."""
    words = command.words
    for position, word in enumerate(words):
        where = f"{command.where}: {word}"
        override = OVERRIDE.fullmatch(word)
        if override:
            yield Setting(name_of(override[1].rpartition(".")[2]), typed(override[2]), where, command.where)
        match = OPTION.fullmatch(word)
        if not match or _is_bundle(words, position):
            continue
        following = words[position + 1] if position + 1 < len(words) else "-"
        value: Any = match[2] or match[3] or (True if re.match(r"-[A-Za-z-]", following + "-") else following)
        yield Setting(name_of(match[1].rpartition(".")[2] or match[1]), typed(value), where, command.where)


def _is_bundle(words: Sequence[str], position: int) -> bool:
    """Whether a word is two options of one letter each: ``docker run -dp 80:80``, ``ssh -tp 22``, ``netstat -tp 5``."""
    before = position
    while before and words[before - 1].startswith("-"):
        before -= 1
    program = os.path.basename(words[before - 1]) if before else ""
    return bool(re.fullmatch(r"-[a-z]{2}", words[position])) and program in BUNDLING


def typed(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value) else value


def name_of(key: str) -> str:
    """``tensor_parallel_size`` of ``--tensor-parallel-size`` and of ``tensorParallelSize``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key.strip()).lower().replace("-", "_")
