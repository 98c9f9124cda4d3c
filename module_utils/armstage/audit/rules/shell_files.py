"""Rules on shell scripts: paths, downloads and names that are shared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from ..model import WARNING, Found, Project, Rule
from ..readers.shell_tree import Assignment, Literal, Parameter, Part, Word
from ..scripts import WRAPPERS, Call, ShellScript

_LIBRARY_PATH = "LD_LIBRARY_PATH"
_SEARCHED = ("PATH", _LIBRARY_PATH, "LIBRARY_PATH", "LD_PRELOAD")
_X86 = re.compile(r"(?<![a-z0-9])(?:x86[_-]64|amd64|linux-64)(?![a-z0-9])", re.IGNORECASE)
_BY_MACHINE = re.compile(r"aarch64|arm64|uname -|\barch\b|\$\{?(?:ARCH|MACHTYPE|HOSTTYPE)\b", re.IGNORECASE)
_VARIANTS = 64
_TEMPORARY = re.compile(r"(?:--?[\w-]+=)?/tmp/(?P<name>[^/\s*?\[]+)(?P<rest>/?)")
_SYSTEM_NAMES = (".X11-unix", ".ICE-unix", "mps", "nvidia-mps")
_READING = ("echo", "printf", "[", "test", "ls", "stat", "df", "du", "mktemp", "docker", "podman")
_CHECKS = (
    "sha256sum",
    "sha512sum",
    "sha1sum",
    "sha384sum",
    "b2sum",
    "b3sum",
    "md5sum",
    "shasum",
    "cksum",
    "gpg",
    "gpgv",
    "cosign",
    "minisign",
)
_UNPACKING = ("tar", "bsdtar", "unzip")
_HERE = re.compile(r"[\"']?https?://(?:localhost|127\.|169\.254\.|\[::1\])")


def library_path_empty_element(project: Project) -> Iterator[Found]:
    for script in project.scripts:
        if script.source.kind != "shell":
            continue
        filled = False
        for assignment, only_for in script.assignments():
            if assignment.name != _LIBRARY_PATH or assignment.items is not None:
                continue
            values = _values(assignment, filled)
            if any(value and "" in value.split(":") for value in values):
                last = only_for.last_line if only_for else assignment.line
                yield Found(script.source, assignment.line, last_line=last)
            if only_for is None:
                filled = all(values)


def _values(assignment: Assignment, filled: bool) -> list[str]:
    """What the variable may hold afterwards, `x` standing for text that is not known."""
    before = ["x"] if filled else ["", "x"]
    found = _expand(assignment.value.parts, {_LIBRARY_PATH: before})
    return [old + new for old, new in product(before, found)] if assignment.append else found


def _expand(parts: Sequence[Part], known: dict[str, list[str]]) -> list[str]:
    found = [""]
    for part in parts:
        options = (
            [part.text]
            if isinstance(part, Literal)
            else _parameter(part, known)
            if isinstance(part, Parameter)
            else ["x"]
        )
        found = [left + right for left, right in product(found, options)][:_VARIANTS]
    return found


def _parameter(parameter: Parameter, known: dict[str, list[str]]) -> list[str]:
    values = known.get(parameter.name, ["x"])
    operator = parameter.operator
    inner = parameter.word.parts if parameter.word else ()
    if operator in (":-", "-", ":=", "="):
        return [choice for value in values for choice in ([value] if value else _expand(inner, known))]
    if operator in (":+", "+"):
        given = _expand(inner, {**known, parameter.name: ["x"] if operator == ":+" else values})
        return [
            choice
            for value in (values if parameter.name in known else ["", "x"])
            for choice in (given if value else [""])
        ]
    return values if not operator or operator in (":?", "?") else ["x"]


def x86_search_path(project: Project) -> Iterator[Found]:
    for script in project.scripts:
        if script.source.kind != "shell":
            continue
        for assignment, only_for in script.assignments():
            if assignment.name not in _SEARCHED or (only_for and only_for.in_container):
                continue
            elements = re.split(r"[:\s]", assignment.value.text.replace('"', "").replace("'", ""))
            element = next(filter(_X86.search, elements), "")
            if element and not _tells_machines_apart(script):
                why = (
                    f"`{element}` is a folder of x86_64: on an aarch64 node it is missing, or what it holds is not "
                    "loaded, and a program from it ends with `Exec format error`"
                )
                last = only_for.last_line if only_for else assignment.line
                yield Found(script.source, assignment.line, why, last_line=last)


def _tells_machines_apart(script: ShellScript) -> bool:
    return any(_BY_MACHINE.search(row) for row in script.source.rows if not row.lstrip().startswith("#"))


def shared_temporary_name(project: Project) -> Iterator[Found]:
    for script in project.scripts:
        reported: set[str] = set()
        for call in script.calls:
            for word in _written(call):
                name = _fixed_name(word)
                if name and name not in reported and not call.in_container:
                    reported.add(name)
                    yield Found(
                        script.source,
                        word.line,
                        why=f"`/tmp/{name}` is the same for every user of the node: another user's file is "
                        "found, or can't be replaced",
                        first_line=call.first_line,
                        last_line=call.last_line,
                    )


def _written(call: Call) -> Iterator[Word]:
    if call.program not in _READING and call.program not in WRAPPERS:
        yield from call.arguments
    yield from (assignment.value for assignment in call.assignments)
    yield from (redirect.target for redirect in call.redirects if ">" in redirect.operator)


def _fixed_name(word: Word) -> str | None:
    """The name below /tmp where it does not depend on the user, the job or the process."""
    match = _TEMPORARY.match(word.prefix)
    if match is None or match["name"] in _SYSTEM_NAMES:
        return None
    complete = word.is_literal or bool(match["rest"])
    rest = word.prefix[match.end("name") :]
    return match["name"] if complete and not (rest and rest[0] in "*?[") else None


def download_unchecked(project: Project) -> Iterator[Found]:
    for script in project.scripts:
        checks = [position for position, call in enumerate(script.calls) if _checks(call)]
        for position, call in enumerate(script.calls):
            if _downloads(call) and not any(check > position for check in checks):
                yield Found(script.source, call.line, first_line=call.first_line, last_line=call.last_line)


def _checks(call: Call) -> bool:
    return call.program in _CHECKS or (call.program == "openssl" and "dgst" in call.texts[:1])


def _downloads(call: Call) -> bool:
    """Whether the command puts a file from another machine into a file, or unpacks it at once."""
    if any(_HERE.match(text) for text in call.texts):
        return False
    if call.program == "curl":
        target = _curl_target(call)
        if target is not None:
            return target.strip("\"'") not in ("/dev/null", "-", "/dev/stdout")
    elif call.program == "wget":
        if call.has("--spider"):
            return False
        target = _wget_target(call)
        if target != "-":
            return target not in ("/dev/null",) and any(
                "://" in text or text.startswith(("$", '"$')) for text in call.texts
            )
    else:
        return False
    if any(
        redirect.operator in (">", ">|", ">>") and not redirect.fd and redirect.target.text != "/dev/null"
        for redirect in call.redirects
    ):
        return True
    return any(after.words and after.words[0].text in _UNPACKING for after in call.seen.after)


def _curl_target(call: Call) -> str | None:
    """The file that curl writes; the URL's own name is given as `*`; None where it writes to standard output."""
    for position, text in enumerate(call.texts):
        following = call.texts[position + 1] if position + 1 < len(call.texts) else ""
        if text in ("--remote-name", "--remote-name-all"):
            return "*"
        if text.startswith("--output="):
            return text[len("--output=") :]
        if text == "--output":
            return following
        if re.fullmatch(r"-[a-zA-Z#]+", text):
            if "O" in text:
                return "*"
            if text.endswith("o"):
                return following
        elif re.match(r"-[a-zA-Z]*o[^a-zA-Z]", text) and not text.startswith("--"):
            return text.split("o", 1)[1]
    return None


def _wget_target(call: Call) -> str:
    for position, text in enumerate(call.texts):
        if re.fullmatch(r"-[a-zA-Z]*O", text) or text == "--output-document":
            return call.texts[position + 1] if position + 1 < len(call.texts) else ""
        match = re.fullmatch(r"(?:-[a-zA-Z]*O|--output-document=)(.+)", text)
        if match:
            return match[1]
    return "*"


RULES = (
    Rule(
        "library-path-empty-element",
        "LD_LIBRARY_PATH gets an empty element",
        WARNING,
        "Where the variable was empty or unset, the colon leaves an empty element, which the loader reads "
        "as the current folder: libraries "
        "are taken from wherever the job was started",
        "`LD_LIBRARY_PATH=/folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}`",
        bad={"env.sh": "export LD_LIBRARY_PATH=/opt/ffmpeg/lib:${LD_LIBRARY_PATH:-}\n"},
        good={"env.sh": "export LD_LIBRARY_PATH=/opt/ffmpeg/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n"},
        check=library_path_empty_element,
    ),
    Rule(
        "x86-search-path",
        "A search path names a folder of x86_64",
        WARNING,
        "On an aarch64 node the folder is missing, or what it holds is neither loaded nor run",
        "Leave the system's own folders out, they are searched anyway; name others by `$(uname -m)`",
        bad={"env.sh": "export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu\n"},
        good={"env.sh": 'export LD_LIBRARY_PATH="/usr/lib/$(uname -m)-linux-gnu"\n'},
        check=x86_search_path,
    ),
    Rule(
        "shared-tmp-name",
        "A fixed name in /tmp, which every user of the node shares",
        WARNING,
        "The name is the same for every user of the node: another user's file is found, or can't be replaced",
        "Use `scratch=$(mktemp -d)`, or put `$USER` and `$SLURM_JOB_ID` into the name",
        bad={"fetch.sh": "mkdir -p /tmp/ffmpeg\n"},
        good={"fetch.sh": 'mkdir -p "/tmp/ffmpeg-$USER"\n'},
        check=shared_temporary_name,
    ),
    Rule(
        "download-unchecked",
        "A download is used without a check of what came",
        WARNING,
        "An error page, a part of the file or the file of another architecture is taken for it, and fails "
        "later as something else",
        'Compare it with a known sum before it is used: `echo "SHA256  FILE" | sha256sum -c -`, and give curl `-f`',
        bad={"fetch.sh": "curl -L -o ffmpeg.tar.xz https://example.org/ffmpeg.tar.xz\ntar xf ffmpeg.tar.xz\n"},
        good={
            "fetch.sh": "curl -fL -o ffmpeg.tar.xz https://example.org/ffmpeg.tar.xz\nsha256sum -c "
            "ffmpeg.sha256\ntar xf ffmpeg.tar.xz\n"
        },
        check=download_unchecked,
    ),
)
