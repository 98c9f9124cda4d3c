"""Settings and launch commands as programs read them: from YAML, JSON, TOML and INI files, units, scripts.

A name in a comment, in prose or in a longer name is no setting, which is why nothing here is grepped.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ArmstageError
from ..files import read_text
from ..readers import yaml
from ..readers.nodes import ReadError
from .shell import (
    ARGUMENTS,
    Command,
    Setting,
    arguments,
    assignments,
    expand,
    exported,
    name_of,
    options,
    script,
    typed,
    with_inner,
)

COMMAND_KEYS = re.compile(ARGUMENTS.pattern + r"|^(entrypoint|exec|exec_start\w*|run|script|shell)$")
"""Keys whose value is a command line: compose files, Kubernetes, Helm, CI, playbooks, systemd units."""

CONTINUED = (("entrypoint", "command"), ("command", "args"))
"""Keys of which the second goes on where the first ends: compose files, Kubernetes."""

SCRIPT_SUFFIXES = (".sh", ".bash", ".zsh", ".ksh", ".sbatch", ".slurm", ".env", "")

SHEBANG = re.compile(r"#!\s*\S*/(?:env\s+(?:-S\s+)?)?(?:ba|da|z|k|fi)?sh\b")

MAX_FILES, MAX_BYTES = 200, 2 * 2**20
"""Files looked at below a folder, and bytes of one file."""


@dataclass(frozen=True)
class Read:
    """What a file says; ``problem`` is why it could not be read, else empty."""

    settings: tuple[Setting, ...] = ()
    commands: tuple[Command, ...] = ()
    problem: str = ""


def read(path: str) -> Read:
    """One file by its name, or by its first line where its name says nothing."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            return Read(problem=f"`{path}` is no file")  # to open a FIFO is to wait for who writes into it
        text = read_text(path, MAX_BYTES + 1)
        if text is None:
            return Read(problem=f"`{path}` does not exist")
        if len(text) > MAX_BYTES:
            return Read(problem=f"`{path}` was not understood: it has more than {MAX_BYTES // 2**20} MiB")
        return parse(text.lstrip("\ufeff"), path)
    except ArmstageError as error:
        return Read(problem=f"`{path}` was not understood: {error.message}")


def find(paths: Iterable[str]) -> list[str]:
    """The files named, and those below the folders named whose name says that they hold settings."""
    found: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            found.append(path)
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
            files = (os.path.join(folder, name) for name in sorted(names) if _holds_settings(name))
            found += [file for file in files if os.path.isfile(file)]
    return found[:MAX_FILES]


def _holds_settings(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES or _is_env(name) or _is_dockerfile(name)


def _is_env(name: str) -> bool:
    return name.endswith(".env") or bool(re.match(r"\.env(\.|$)", name))


def _is_dockerfile(name: str) -> bool:
    return bool(re.match(r"(docker|container)file(\.|$)", name.lower())) or name.lower().endswith(".dockerfile")


def parse(text: str, path: str) -> Read:
    name = os.path.basename(path)
    suffix = os.path.splitext(path)[1].lower()
    settings: list[Setting] = []
    if _is_env(name):
        settings, commands = _env_file(text, path)
    elif _is_dockerfile(name):
        commands = list(script(_dockerfile(text), path))
    elif suffix in PARSERS:
        values = PARSERS[suffix](text)
        settings = list(_flatten(values, path, ()))
        commands = list(_commands_in(values, path, ()))
        for each in settings:
            if each.variable and isinstance(each.value, str):
                commands += arguments([(each.name, each.value)], each.where)
    elif suffix in SCRIPT_SUFFIXES or SHEBANG.match(text):
        commands = list(script(text, path))
    else:
        raise ArmstageError(
            f"expected one of {', '.join(filter(None, SUFFIXES))}, or a shell's `#!` in its first line, but its name"
            f" ends in `{suffix}`"
        )
    for command in list(commands):
        if exported(command.words):
            commands += arguments(assignments(command.words).items(), command.where)
    for command in commands:
        where, given = command.where, assignments(command.words).items()
        settings += options(command)
        settings += [Setting(name.lower(), value, where, where, True) for name, value in given]
    return Read(tuple(settings), tuple(commands))


def _env_file(text: str, path: str) -> tuple[list[Setting], list[Command]]:
    """``NAME=value`` a line: the value is what stands there to the end, with or without quotes."""
    known: dict[str, str] = {}
    settings: list[Setting] = []
    commands: list[Command] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*", line)
        if match is None:
            continue
        quoted = re.match(r"(['\"])(.*?)\1\s*(?:#.*)?$", match[2])
        value = quoted[2] if quoted else re.sub(r"\s+#.*", "", match[2])
        value = known[match[1]] = value if quoted and quoted[1] == "'" else expand(value, known)
        where = f"{path}, line {number}"
        settings.append(Setting(match[1].lower(), value, where, path, True))
        commands += arguments([(match[1], value)], where)
    return settings, commands


def _dockerfile(text: str) -> str:
    """The same lines as a shell would have them: the commands, and ENV and ARG as assignments."""
    joined = re.sub(r"(?:.*\\\n)+.*", lambda found: _one_line(found[0]), text)
    lines = []
    for line in joined.splitlines():
        match = re.fullmatch(r"\s*(ENTRYPOINT|CMD|RUN|ENV|ARG)\s+(.*)", line, re.IGNORECASE)
        lines.append(_instruction(match[1].upper(), match[2]) if match else "")
    return "\n".join(lines)


def _one_line(text: str) -> str:
    """Lines that go on as one, and empty ones in their places; comments between them are left out."""
    lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    return " ".join(line.rstrip().rstrip("\\") for line in lines) + "\n" * text.count("\n")


def _instruction(name: str, rest: str) -> str:
    if name == "ENV":
        return "export " + (rest if re.match(r"\w+=", rest) else re.sub(r"^(\w+)\s+", r"\1=", rest))
    if rest.startswith("["):
        try:
            return shlex.join(map(str, json.loads(rest)))
        except (ValueError, TypeError):
            return rest  # a command of the shell that begins so, such as a test
    return rest


def _flatten(value: Any, path: str, keys: tuple[str, ...]) -> Iterator[Setting]:
    """Every value below a mapping, under its own key; ``where`` is the whole way to it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            way = (*keys, str(key))
            if not isinstance(inner, (Mapping, list)):
                variable = bool(re.fullmatch(r"[A-Z][A-Z0-9_]*", str(key)))
                where, group = f"{path}: {'.'.join(way)}", f"{path}: {'.'.join(keys)}"
                yield Setting(name_of(str(key)), _known(inner), where, group, variable)
            yield from _flatten(_embedded(str(key), inner), path, way)
    elif isinstance(value, list):
        for inner in value:
            if keys and name_of(keys[-1]) in ("environment", "env"):
                yield from _variable(inner, f"{path}: {'.'.join(keys)}")
            yield from _flatten(inner, path, keys)


def _embedded(key: str, value: Any) -> Any:
    """A file in a file: a ConfigMap's ``serve.yaml: |``, KubeRay's serveConfigV2."""
    suffix = ".yaml" if name_of(key) == "serve_config_v2" else os.path.splitext(key)[1].lower()
    if isinstance(value, str) and "\n" in value and suffix in PARSERS:
        try:
            return PARSERS[suffix](value)
        except ArmstageError:
            return value  # a template: what it becomes is not known
    return value


def _known(value: Any) -> Any:
    """A value with the defaults of compose's ``${TP:-2}``."""
    return typed(expand(value, {})) if isinstance(value, str) and "${" in value else value


def _variable(entry: Any, where: str) -> Iterator[Setting]:
    """``NAME=value`` as in a compose file, ``{name: NAME, value: value}`` as in Kubernetes."""
    if isinstance(entry, str) and "=" in entry:
        name, _equals, text = entry.partition("=")
        yield Setting(name.strip().lower(), typed(_known(text)), where, where, True)
    elif isinstance(entry, Mapping) and "name" in entry and "value" in entry:
        yield Setting(str(entry["name"]).lower(), typed(_known(entry["value"])), where, where, True)


def _commands_in(value: Any, path: str, keys: tuple[str, ...]) -> Iterator[Command]:
    """The command lines among the values."""
    if isinstance(value, Mapping):
        named = {_key(key): key for key in value}
        joined: set[Any] = set()
        for first, second in CONTINUED:
            before, after = value.get(named.get(first), []), value.get(named.get(second), [])
            if _is_argv(before) and _is_argv(after):
                where = f"{path}: {'.'.join((*keys, second))}"
                yield from with_inner([str(word) for word in (*before, *after)], where)
                joined |= {named[first], named[second]}
        for key, inner in value.items():
            way = (*keys, str(key))
            if key in joined:
                continue
            if COMMAND_KEYS.search(_key(key)) and isinstance(inner, str):
                yield from script(inner, f"{path}: {'.'.join(way)}")
            elif COMMAND_KEYS.search(_key(key)) and _is_argv(inner):
                yield from with_inner(list(map(str, inner)), f"{path}: {'.'.join(way)}")
            else:
                yield from _commands_in(inner, path, way)
    elif isinstance(value, list):
        for inner in value:
            yield from _commands_in(inner, path, keys)


def _key(key: Any) -> str:
    """A key as it is compared: without what `ansible.builtin.shell` has in front."""
    return name_of(str(key).rpartition(".")[2])


def _is_argv(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(word, (str, int, float)) for word in value)


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
    parser = configparser.ConfigParser(
        interpolation=None, strict=False, allow_no_value=True, inline_comment_prefixes=("#", ";")
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # capitals tell variables
    try:
        parser.read_string(text if re.search(r"^\s*\[", text, re.MULTILINE) else "[DEFAULT]\n" + text)
    except (configparser.Error, AttributeError) as error:  # the latter by a line that goes on one without a value
        raise ArmstageError(f"it is not INI: {str(error).splitlines()[0]}") from error
    sections = [parser.defaults(), *(parser[name] for name in parser.sections())]
    names = ["", *parser.sections()]
    return {
        name: {key: typed((value or "").strip("\"'")) for key, value in section.items()}
        for name, section in zip(names, sections)
    }


def _unit(text: str) -> Any:
    """A systemd unit: the same key may be there often, and a line may go on (systemd.syntax(7))."""
    whole = re.sub(r"\\\n(?:[#;][^\n]*\n)*", " ", text.replace("\r\n", "\n"))
    entries: list[dict[str, Any]] = []
    for line in whole.splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith(("#", ";", "[")):
            continue
        try:
            entries.append({key.strip(): shlex.split(value) if key.strip() == "Environment" else value.strip()})
        except ValueError as error:
            raise ArmstageError(f"`{line.strip()}` is not what a unit may say: {error}") from error
    return {"Service": entries}


def _toml(text: str) -> Any:
    from ..readers import toml  # not at the start: few launches have a TOML file

    try:
        return toml.read(text)[0]
    except (ReadError, RecursionError) as error:
        raise ArmstageError(f"it is not TOML: {error}") from error


PARSERS = {".json": _json, ".yaml": _yaml, ".yml": _yaml, ".toml": _toml, ".ini": _ini, ".cfg": _ini, ".conf": _ini}
PARSERS.update({".service": _unit, ".container": _unit})
SUFFIXES = (*PARSERS, *SCRIPT_SUFFIXES)
