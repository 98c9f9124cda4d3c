"""Which source a release is taken from: the first that answers, and why not those before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable

from ..errors import ArmstageError
from .desired import Desired, Source
from .fetch import Progress, fetch, locate
from .probe import reach
from .publish import Store
from .record import Release
from .transport import Limits, TransportError, is_local, local_path

CONNECT = 10.0
"""Seconds to connect at most; a host that takes longer is as good as down."""


@dataclass(frozen=True)
class Skipped:
    """A source that can't be used, and why."""

    url: str
    kind: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.kind} `{self.url}`: {self.reason}"


@dataclass(frozen=True)
class Choice:
    """The source to use, None when none can be; the digest its archive has; the archive once fetched."""

    source: Source | None = None
    sha256: str = ""
    archive: Path | None = None
    skipped: tuple[Skipped, ...] = ()


Get = Callable[[Source], "tuple[str, Path | None]"]
"""Gives the digest of a source's archive, and the archive. Raises TransportError."""


def choose(desired: Desired, known: Iterable[Release]) -> Choice:
    """What a run would use, found without fetching it. Raises ArmstageError when nothing can be used."""

    def look(source: Source) -> tuple[str, Path | None]:
        if _in_cache(desired, source):
            return source.sha256, None
        limits = _limits(desired)
        where, digest = locate(source.url, source.sha256, source.sha256_url, desired.index_url, limits)
        if is_local(where) and local_path(where).is_dir():
            raise TransportError(f"Is a directory: `{local_path(where)}`")
        reach(where, limits, desired.index_url)
        return digest, None

    return _first(desired, known, look)


def obtain(desired: Desired, known: Iterable[Release], report: Callable[[str], Progress]) -> Choice:
    """The first source whose archive can be had, fetched into the root's cache and verified."""

    def get(source: Source) -> tuple[str, Path | None]:
        progress = report(f"{desired.name}, from {source.kind}")
        cache = Store(desired.root).cache
        limits = _limits(desired)
        fetched = fetch(source.url, cache, source.sha256, source.sha256_url, desired.index_url, limits, progress)
        return fetched.sha256, fetched.path

    return _first(desired, known, get)


def avoiding(desired: Desired, choice: Choice) -> Desired:
    """The same, but what a choice has passed over is not asked again in this run."""
    down = {item.url: item.reason for item in choice.skipped}
    known = {source.url: down[source.shown] for source in desired.sources if source.shown in down}
    return replace(desired, unreachable={**desired.unreachable, **known})


def require_same_digest(known: Iterable[Release], desired: Desired, source: Source, sha256: str) -> None:
    """Raise ArmstageError when this version was staged from this address with another digest before."""
    for release in known:
        before = release.source.get("sha256")
        if (release.version, release.source.get("url")) == (desired.version, source.shown) and before != sha256:
            raise ArmstageError(
                f"Expected sha256 `{before}` for {desired.name} {desired.version} from "
                f"`{source.shown}`, as staged on {release.created}, but it is `{sha256}` now",
                hint="A version's archive does not change. If this one may, remove the release first: state=absent",
            )


def _first(desired: Desired, known: Iterable[Release], get: Get) -> Choice:
    skipped: list[Skipped] = []
    for source in desired.sources:
        reason = desired.unreachable.get(source.url, "")
        if reason and not _in_cache(desired, source):
            skipped.append(Skipped(source.shown, source.kind, reason))
            continue
        try:
            sha256, archive = get(source)
        except TransportError as error:
            skipped.append(Skipped(source.shown, source.kind, error.reason, error.hint))
            continue
        require_same_digest(known, desired, source, sha256)
        return Choice(source, sha256, archive, tuple(skipped))
    if not desired.required:
        return Choice(skipped=tuple(skipped))
    raise ArmstageError(
        f"No source of {desired.name} {desired.version} can be used: {'; '.join(map(str, skipped)) or 'none is given'}",
        hint=next((item.hint for item in skipped if item.hint), HINT),
    )


HINT = "Put a mirror's copy in front of the sources, or stage from a host that reaches one of them"


def _in_cache(desired: Desired, source: Source) -> bool:
    return bool(source.sha256) and (Store(desired.root).cache / source.sha256).is_file()


def _limits(desired: Desired) -> Limits:
    return Limits(connect=min(CONNECT, desired.timeout), read=desired.timeout)
