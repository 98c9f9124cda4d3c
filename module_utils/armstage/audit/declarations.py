"""What a project asks for: its requirements, the indexes it names and the sources it binds packages to.

They are declared in files, and installed by scripts: both come out in the same form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..readers.nodes import Items, Table
from .facts import index_tag
from .pep440 import Specifier
from .pep508 import AARCH64, Marker, Requirement, normalize
from .readers import python_code, requirements
from .readers.requirements import Entry
from .scripts import Call, ShellScript
from .source import Source

PROJECT = "project"
"""Requirements that are installed: dependencies, extras, groups, requirements files."""
BOUNDS = "bounds"
"""Requirements that only limit others: constraints and overrides."""
BUILD = "build"
INSTALL = "install"
"""Requirements that a script installs: the newest version that fits, and nothing else keeps to them."""

_PYPROJECT_LISTS = (
    (("project", "dependencies"), PROJECT),
    (("build-system", "requires"), BUILD),
    (("tool", "uv", "dev-dependencies"), PROJECT),
    (("tool", "uv", "override-dependencies"), BOUNDS),
    (("tool", "uv", "constraint-dependencies"), BOUNDS),
    (("dependencies",), PROJECT),  # of a `# /// script` block
)
_PYPROJECT_TABLES = (("project", "optional-dependencies"), ("dependency-groups",))
_INDEX_OPTIONS = [
    "-i",
    "--index-url",
    "--extra-index-url",
    "--index",
    "--default-index",
    "-f",
    "--find-links",
    "--pypi-url",
]
_INSTALLERS = (
    (("pip", "pip3"), ("install",)),
    (("python", "python3"), ("-m", "pip", "install")),
    (("uv",), ("pip", "install")),
    (("uv",), ("add",)),
)
_VALUE_OPTIONS = (
    *_INDEX_OPTIONS,
    *["-r", "--requirement", "-c", "--constraint", "-t", "--target", "--prefix", "-p", "--python"],
)
_INDEX_VARIABLES = [
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
]


@dataclass(frozen=True)
class Declared:
    """A requirement where it is written; those of one ``group`` stand in one list. ``call`` is the command that
    installs it, in a script."""

    source: Source
    line: int
    requirement: Requirement
    purpose: str
    group: int = 0
    call: Call | None = None


@dataclass(frozen=True)
class Index:
    """An index where it is written. An ``explicit`` one serves only the packages bound to it by ``name``; the one
    of a ``call`` only what that command installs."""

    source: Source
    line: int
    url: str
    tag: str
    name: str = ""
    explicit: bool = False
    call: Call | None = None


@dataclass(frozen=True)
class Binding:
    """One entry of `[tool.uv.sources]`: package -> index by name, or URL, for where the marker holds.
    A ``chosen`` one holds only for an extra or a group that is asked for."""

    source: Source
    line: int
    package: str
    index: str
    url: str
    marker: Marker | None
    chosen: bool

    @property
    def on_aarch64(self) -> bool:
        return self.marker is None or self.marker.holds(AARCH64) is not False


@dataclass
class Declarations:
    """All of it, in the order of the files."""

    requirements: list[Declared] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    workspaces: list[Source] = field(default_factory=list)

    def of(self, *packages: str) -> Iterator[Declared]:
        return (declared for declared in self.requirements if declared.requirement.name in packages)

    def bound(self, package: str, source: Source) -> list[Binding]:
        """The bindings of a package in the same file."""
        return [binding for binding in self.bindings if binding.package == package and binding.source is source]

    def index_for(self, declared: Declared) -> Index | None:
        """The index that aarch64 gets the package from; None where it gets it from PyPI."""
        if declared.call:
            return next((index for index in self.indexes if index.call is declared.call), None)
        for source in self.settings_of(declared.source):
            named = {index.name: index for index in self.indexes if index.source is source and index.name}
            for binding in self.bound(declared.requirement.name, source):
                if binding.on_aarch64 and binding.index in named:
                    return named[binding.index]
            for index in self.indexes:
                if index.source is source and index.tag and not index.explicit and not index.call:
                    return index
        return None

    def settings_of(self, source: Source) -> list[Source]:
        """The files whose indexes and sources hold for it: itself, and the roots of the uv workspaces above it."""
        if source.kind != "pyproject":
            return [source]
        return [source, *(root for root in self.workspaces if root is not source and is_below(source, root))]

    def bounds(self, declared: Declared) -> Specifier:
        """Every condition that its file, or its command, puts on the package where aarch64 is concerned."""
        others = (other for other in self.of(declared.requirement.name) if other.source is declared.source)
        clauses = [
            clause
            for other in others
            if other.call is declared.call and other.purpose != BUILD and other.requirement.applies_to(AARCH64)
            for clause in other.requirement.specifier.clauses
        ]
        return Specifier(tuple(clauses))

    def bounds_in(self, source: Source, package: str = "torch") -> Specifier:
        """The conditions on the package in a file."""
        here = (declared for declared in self.of(package) if declared.source is source and not declared.call)
        first = next(here, None)
        return self.bounds(first) if first else Specifier()


def is_below(source: Source, root: Source) -> bool:
    """Whether a file lies in the folder of the other, or below it."""
    folder = root.path.rpartition("/")[0]
    return not folder or source.path.startswith(folder + "/")


def collect(files: Iterable[Source], scripts: Iterable[ShellScript] = ()) -> Declarations:
    found = Declarations()
    for source in files:
        _COLLECTORS.get(source.kind, _nothing)(source, found)
    for script in scripts:
        _installed(script, found)
    return found


def _nothing(source: Source, found: Declarations) -> None:
    """A file of another kind declares nothing."""


def _add(found: Declarations, source: Source, line: int, text: Any, purpose: str, group: int = 0) -> None:
    """Keep a requirement; what is none is the concern of the tool that reads it."""
    try:
        requirement = Requirement.parse(text) if isinstance(text, str) else None
    except ValueError:
        return
    if requirement:
        found.requirements.append(Declared(source, line, requirement, purpose, group))


def _add_items(found: Declarations, source: Source, items: Items, purpose: str) -> None:
    for line, text in items.pairs():
        _add(found, source, line, text, purpose, id(items))


# pyproject.toml, and the metadata of a script


def _pyproject(source: Source, found: Declarations) -> None:
    document: Table = source.document
    for keys, purpose in _PYPROJECT_LISTS:
        _add_items(found, source, document.items_of(*keys), purpose)
    for keys in _PYPROJECT_TABLES:
        for items in document.table(*keys).values():
            if isinstance(items, Items):
                _add_items(found, source, items, PROJECT)
    for line, index in document.items_of("tool", "uv", "index").tables():
        url = str(index.get("url", ""))
        line = index.lines.get("url", line)
        found.indexes.append(
            Index(source, line, url, index_tag(url), str(index.get("name", "")), bool(index.get("explicit")))
        )
    _flat_indexes(source, document.table("tool", "uv"), found)
    _flat_indexes(source, document.table("tool", "uv", "pip"), found)
    for package, entry in document.table("tool", "uv", "sources").items():
        line = document.table("tool", "uv", "sources").lines[package]
        entries = entry.tables() if isinstance(entry, Items) else [(line, entry)]
        for line, table in entries:
            if isinstance(table, Table):
                _binding(source, line, package, table, found)
    _poetry(source, document.table("tool", "poetry"), found)
    if "workspace" in document.table("tool", "uv"):
        found.workspaces.append(source)


def _flat_indexes(source: Source, table: Table, found: Declarations) -> None:
    for key in ("index-url", "extra-index-url", "find-links"):
        value = table.get(key)
        pairs = value.pairs() if isinstance(value, Items) else [(table.lines.get(key, 1), value)]
        for line, url in pairs:
            if isinstance(url, str):
                found.indexes.append(Index(source, line, url, index_tag(url)))


def _binding(source: Source, line: int, package: str, table: Table, found: Declarations) -> None:
    try:
        marker = Marker.parse(table["marker"]) if isinstance(table.get("marker"), str) else None
    except ValueError:
        marker = None
    index, url = str(table.get("index", "")), str(table.get("url", ""))
    chosen = "extra" in table or "group" in table
    found.bindings.append(Binding(source, line, normalize(package), index, url, marker, chosen))


def _poetry(source: Source, poetry: Table, found: Declarations) -> None:
    groups = [poetry.table("group", name, "dependencies") for name in poetry.table("group")]
    used = set()
    for table in (poetry.table("dependencies"), poetry.table("dev-dependencies"), *groups):
        for name, value in table.items():
            text = _poetry_requirement(name, value)
            if text:
                _add(found, source, table.lines[name], text, PROJECT, id(table))
            if isinstance(value, Table):
                used.add(value.get("source"))
    for line, index in poetry.items_of("source").tables():
        url, name = str(index.get("url", "")), str(index.get("name", ""))
        explicit = index.get("priority") == "explicit" and name not in used
        found.indexes.append(Index(source, index.lines.get("url", line), url, index_tag(url), name, explicit))


def _poetry_requirement(name: str, value: Any) -> str:
    """The requirement that Poetry's own form stands for; empty for what has no version (a path, git)."""
    table = value if isinstance(value, Table) else None
    version = table.get("version") if table is not None else value
    if not isinstance(version, str) or name == "python":
        return ""
    conditions = ",".join(_poetry_condition(part.strip()) for part in version.split(",") if part.strip() != "*")
    marker = table.get("markers") if table is not None else None
    return name + conditions + (f"; {marker}" if isinstance(marker, str) else "")


def _poetry_condition(text: str) -> str:
    """`^2.1` is `>=2.1,<3`, `~2.1` is `>=2.1,<2.2`, and a bare version is that version."""
    match = re.fullmatch(r"([\^~]?)(\d+(?:\.\d+)*)(\.\*)?", text)
    if match is None:
        return text
    caret, version, wildcard = match.groups()
    if not caret:
        return f"=={version}{wildcard or ''}"
    numbers = [int(number) for number in version.split(".")]
    position = (
        min(1, len(numbers) - 1)
        if caret == "~"
        else next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)
    )
    upper = [*numbers[:position], numbers[position] + 1]
    return f">={version},<{'.'.join(str(number) for number in upper)}"


# The other files


def _requirements(source: Source, found: Declarations) -> None:
    purpose = BOUNDS if "constraint" in source.path.rsplit("/", 1)[-1] else PROJECT
    _entries(source, source.document, purpose, found)


def _entries(source: Source, entries: Iterable[Entry], purpose: str, found: Declarations) -> None:
    for entry in entries:
        if entry.requirement:
            found.requirements.append(Declared(source, entry.line, entry.requirement, purpose))
        elif entry.option in _INDEX_OPTIONS:
            found.indexes.append(Index(source, entry.line, entry.value, index_tag(entry.value)))


def _setup_cfg(source: Source, found: Declarations) -> None:
    document: Table = source.document
    options = document.table("options")
    for key, purpose in (("install_requires", PROJECT), ("tests_require", PROJECT), ("setup_requires", BUILD)):
        _add_items(found, source, options.items_of(key), purpose)
    for items in document.table("options.extras_require").values():
        _add_items(found, source, items, PROJECT)


def _setup_py(source: Source, found: Declarations) -> None:
    """Every list of strings: setup.py may build its lists in any way, and only requirements parse as such."""
    for group, line, text in python_code.listed_strings(source.document):
        _add(found, source, line, text, PROJECT, group)


def _environment(source: Source, found: Declarations) -> None:
    for document in source.document:
        if not isinstance(document, Table):
            continue
        for _line, table in document.items_of("dependencies").tables():
            for line, text in table.items_of("pip").pairs():
                entry = requirements.parse(text, line) if isinstance(text, str) else None
                _entries(source, [entry] if entry else [], PROJECT, found)


# Scripts


def _installed(script: ShellScript, found: Declarations) -> None:
    variables: dict[str, str] = {}
    for call in script.calls:
        given = {assignment.name: assignment.value.text.strip("\"'") for assignment in call.assignments}
        if call.program in ("", "export"):
            variables.update(given)
        position = _install_words(call)
        if position is None:
            continue
        for line, url in _named_indexes(call, {**variables, **given}):
            found.indexes.append(Index(call.source, line, url, index_tag(url), call=call))
        skip = False
        for word, text in zip(call.arguments[position:], call.texts[position:]):
            if text.startswith("-") or skip or word.literal is None:
                skip = text in _VALUE_OPTIONS
                continue
            entry = requirements.parse(text, word.line)
            if entry and entry.requirement:
                found.requirements.append(Declared(call.source, word.line, entry.requirement, INSTALL, call=call))


def _install_words(call: Call) -> int | None:
    """Where the requirements of `pip install`, `python -m pip install`, `uv pip install` or `uv add` begin."""
    texts = call.texts
    for program, words in _INSTALLERS:
        if call.program in program and texts[: len(words)] == list(words):
            return len(words)
    return None


def _named_indexes(call: Call, variables: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Line and address of each index that the command, or the environment it runs in, names; a torch backend is
    the index that it stands for."""
    for option in _INDEX_OPTIONS:
        value = call.value(option)
        if value:
            yield value
    backend = call.value("--torch-backend") or (call.line, variables.get("UV_TORCH_BACKEND", ""))
    if backend[1]:
        yield backend[0], f"/whl/{backend[1]}"
    for name in _INDEX_VARIABLES:
        if name in variables:
            yield call.line, variables[name]


_COLLECTORS = {
    "pyproject": _pyproject,
    "script-metadata": _pyproject,
    "requirements": _requirements,
    "setup.cfg": _setup_cfg,
    "setup.py": _setup_py,
    "environment": _environment,
}
