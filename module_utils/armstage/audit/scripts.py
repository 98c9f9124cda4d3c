"""What shell scripts run: each command behind the programs that only start others, and what Slurm makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..readers.nodes import ReadError
from .readers import shell
from .readers.shell_tree import (
    Assignment,
    Literal,
    Parameter,
    Part,
    Redirect,
    Script,
    Seen,
    Simple,
    Word,
    simple_commands,
)
from .source import Source

SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
_DEPTH = 8  # scripts in strings in scripts

_OPTIONS_WITH_VALUE = {
    "srun": "-A -B -c -C -D -d -e -i -J -m -M -n -N -o -p -P -q -r -t -T -w -W -x",
    "sudo": "-u -g -h -p -C -r -t -D",
    "env": "-u -C -S --unset --chdir --split-string",
    "timeout": "-k -s --kill-after --signal",
    "nice": "-n",
    "ionice": "-c -n -p",
    "numactl": "-C -N -m -i -p",
    "taskset": "",
    "stdbuf": "-i -o -e",
    "xargs": "-a -d -E -I -L -n -P -s",
    "mpirun": "-n -np -c -N -H -x --host --hostfile --map-by --bind-to --mca -mca",
    "time": "-o -f",
}
"""Programs that start another, and their options whose value is a word of its own."""
_OPERANDS = {"timeout": 1, "taskset": 1}
"""How many words of its own such a program takes before the command."""
WRAPPERS = {*_OPTIONS_WITH_VALUE, "nohup", "exec", "command", "builtin", "setsid", "mpiexec"}
_LONG_FLAGS = {
    "--exclusive",
    "--overlap",
    "--unbuffered",
    "--label",
    "--pty",
    "--no-kill",
    "--quiet",
    "--verbose",
    "--exact",
}
_CONTAINER = ("--container-image", "--container-name")


@dataclass(frozen=True, eq=False)
class Call:
    """A program that a script runs: its name without its folder, the words behind it, and the assignments
    in front of it. ``wrappers`` are the programs that start it, ``word`` its name as written."""

    source: Source
    program: str
    word: Word | None
    arguments: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    redirects: tuple[Redirect, ...]
    wrappers: tuple[Call, ...]
    first_line: int
    last_line: int
    seen: Seen

    @property
    def line(self) -> int:
        return self.word.line if self.word else self.first_line

    @property
    def texts(self) -> list[str]:
        """The arguments, literally where they are literal and as written elsewhere."""
        return [word.text if word.literal is None else word.literal for word in self.arguments]

    def has(self, *options: str) -> bool:
        """Whether one of the options is given, `--name`, `--name=value` or `-n`."""
        return any(text == option or text.startswith(option + "=") for text in self.texts for option in options)

    def value(self, *options: str) -> tuple[int, str] | None:
        """Line and value of the first of the options that is given."""
        for position, (word, text) in enumerate(zip(self.arguments, self.texts)):
            for option in options:
                if text.startswith(option + "="):
                    return word.line, text[len(option) + 1 :]
                if text == option and position + 1 < len(self.arguments):
                    return self.arguments[position + 1].line, self.texts[position + 1]
        return None

    def subcommand(self) -> str:
        """The words before the first option, `pip install` of `uv pip install -q x`, at most two."""
        words: list[str] = []
        skip = False
        for text in self.texts:
            if skip:
                skip = False
            elif text.startswith("-"):
                skip = text in ("--directory", "--project", "--config-file", "--cache-dir", "--color") and not words
                if words:
                    break
            else:
                words.append(text)
        return " ".join(words[:2])

    @property
    def in_container(self) -> bool:
        return any(wrapper.has(*_CONTAINER) for wrapper in self.wrappers)


@dataclass(frozen=True, eq=False)
class ShellScript:
    """A script, its calls in source order, and whether a Slurm job runs it."""

    source: Source
    script: Script
    calls: tuple[Call, ...]
    is_job: bool = False
    directives: tuple[tuple[int, str], ...] = field(default=())

    def assignments(self) -> Iterator[tuple[Assignment, Call | None]]:
        """Every assignment and, where it holds for one command only, that command. Those of `export` and the
        like hold on."""
        for call in self.calls:
            for assignment in call.assignments:
                yield (
                    assignment,
                    None if call.program in ("", "export", "declare", "readonly", "typeset", "local") else call,
                )


def read_all(sources: Iterable[Source]) -> tuple[ShellScript, ...]:
    """The scripts. A job's have #SBATCH lines, call srun, are named like one, or are run by another of a job's."""
    scripts = [_read(source) for source in sources if source.kind in ("shell", "env")]
    names = {script.source.path.rsplit("/", 1)[-1]: script for script in scripts}
    jobs = [script for script in scripts if script.is_job]
    seen = {script.source.path for script in jobs}
    while jobs:
        for call in jobs.pop().calls:
            for word in (call.word, *call.arguments):
                script = names.get(word.text.strip("\"'").rsplit("/", 1)[-1]) if word else None
                if script and script.source.path not in seen:
                    seen.add(script.source.path)
                    jobs.append(script)
    return tuple(replace(script, is_job=script.source.path in seen) for script in scripts)


def _read(source: Source) -> ShellScript:
    script: Script = source.document
    directives = tuple(
        (comment.line, comment.text) for comment in script.comments if comment.text.startswith("#SBATCH")
    )
    calls = tuple(_calls(source, script, _DEPTH))
    is_job = (
        bool(directives) or source.path.endswith((".sbatch", ".slurm")) or any(call.program == "srun" for call in calls)
    )
    return ShellScript(source, script, calls, is_job, directives)


def _calls(source: Source, script: Script, depth: int) -> Iterator[Call]:
    variables: dict[str, Word] = {}
    for seen in simple_commands(script):
        command = seen.command
        yield from _unwrap(source, seen, tuple(command.words), tuple(command.assignments), (), depth, variables)
        variables.update(
            (assignment.name, assignment.value) for assignment in command.assignments if not assignment.append
        )


def _unwrap(
    source: Source,
    seen: Seen,
    words: tuple[Word, ...],
    assignments: tuple[Assignment, ...],
    wrappers: tuple[Call, ...],
    depth: int,
    variables: dict[str, Word],
) -> Iterator[Call]:
    """The call of these words and, where its program starts another, that call too."""
    command = seen.command
    program = _program(words[0], variables) if words else ""
    call = Call(
        source,
        program,
        words[0] if words else None,
        words[1:],
        assignments,
        tuple(command.redirects),
        wrappers,
        command.line,
        _last_line(command),
        seen,
    )
    yield call
    if depth <= 0:
        return
    if program in WRAPPERS:
        inner, given = _behind(call)
        if inner:
            yield from _unwrap(source, seen, inner, (*assignments, *given), (*wrappers, call), depth, variables)
    for text, line in _scripts_in(call):
        try:
            script = shell.read(text, line)
        except (ReadError, RecursionError):
            continue
        for found in _calls(source, script, depth - 1):
            yield replace(
                found, wrappers=(*wrappers, call, *found.wrappers), first_line=min(found.first_line, call.first_line)
            )


def _program(word: Word, variables: dict[str, Word]) -> str:
    """The name of a program without its folder, that of `$PYTHON` by what the script set it to."""
    for _ in range(len(variables) + 1):
        parts = [part for part in word.parts if not isinstance(part, Literal) or part.text]
        if len(parts) != 1 or not isinstance(parts[0], Parameter):
            break
        set_to = variables.get(parts[0].name)
        default = parts[0].word if parts[0].operator in (":-", "-", ":=") else None
        word = set_to if set_to is not None and set_to is not word else default or word
    return word.text.strip("\"'").rsplit("/", 1)[-1]


def _behind(call: Call) -> tuple[tuple[Word, ...], tuple[Assignment, ...]]:
    """The words of the command that a wrapper starts, and the assignments that `env` gives it."""
    with_value = _OPTIONS_WITH_VALUE.get(call.program, "").split()
    operands = _OPERANDS.get(call.program, 0)
    given: list[Assignment] = []
    position = 0
    while position < len(call.arguments):
        word = call.arguments[position]
        text = word.text
        name, equals, value = text.partition("=")
        if text == "--":
            return call.arguments[position + 1 :], tuple(given)
        if text.startswith("-") and len(text) > 1:
            takes_word = text in with_value or (
                text.startswith("--") and not equals and call.program == "srun" and text not in _LONG_FLAGS
            )
            position += 2 if takes_word else 1
        elif call.program in ("env", "sudo") and equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            parts = _without_prefix(word, len(name) + 1)
            given.append(Assignment(name, Word(value, word.line, parts), False, word.line))
            position += 1
        elif operands:
            operands -= 1
            position += 1
        else:
            return call.arguments[position:], tuple(given)
    return (), tuple(given)


def _without_prefix(word: Word, length: int) -> tuple[Part, ...]:
    first, *rest = word.parts or (Literal(""),)
    text = first.text[length:] if isinstance(first, Literal) else ""
    return (Literal(text, getattr(first, "quoted", False)), *rest)


def _scripts_in(call: Call) -> Iterator[tuple[str, int]]:
    """Text and first line of each script that the call carries: `bash -c '...'`, `sbatch --wrap`, a here-document."""
    if call.program in SHELLS:
        for position, text in enumerate(call.texts[:-1]):
            if re.fullmatch(r"-[a-z]*c[a-z]*", text):
                yield _unquoted(call.arguments[position + 1]), call.arguments[position + 1].line
                break
    if call.program == "sbatch":
        for position, word in enumerate(call.arguments):
            if word.text.startswith("--wrap="):
                yield _unquoted(word)[len("--wrap=") :], word.line
            elif word.text == "--wrap" and position + 1 < len(call.arguments):
                yield _unquoted(call.arguments[position + 1]), call.arguments[position + 1].line
    if call.program in (*SHELLS, "sbatch"):
        for redirect in call.redirects:
            if redirect.body is not None:
                yield redirect.body.text, redirect.body_line


def _unquoted(word: Word) -> str:
    """The script in a quoted word, its expansions left as they are."""
    if word.literal is not None:
        return word.literal
    text = re.sub(r'(?<!\\)"', "", word.text)
    return re.sub(r'\\(["$`\\])', r"\1", text)


def _last_line(command: Simple) -> int:
    words = [*command.words, *(assignment.value for assignment in command.assignments)]
    words += [redirect.target for redirect in command.redirects]
    return max([command.line, *(word.line + word.text.count("\n") for word in words)])
