"""What uv.lock installs on an aarch64 node: the packages that its markers lead to there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..readers.nodes import Items, Table
from .facts import CPU, index_tag
from .pep440 import Specifier
from .pep508 import AARCH64, Environment, Marker, normalize
from .source import Source

_LOCAL = ("virtual", "editable", "directory")


@dataclass(frozen=True, eq=False)
class Package:
    """One `[[package]]`: its lines are those of `name` and `version`."""

    table: Table
    name: str
    version: str
    line: int

    @property
    def registry(self) -> str:
        return str(self.table.table("source").get("registry", ""))

    @property
    def tag(self) -> str:
        """The CUDA tag of its index or its version; `cpu`; or empty."""
        local = self.version.partition("+")[2]
        return index_tag(self.registry + "/") or (local if local == CPU or local.startswith("cu") else "")

    @property
    def is_local(self) -> bool:
        return any(key in self.table.table("source") for key in _LOCAL)

    @property
    def has_sdist(self) -> bool:
        return "sdist" in self.table

    def wheels(self) -> list[tuple[int, str]]:
        """Line and file name of each wheel."""
        return [
            (line, str(_location(wheel)).rsplit("/", 1)[-1]) for line, wheel in self.table.items_of("wheels").tables()
        ]

    def aarch64_wheels(self) -> list[tuple[int, str]]:
        """Those that install on aarch64 Linux."""
        return [(line, name) for line, name in self.wheels() if _platform_fits(name)]

    def dependencies(self, extras: Iterable[str], environment: Environment) -> Iterator[Table]:
        """What it brings with it in the environment, for these extras of its own."""
        optional = self.table.table("optional-dependencies")
        for items in [self.table.items_of("dependencies"), *(optional.get(extra) for extra in extras)]:
            if isinstance(items, Items):
                yield from (table for _line, table in items.tables() if applies(table.get("marker"), environment))

    def offered(self, environment: Environment) -> Iterator[Table]:
        """What it brings with it only for an extra or a group that is asked for."""
        for key in ("optional-dependencies", "dev-dependencies"):
            for items in self.table.table(key).values():
                if isinstance(items, Items):
                    yield from (table for _line, table in items.tables() if applies(table.get("marker"), environment))


@dataclass(frozen=True)
class Lock:
    """A lock and the packages that it installs on aarch64; those of ``required`` whatever is asked for, the others
    for some extra or group."""

    source: Source
    selected: tuple[Package, ...]
    required: tuple[Package, ...]

    def package(self, name: str) -> Package | None:
        return next((package for package in self.selected if package.name == name), None)


def read(source: Source, python: str, machine: Environment = AARCH64) -> Lock:
    """The lock for a machine and this Python, or any Python where the lock is not for this one."""
    environment = dict(machine)
    if _is_for(source.document.get("requires-python"), python):
        environment.update(python_version=python, python_full_version=f"{python}.0")
    tables = source.document.items_of("package").tables()
    packages = [_package(line, table) for line, table in tables]
    roots = [package for package in packages if package.is_local]
    walk = _Walk(packages, environment)
    for package in roots or packages:
        walk.visit(package, ())
    required = set(walk.seen)
    for package in roots:
        for dependency in package.offered(environment):
            walk.follow(dependency)
    return Lock(
        source,
        tuple(package for package in packages if package in walk.seen),
        tuple(package for package in packages if package in required),
    )


class _Walk:
    """The packages that are reached, each with the extras of it that are asked for."""

    def __init__(self, packages: Iterable[Package], environment: Environment) -> None:
        self.environment = environment
        self.by_name: dict[str, list[Package]] = {}
        self.seen: dict[Package, set[str]] = {}
        for package in packages:
            self.by_name.setdefault(package.name, []).append(package)

    def visit(self, package: Package, extras: Iterable[str]) -> None:
        waiting = [(package, tuple(extras))]
        while waiting:
            package, wanted = waiting.pop()
            new = set(wanted) - self.seen.get(package, set())
            if package in self.seen and not new:
                continue
            self.seen.setdefault(package, set()).update(wanted)
            for dependency in package.dependencies(sorted(self.seen[package]), self.environment):
                waiting += self._meant(dependency)

    def follow(self, dependency: Table) -> None:
        for package, extras in self._meant(dependency):
            self.visit(package, extras)

    def _meant(self, dependency: Table) -> list[tuple[Package, tuple[str, ...]]]:
        """The packages that a dependency may mean, and the extras of them it asks for."""
        version, source = dependency.get("version"), dependency.get("source")
        extras = tuple(str(extra) for extra in dependency.items_of("extra"))
        found = []
        for package in self.by_name.get(normalize(str(dependency.get("name", ""))), []):
            markers = package.table.items_of("resolution-markers")
            here = not markers or any(applies(marker, self.environment) for marker in markers)
            if here and version in (None, package.version) and source in (None, package.table.get("source")):
                found.append((package, extras))
        return found


def applies(marker: Any, environment: Environment = AARCH64) -> bool:
    """Whether what carries this marker may be installed there; a marker that can't be read may."""
    try:
        return not isinstance(marker, str) or Marker.parse(marker).holds(environment) is not False
    except ValueError:
        return True


def _is_for(required: Any, python: str) -> bool:
    try:
        return isinstance(required, str) and Specifier.parse(required).admits(f"{python}.0")
    except ValueError:
        return False


def _package(line: int, table: Table) -> Package:
    name, version = normalize(str(table.get("name", ""))), str(table.get("version", ""))
    return Package(table, name, version, table.lines.get("version", line))


def _location(wheel: Table) -> Any:
    return wheel.get("url") or wheel.get("path") or wheel.get("filename") or ""


def _platform_fits(file_name: str) -> bool:
    platform = file_name[: -len(".whl")].rsplit("-", 1)[-1] if file_name.endswith(".whl") else ""
    return any(
        tag == "any" or (tag.endswith("aarch64") and tag.startswith(("manylinux", "musllinux", "linux")))
        for tag in platform.split(".")
    )
