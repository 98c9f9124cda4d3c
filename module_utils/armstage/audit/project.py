"""The audit of a folder: which files are read, and by whom; which rules look at them; what comes out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Callable

from ..errors import ArmstageError
from ..files import read_text
from ..readers import toml, yaml
from ..readers.nodes import Comment, ReadError
from . import declarations, ignore, locks, scripts
from .facts import FAMILY, Facts
from .model import Found, Project, Rule
from .pep508 import AARCH64
from .readers import ini, python_code, requirements, shell
from .rules import CATALOGUE
from .source import Source

LARGEST = 8 * 1024 * 1024
LARGEST_CONFIGURATION = 256 * 1024
"""Bytes. A larger configuration is data."""
_SKIPPED_FOLDERS = re.compile(
    r"\..*|venv.*|v?env|node_modules|__pycache__|site-packages|build|dist|.*\.egg-info|third_party|vendor|wandb|outputs|checkpoints"
)
_READ_HIDDEN = (".github", ".devcontainer")

LOCKED_WHEELS = "lock-no-aarch64-wheel"
"""The rule that needs a uv.lock for what it says of wheels."""

Read = Callable[[str], "tuple[Any, Iterable[Comment]]"]


def _shell(text: str) -> tuple[Any, Iterable[Comment]]:
    script = shell.read(text)
    return script, script.comments


def _python(text: str) -> tuple[Any, Iterable[Comment]]:
    return python_code.parse(text), python_code.comments(text) if "armstage:" in text else ()


@dataclass(frozen=True)
class Kind:
    """A kind of file: the names it has, its reader, and words of which a configuration must hold one to be read."""

    name: str
    names: re.Pattern[str]
    read: Read
    words: re.Pattern[str] | None = None


_SPREAD = re.compile(r"(?i)tensor|\btp\b|tp[-_]size|ifname|if_name|_addr|_ip\b|net_devices|endpoint|\binterface\b")

KINDS = (
    Kind("pyproject", re.compile(r"(?:.*/)?pyproject\.toml"), toml.read),
    Kind("uv.lock", re.compile(r"(?:.*/)?uv\.lock"), toml.read),
    Kind(
        "requirements",
        re.compile(r"(?:.*/)?(?:[^/]*(?:requirements|constraints)[^/]*\.(?:txt|in)|requirements/[^/]+\.(?:txt|in))"),
        requirements.read,
    ),
    Kind("setup.cfg", re.compile(r"(?:.*/)?setup\.cfg"), ini.read),
    Kind("setup.py", re.compile(r"(?:.*/)?setup\.py"), _python),
    Kind("environment", re.compile(r"(?:.*/)?(?:[^/]*environment[^/]*|conda[^/]*)\.ya?ml"), yaml.read),
    Kind(
        "python",
        re.compile(r".*\.pyi?"),
        _python,
        re.compile(r"torchvision|torchaudio|armstage:|^# /// script", re.MULTILINE),
    ),
    Kind("shell", re.compile(r".*\.(?:sh|bash|sbatch|slurm|slrm|job)"), _shell),
    Kind("env", re.compile(r"(?:.*/)?(?:\.env|[^/]*\.env|\.env\.[\w-]+)"), _shell, _SPREAD),
    Kind("config", re.compile(r".*\.(?:ya?ml|json)"), yaml.read, _SPREAD),
    Kind("config", re.compile(r".*\.toml"), toml.read, _SPREAD),
    Kind("config", re.compile(r".*\.(?:ini|cfg|conf)"), ini.read, _SPREAD),
)
_UNSUPPORTED = re.compile(
    r"(?:.*/)?(?:(?:Docker|Container)file(?:\.[\w-]+)?|[^/]+\.(?:[Dd]ocker|[Cc]ontainer)file|(?:GNU)?[Mm]akefile|[^/]+\.ipynb"
    r"|Pipfile|(?:poetry|pdm)\.lock)"
)
_INSTALLING = re.compile(r"\b(?:pip3?|uv|conda|mamba|torch\w*)\b|x86_64|amd64")
"""Files that install packages in a form that no reader knows, and words of which such a file must hold one."""
_SHEBANG = re.compile(r"#!\s*\S*/(?:env\s+(?:-S\s+)?)?(?:ba|da|k)?sh\b")


@dataclass(frozen=True)
class Unread:
    """A file, or a part of one, that could not be read."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True)
class Finding:
    """One finding, as it is returned."""

    rule: str
    level: str
    file: str
    line: int
    text: str
    why: str
    fix: str


@dataclass(frozen=True)
class Audit:
    """Everything an audit has to say; ``read`` counts the files of each kind, ``ignored`` the findings taken back.

    ``unlocked`` are the files whose requirements no uv.lock resolves, so that nothing is known of their wheels;
    ``mendable`` says that `./armstage project fix PATH --lock own` mends some of the findings.
    """

    findings: tuple[Finding, ...]
    unread: tuple[Unread, ...]
    read: Mapping[str, int]
    ignored: int
    unlocked: tuple[str, ...] = ()
    mendable: bool = False

    def result(self) -> dict[str, Any]:
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "unread": [asdict(unread) for unread in self.unread],
            "read": dict(self.read),
            "ignored": self.ignored,
        }


def audit(path: str, facts: Facts, rules: Iterable[str] = ()) -> Audit:
    """Read the project below ``path``, or one file, and apply the rules (default: all of them).

    Raises ArmstageError when there is no such path, and for a rule that does not exist.
    """
    wanted = _wanted(tuple(rules))
    files, unread = read_files(path)
    project = assemble(files, facts)
    findings, ignored = findings_of(project, wanted)
    counts: dict[str, int] = {}
    for source in files:
        counts[source.kind] = counts.get(source.kind, 0) + 1
    unlocked = tuple(_unlocked(project)) if LOCKED_WHEELS in {rule.id for rule in wanted} else ()
    return Audit(tuple(findings), tuple(unread), counts, ignored, unlocked, _mendable(project, findings))


def audit_texts(texts: Mapping[str, str], facts: Facts) -> Audit:
    """The audit of a project given as path -> text."""
    files, unread = read_texts(texts)
    findings, ignored = findings_of(assemble(files, facts), _wanted(()))
    return Audit(tuple(findings), tuple(unread), {}, ignored)


def read_texts(texts: Mapping[str, str]) -> tuple[list[Source], list[Unread]]:
    """The files given as path -> text, read."""
    files: list[Source] = []
    unread: list[Unread] = []
    for path, text in texts.items():
        _read_into(path, text, files, unread)
    return files, unread


def assemble(files: Iterable[Source], facts: Facts) -> Project:
    sources = tuple(files)
    read_locks = tuple(locks.read(source, facts.python) for source in sources if source.kind == "uv.lock")
    read_scripts = scripts.read_all(sources)
    return Project(sources, facts, declarations.collect(sources, read_scripts), read_locks, read_scripts)


def _wanted(names: tuple[str, ...]) -> tuple[Rule, ...]:
    everything = (*CATALOGUE, ignore.RULE)
    unknown = [name for name in names if name not in {rule.id for rule in everything}]
    if unknown:
        raise ArmstageError(
            f"There is no rule `{unknown[0]}`",
            hint="The rules are in docs/rules.md: " + ", ".join(rule.id for rule in everything),
        )
    return tuple(rule for rule in everything if not names or rule.id in names)


def _unlocked(project: Project) -> Iterator[str]:
    """Files that ask for packages of which the data says nothing, without a uv.lock in their folder or above it."""
    for source in project.files:
        asked = {
            declared.requirement.name
            for declared in project.declared.requirements
            if declared.source is source
            and declared.purpose == declarations.PROJECT
            and declared.requirement.applies_to(AARCH64)
        }
        if asked - set(FAMILY) and not any(declarations.is_below(source, lock.source) for lock in project.locks):
            yield source.path


def _mendable(project: Project, findings: Iterable[Finding]) -> bool:
    """Whether `./armstage project fix` has something to do: in the files that it edits, for a project with torch."""
    own = {source.path: source for source in project.files if source.path in ("pyproject.toml", "uv.lock")}
    pyproject = own.get("pyproject.toml")
    if pyproject is None or "project" not in pyproject.document:
        return False
    uses_torch = any(declared.source is pyproject for declared in project.declared.of(*FAMILY)) or any(
        lock.source in own.values() and lock.package("torch") for lock in project.locks
    )
    mended = {rule.id for rule in CATALOGUE if rule.mended}
    return uses_torch and any(finding.file in own and finding.rule in mended for finding in findings)


# Rules


def findings_of(project: Project, rules: Iterable[Rule]) -> tuple[list[Finding], int]:
    """The findings by file and line, each rule once per line, and how many an ignore comment took back."""
    rules = tuple(rules)
    known = [rule.id for rule in (*CATALOGUE, ignore.RULE)]
    ignores = {source: ignore.read(source.comments, known) for source in project.files if source.comments}
    alone = {source: {comment.line for comment in source.comments if comment.alone} for source in ignores}
    findings: dict[tuple[str, int, str], Finding] = {}
    ignored = set()
    for rule in rules:
        for found in [*rule.check(project), *_of_comments(rule, ignores)]:
            first, last = found.first_line or found.line, max(found.last_line, found.line)
            key = (found.source.path, found.line, rule.id)
            if any(entry.covers(rule.id, first, last, alone[found.source]) for entry in ignores.get(found.source, ())):
                ignored.add(key)
            elif key not in findings:
                findings[key] = _finding(rule, found)
    order = {rule.id: position for position, rule in enumerate(rules)}
    return sorted(findings.values(), key=lambda finding: (finding.file, finding.line, order[finding.rule])), len(
        ignored
    )


def _of_comments(rule: Rule, ignores: Mapping[Source, list[ignore.Ignore]]) -> Iterator[Found]:
    if rule is ignore.RULE:
        for source, found in ignores.items():
            yield from ignore.without_effect(source, found)


def _finding(rule: Rule, found: Found) -> Finding:
    return Finding(
        rule=rule.id,
        level=found.level or rule.level,
        file=found.source.path,
        line=found.line,
        text=found.source.row(found.line)[:500],
        why=found.why or rule.why,
        fix=found.fix or rule.fix,
    )


# Files


def read_files(path: str) -> tuple[list[Source], list[Unread]]:
    """Every file below ``path`` that a reader knows, by path; links are not followed."""
    if not os.path.exists(path):
        raise ArmstageError(
            f"There is no project at `{path}`", hint="Give the folder that holds pyproject.toml or the scripts"
        )
    files: list[Source] = []
    unread: list[Unread] = []
    for below, full in _walk(path):
        kind = _kind_of(below, full)
        if kind is None:
            if _UNSUPPORTED.fullmatch(below) and _installs(full):
                unread.append(Unread(below, 0, "the audit has no reader for it"))
            continue
        try:
            size = os.path.getsize(full)
            if size > (LARGEST_CONFIGURATION if kind.name == "config" else LARGEST):
                if kind.name != "config":
                    unread.append(Unread(below, 0, f"it is larger than {LARGEST // 1024 // 1024} MiB"))
                continue
            text = read_text(full, LARGEST)
        except (OSError, ArmstageError) as error:
            unread.append(Unread(below, 0, error.message if isinstance(error, ArmstageError) else str(error.strerror)))
            continue
        _read_into(below, text or "", files, unread, kind)
    return files, unread


def _installs(full: str) -> bool:
    """Whether a file holds a word of those that its kind could go wrong with; one too large to look at may."""
    try:
        return bool(_INSTALLING.search(read_text(full, LARGEST) or ""))
    except (OSError, ArmstageError):
        return True


def _walk(path: str) -> Iterator[tuple[str, str]]:
    """Path below the project and full path of each file, in order."""
    if os.path.isfile(path):
        yield os.path.basename(path), path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if (name in _READ_HIDDEN or not _SKIPPED_FOLDERS.fullmatch(name))
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        )
        for name in sorted(names):
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                below = os.path.relpath(full, path)
                yield below.encode("utf-8", "backslashreplace").decode(), full


def _kind_of(below: str, full: str = "") -> Kind | None:
    """The kind of a file by its name and, for one without an ending, by its first line."""
    found = next((kind for kind in KINDS if kind.names.fullmatch(below)), None)
    if found or "." in below.rsplit("/", 1)[-1] or not full:
        return found
    try:
        with open(full, "rb") as file:
            start = file.read(80).decode("utf-8", "replace")
    except OSError:
        return None
    return next(kind for kind in KINDS if kind.name == "shell") if _SHEBANG.match(start) else None


def _read_into(path: str, text: str, files: list[Source], unread: list[Unread], kind: Kind | None = None) -> None:
    """Read one file into ``files``, or say in ``unread`` why not."""
    kind = kind or _kind_of(path)
    text = text.lstrip("\ufeff")
    if kind is None or (kind.words and not kind.words.search(text)):
        return
    rows = tuple(text.split("\n"))
    try:
        document, comments = kind.read(text)
    except (ReadError, RecursionError) as error:
        if kind.name != "config":  # a template, or a format that only has the same ending
            line, reason = (
                (error.line, error.message) if isinstance(error, ReadError) else (0, "it is nested too deeply")
            )
            unread.append(Unread(path, line, reason))
        return
    files.append(Source(path, kind.name, text, document, tuple(comments), rows))
    if kind.name == "python":
        _read_script_metadata(path, text, rows, files, unread)


def _read_script_metadata(
    path: str, text: str, rows: tuple[str, ...], files: list[Source], unread: list[Unread]
) -> None:
    metadata = python_code.script_metadata(text)
    if metadata is None:
        return
    line, block = metadata
    try:
        document, comments = toml.read("\n" * (line - 1) + block)
    except ReadError as error:
        unread.append(Unread(path, error.line, error.message))
        return
    files.append(Source(path, "script-metadata", block, document, tuple(comments), rows))
