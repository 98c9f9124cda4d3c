"""Settings and launch commands as programs read them: from YAML, JSON, TOML and INI files and shell scripts.

A name in a comment, in prose or in a longer name is no setting, which is why nothing here is grepped.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArmstageError
from ..files import read_text
from ..readers import yaml
from ..readers.nodes import ReadError

COMMAND_KEYS = ("command", "cmd", "args", "entrypoint", "execstart", "run", "script")
"""Keys whose value is a command line: compose files, Kubernetes, CI, systemd units."""

SCRIPT_SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".env", "")

SHELLS = ("sh", "bash", "dash", "zsh")
VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")

MAX_JOINED = 100
"""Lines that a quoted text may go on for."""

MAX_FILES, MAX_BYTES = 200, 2 * 2**20
"""Files looked at below a folder, and bytes of one file."""


@dataclass(frozen=True)
class Setting:
    """One value. ``name`` is in lower case with underscores, ``where`` says file and place."""

    name: str
    value: Any
    where: str


@dataclass(frozen=True)
class Command:
    """One command line; ``where`` says file and line."""

    words: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Read:
    """What a file says; ``problem`` is why it could not be read, else empty."""

    settings: tuple[Setting, ...] = ()
    commands: tuple[Command, ...] = ()
    problem: str = ""


def read(path: str) -> Read:
    """One file by its suffix."""
    try:
        text = read_text(path, MAX_BYTES)
        if text is None:
            return Read(problem=f"`{path}` does not exist")
        return parse(text, path)
    except ArmstageError as error:
        return Read(problem=f"`{path}` was not understood: {error.message}")


def find(paths: Iterable[str]) -> list[str]:
    """The files named, and those below the folders named whose suffix says that they hold settings."""
    found: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            found.append(path)
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
            found += [os.path.join(folder, name) for name in sorted(names) if os.path.splitext(name)[1] in SUFFIXES]
    return found[:MAX_FILES]


def parse(text: str, path: str) -> Read:
    suffix = os.path.splitext(path)[1].lower()
    if suffix in PARSERS:
        values = PARSERS[suffix](text)
        settings = list(_flatten(values, path, ()))
        commands = list(_commands_in(values, path, ()))
    elif suffix in SCRIPT_SUFFIXES:
        settings, commands = [], list(script(text, path))
    else:
        raise ArmstageError(f"expected one of {', '.join(SUFFIXES)}, but its name ends in `{suffix}`")
    for command in commands:
        settings += options(command)
        given = assignments(command.words).items()
        settings += [Setting(name.lower(), value, command.where) for name, value in given]
    return Read(tuple(settings), tuple(commands))


def script(text: str, path: str, known: Mapping[str, str] | None = None) -> Iterator[Command]:
    """The commands of a shell script, lines joined where they go on; the bodies of here-documents are left out.

    Variables that the script sets before (or that are ``known``) stand for their values, and
    ``bash -c '...'`` for the commands in it.
    """
    lines, position, joins = text.splitlines(), 0, MAX_JOINED
    variables = dict(known or {})
    while position < len(lines):
        where = f"{path}, line {position + 1}"
        whole, position = _continued(lines, position)
        commands, end = _split(whole), position
        while commands is None and end < min(len(lines), position + joins):
            whole, end = f"{whole}\n{lines[end]}", end + 1
            commands = _split(whole)
        # A quote that is never closed is prose: looked for once, and not on every line again.
        position, joins = (position, 0) if commands is None else (end, joins)
        here = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", whole)
        while here and position < len(lines):
            position += 1
            if lines[position - 1].strip() == here[1]:
                break
        for words in commands or ():
            expanded = [_expanded(word, variables) for word in words]
            variables.update(assignments(expanded))
            yield from _with_inner(expanded, where, variables)


def _continued(lines: Sequence[str], position: int) -> tuple[str, int]:
    """A line with those that a backslash joins to it, and the place of the next."""
    whole, position = lines[position], position + 1
    while whole.endswith("\\") and position < len(lines):
        whole, position = f"{whole[:-1]} {lines[position]}", position + 1
    return whole, position


def _split(line: str) -> list[list[str]] | None:
    """The words of each command of a line; None where its quotes do not close."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
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


def _expanded(word: str, variables: Mapping[str, str]) -> str:
    """A word with what ``$NAME``, ``${NAME}`` and ``${NAME:-2}`` stand for, as far as that is known."""
    if "$" not in word:
        return word
    return VARIABLE.sub(lambda found: variables.get(found[1] or found[3], found[2] or found[0]), word)


def _with_inner(words: Sequence[str], where: str, known: Mapping[str, str] | None = None) -> Iterator[Command]:
    """A command, and those in the text that it gives a shell: ``docker exec x bash -lc 'vllm serve ...'``."""
    yield Command(tuple(words), where)
    for position, word in enumerate(words[:-2]):
        if os.path.basename(word) in SHELLS and re.fullmatch(r"-[a-z]*c", words[position + 1]):
            for inner in script(words[position + 2], where, known):
                yield Command(inner.words, where)


def assignments(words: Sequence[str]) -> dict[str, str]:
    """``NAME=value`` in front of a command, after ``export`` or ``env``, and docker's ``-e NAME=value``."""
    found: dict[str, str] = {}
    leading = True
    for position, word in enumerate(words):
        match = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word, re.DOTALL)
        after = words[position - 1] if position else ""
        if match and (leading or after in ("-e", "--env", "-x")):
            found[match[1]] = match[2]
        elif word not in ("export", "env", "declare", "-x", "exec"):
            leading = False
    return found


def options(command: Command) -> Iterator[Setting]:
    """``--name value``, ``--name=value``, ``-tp 2`` and ``--flag`` (True) of a command line."""
    words = command.words
    for position, word in enumerate(words):
        match = re.fullmatch(r"--?([A-Za-z][\w-]*)(=(.*))?", word, re.DOTALL)
        if not match:
            continue
        following = words[position + 1] if position + 1 < len(words) else "-"
        value: Any = match[3] if match[2] else True if re.match(r"-[A-Za-z-]", following) else following
        yield Setting(_name(match[1]), _typed(value), f"{command.where}: {word}")


def _typed(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d+", value) else value


def _name(key: str) -> str:
    return key.strip().lower().replace("-", "_")


def _flatten(value: Any, path: str, keys: tuple[str, ...]) -> Iterator[Setting]:
    """Every value below a mapping, under its own key; ``where`` is the whole way to it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            way = (*keys, str(key))
            if not isinstance(inner, (Mapping, list)):
                yield Setting(_name(str(key)), inner, f"{path}: {'.'.join(way)}")
            yield from _flatten(inner, path, way)
    elif isinstance(value, list):
        for inner in value:
            if keys and _name(keys[-1]) in ("environment", "env"):
                yield from _variable(inner, f"{path}: {'.'.join(keys)}")
            yield from _flatten(inner, path, keys)


def _variable(entry: Any, where: str) -> Iterator[Setting]:
    """``NAME=value`` as in a compose file, ``{name: NAME, value: value}`` as in Kubernetes."""
    if isinstance(entry, str) and "=" in entry:
        name, _equals, text = entry.partition("=")
        yield Setting(_name(name), _typed(text), where)
    elif isinstance(entry, Mapping) and "name" in entry and "value" in entry:
        yield Setting(_name(str(entry["name"])), _typed(entry["value"]), where)


def _commands_in(value: Any, path: str, keys: tuple[str, ...]) -> Iterator[Command]:
    """The command lines among the values."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            way = (*keys, str(key))
            if _name(str(key)) in COMMAND_KEYS and isinstance(inner, str):
                yield from script(inner, f"{path}: {'.'.join(way)}")
            elif _name(str(key)) in COMMAND_KEYS and isinstance(inner, list) and all(map(_is_word, inner)):
                yield from _with_inner(list(map(str, inner)), f"{path}: {'.'.join(way)}")
            else:
                yield from _commands_in(inner, path, way)
    elif isinstance(value, list):
        for inner in value:
            yield from _commands_in(inner, path, keys)


def _is_word(value: Any) -> bool:
    return isinstance(value, (str, int, float))


def _yaml(text: str) -> Any:
    try:
        return yaml.read(text)[0]
    except ReadError as error:
        raise ArmstageError(f"it is not YAML that is read here: {error}") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArmstageError(f"it is not JSON: {error}") from error


def _ini(text: str) -> Any:
    """Sections of ``key = value``."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    try:
        parser.read_string(text if re.search(r"^\s*\[", text, re.MULTILINE) else "[DEFAULT]\n" + text)
    except configparser.Error as error:
        raise ArmstageError(f"it is not INI: {error.message.splitlines()[0]}") from error
    sections = [parser.defaults(), *(parser[name] for name in parser.sections())]
    names = ["", *parser.sections()]
    return {
        name: {key: _typed((value or "").strip("\"'")) for key, value in section.items()}
        for name, section in zip(names, sections)
    }


def _toml(text: str) -> Any:
    from ..readers import toml  # not at the start: few launches have a TOML file

    try:
        return toml.read(text)[0]
    except (ReadError, RecursionError) as error:
        raise ArmstageError(f"it is not TOML: {error}") from error


PARSERS = {".json": _json, ".yaml": _yaml, ".yml": _yaml, ".toml": _toml, ".ini": _ini, ".cfg": _ini, ".conf": _ini}
PARSERS.update({".service": _ini})
SUFFIXES = (*PARSERS, *(suffix for suffix in SCRIPT_SUFFIXES if suffix))
