"""One Python environment of a root: what is there, what a run would change, and changing it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import ArmstageError
from ..files import point_link
from ..wheels import installed
from .assemble import Assembled, assemble, compiler
from .environment import Desired, Source
from .folders import make_folder, require_room, require_writable
from .in_use import not_open
from .progress import Reporter
from .publish import Store, in_real_folder, relative_target
from .record import Release, read_manifest, read_release
from .space import full
from .survey import what_is_wrong
from .transport import is_local, local_path
from .uv import Uv
from .uv_errors import UvError
from .venv import site_packages


@dataclass(frozen=True)
class Observed:
    """What the root holds of an environment.

    ``target`` is what the link says, None without one. ``current`` is the intact release made from what
    is wanted. ``drift`` says why the one that the link names is not it, though it was made from that.
    ``finals`` holds for each source where its release would be published. ``old`` may go.
    """

    target: str | None = None
    releases: tuple[Release, ...] = ()
    current: Release | None = None
    drift: str = ""
    finals: tuple[Release, ...] = ()
    old: tuple[Release, ...] = ()
    listed: bool = True


@dataclass(frozen=True)
class Plan:
    """What has to change, in this order: publish ``final`` from ``source``, have the link say ``target``
    (None: be gone), ``remove``, and bring the manifest up to date."""

    final: Path | None = None
    source: Source | None = None
    target: str | None = None
    relink: bool = False
    remove: tuple[Release, ...] = ()
    manifest: bool = False

    @property
    def changes(self) -> bool:
        return bool(self.source or self.relink or self.remove or self.manifest)


@dataclass(frozen=True)
class Done:
    """What a run did; ``skipped`` are the sources before the one that served."""

    observed: Observed
    plan: Plan
    release: Release | None = None
    skipped: tuple[Source, ...] = ()


class LiveReporter(Reporter):
    """A Reporter for a step whose label changes while it is going on."""

    def tell(self, label: str, done: int, total: int) -> None:
        """Write now; ``total`` is 0 where it is not known."""
        if self._path:
            self._write(f"{done} {total or '-'} {label}\n")


def observe(desired: Desired) -> Observed:
    """Read the root; writes nothing and asks nobody. Raises ArmstageError for what stands in the way."""
    store = Store(desired.root)
    target = _read_link(store.root / desired.link)
    releases = tuple(store.releases(desired.name))
    if not desired.present:
        _require_unused(desired, store, releases)
        return Observed(target, releases)
    current, drift = _fitting(desired, releases, os.path.realpath(store.root / desired.link))
    spare = store.unneeded(desired.name, [path_of(current)] if current else [], moved=[desired.link])
    return Observed(
        target=target,
        releases=releases,
        current=current,
        drift=drift,
        finals=() if current else tuple(_new_release(store, desired, source) for source in desired.sources),
        old=tuple(not_open(store.store, spare[desired.keep :])),
        listed=current is None or _is_listed(store, current, {desired.link: target}),
    )


def _is_listed(store: Store, release: Release, links: dict[str, str | None]) -> bool:
    """Whether manifest.json holds a release and says of the links what they say."""
    known = read_manifest(store.root)
    entry = {**release.record(), "path": os.path.relpath(path_of(release), store.root)}
    return entry in known.get("releases", ()) and links.items() <= known.get("links", {}).items()


def _require_unused(desired: Desired, store: Store, releases: tuple[Release, ...]) -> None:
    """Raise ArmstageError where a running process would lose the environment that is to go."""
    busy = [release for release in releases if release not in not_open(store.store, list(releases))]
    if busy:
        raise ArmstageError(
            f"The environment `{desired.tag}` is in use: a process of this host has files of it open",
            hint=f"See which: lsof +D {path_of(busy[0])}",
        )


def _read_link(link: Path) -> str | None:
    require_room(link)
    if link.exists() and not link.is_symlink():
        raise ArmstageError(
            f"Expected a symbolic link or nothing at `{link}`, but found a file or folder",
            hint=f"Move it away, then run again: mv {link} {link}.before-armstage",
        )
    return os.readlink(link) if link.is_symlink() else None


def _fitting(desired: Desired, releases: tuple[Release, ...], linked: str) -> tuple[Release | None, str]:
    """The intact release made from what is wanted, and what is wrong with the one in use if it was, too.

    One that any of the sources made will do: a source that is back again is no reason to stage anew.
    """
    wanted = {desired.identity(source) for source in desired.sources}
    made = [release for release in releases if release.extra.get("identity") in wanted]
    made.sort(key=lambda release: os.path.realpath(path_of(release)) != linked)
    drift = ""
    for release in made:
        wrong = drift_of(release, desired)
        if not wrong:
            return release, drift
        if os.path.realpath(path_of(release)) == linked:
            drift = wrong
    return None, drift


def drift_of(release: Release, desired: Desired) -> str:
    """How an environment differs from what was published, or an empty string."""
    try:
        packages = installed(str(site_packages(path_of(release), desired.python)))
    except ArmstageError as error:
        return error.message
    found = {name: package.version for name, package in packages.items()}
    return differences(release.extra.get("installed", {}), found) or what_is_wrong(release)


def differences(recorded: dict[str, str], found: dict[str, str]) -> str:
    """`torch was 2.11.0 and is 2.10.0; tqdm was absent and is 4.67.1`, or an empty string. Pure."""
    return "; ".join(
        f"{name} was {recorded.get(name, 'absent')} and is {found.get(name, 'absent')}"
        for name in sorted(recorded.keys() | found.keys())
        if recorded.get(name) != found.get(name)
    )


def _new_release(store: Store, desired: Desired, source: Source) -> Release:
    """The release that a source would make, as far as it is known before. Its digest is of what it is made
    from, and of each release whose place it can't take: what is in use is rebuilt beside."""
    identity = digest = desired.identity(source)
    version = desired.version(source)
    while (taken := read_release(store.release_path(desired.name, version, digest))) is not None:
        digest = hashlib.sha256(f"{digest} {taken.created}".encode()).hexdigest()
    return Release(
        name=desired.name,
        version=version,
        digest=digest,
        source={"kind": source.kind, "url": desired.places(source).address},
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        run=desired.run,
        extra={
            "identity": identity,
            "tag": desired.tag,
            "python": desired.python.path,
            "python_version": desired.python.version,
            "platform": desired.platform,
        },
        path=store.release_path(desired.name, version, digest),
    )


def make_plan(desired: Desired, observed: Observed, source: Source | None = None) -> Plan:
    """What has to change, staging from ``source`` or else from the first that can be used. Pure.

    Raises ArmstageError when none can.
    """
    if not desired.present:
        return Plan(relink=observed.target is not None, remove=observed.releases)
    if observed.current is not None:
        final, source = path_of(observed.current), None
    else:
        source = source or next((source for source in desired.sources if not source.unusable), None)
        if source is None:
            raise _no_source(desired, desired.sources)
        final = path_of(observed.finals[desired.sources.index(source)])
    link = Store(desired.root).root / desired.link
    target = relative_target(in_real_folder(link), in_real_folder(final))
    return Plan(
        final=final,
        source=source,
        target=target,
        relink=observed.target != target,
        remove=observed.old,
        manifest=not observed.listed,
    )


def unused(desired: Desired, plan: Plan) -> tuple[Source, ...]:
    """The sources that a plan passes over."""
    if plan.source is None:
        return ()
    return tuple(source for source in desired.sources[: desired.sources.index(plan.source)] if source.unusable)


def predict(desired: Desired) -> Done:
    """What ``act`` would do: nothing is written, and nobody is asked."""
    with _plain_errors(desired):
        observed = observe(desired)
        plan = make_plan(desired, observed)
        if plan.changes:
            store = Store(desired.root)
            require_writable([store.root, store.store, (store.root / desired.link).parent])
        if plan.source is not None:
            _require_places([*filter(None, [desired.mirror]), *desired.find_links])
        return Done(observed, plan, observed.current, unused(desired, plan))


def _require_places(places: Iterable[str]) -> None:
    """Raise ArmstageError, as uv would have it, for a folder or page of wheels on this host that is not there."""
    for place in places:
        if is_local(place) and not os.path.exists(local_path(place)):
            raise ArmstageError(
                f"The folder of wheels `{place}` can't be read", hint="Correct `mirror` or `find_links`"
            )


def act(desired: Desired, report: LiveReporter) -> Done:
    """Make it so, under the lock: what another run has done meanwhile is seen and used."""
    store = Store(desired.root)
    with _plain_errors(desired), store.lock(wait=max(desired.timeout, 60.0), on_wait=report.say):
        observed = observe(desired)
        plan = make_plan(desired, observed)
        release, skipped = observed.current, unused(desired, plan)
        if plan.source is not None:
            release, source, skipped = _stage_from_first(desired, observed, store, report)
            plan = make_plan(desired, observed, source)
        _move_link(store.root / desired.link, plan)
        for old in plan.remove:
            store.remove(old)
    return Done(observed, plan, release, skipped)


@contextlib.contextmanager
def _plain_errors(desired: Desired) -> Iterator[None]:
    """An error of the filesystem, said in this environment's words."""
    try:
        yield
    except OSError as error:
        raise full(error, desired.root, f"while {desired.name} was staged") or ArmstageError(
            f"Failed to stage {desired.name}: {error.strerror or error}: `{error.filename}`",
            hint=f"Nothing half-done was published. Look at the folder: ls -ld {desired.root}",
        ) from error


def _move_link(link: Path, plan: Plan) -> None:
    if plan.target is not None and plan.relink:
        make_folder(link.parent)
        point_link(link, plan.target)
    elif plan.relink:
        link.unlink()


def _stage_from_first(
    desired: Desired, observed: Observed, store: Store, report: LiveReporter
) -> tuple[Release, Source, tuple[Source, ...]]:
    """The environment from the first source that can be reached, that source, and those before it."""
    skipped: list[Source] = []
    for source, release in zip(desired.sources, observed.finals):
        if source.unusable:
            skipped.append(source)
            continue
        try:
            return _stage(desired, source, release, store, report), source, tuple(skipped)
        except UvError as error:
            if not error.unreachable or source is desired.sources[-1]:
                raise
            skipped.append(dataclasses.replace(source, unusable=error.message))
    raise _no_source(desired, skipped)


def _stage(desired: Desired, source: Source, release: Release, store: Store, report: LiveReporter) -> Release:
    started = time.monotonic()
    with store.begin(desired.name) as partial:
        made = assemble(
            partial,
            _uv(desired, source, report),
            desired.python,
            desired.tag,
            desired.machine,
            desired.requirements,
            desired.constraints,
            source.lock,
        )
        published = store.publish(partial, _described(release, made, time.monotonic() - started))
    staged = read_release(published)
    assert staged is not None
    return staged


def _uv(desired: Desired, source: Source, report: LiveReporter) -> Uv:
    def progress(written: int, doing: str) -> None:
        report.tell(f"{desired.name}, {doing}", written, desired.expected_size)

    return Uv(
        path=desired.uv,
        platform=desired.platform,
        python_version=desired.python.minor,
        places=desired.places(source),
        cache_dir=desired.cache_dir,
        offline=desired.offline,
        timeout=desired.timeout,
        compile_with=compiler(desired.compile_python, desired.python.minor),
        progress=progress,
    )


def _described(release: Release, made: Assembled, seconds: float) -> Release:
    """The release with what only its making could tell."""
    return dataclasses.replace(
        release,
        seconds=round(seconds, 1),
        source={**release.source, "sha256": made.lock_sha256},
        elf=made.elf,
        extra={
            **release.extra,
            "installed": made.installed,
            "unhashed": list(made.unhashed),
            "origins": made.origins,
            "builds": made.builds,
            "library_dirs": made.library_dirs,
        },
    )


def _no_source(desired: Desired, sources: tuple[Source, ...] | list[Source]) -> ArmstageError:
    reasons = "; ".join(f"{source}: {source.unusable}" for source in sources)
    return ArmstageError(
        f"No source of the environment `{desired.tag}` can be used: {reasons}",
        hint="Stage from a `mirror` or a host that reaches one of them, or from uv's cache with `offline`",
    )


def path_of(release: Release) -> Path:
    """Where a release that was read, or is to be made, lies."""
    assert release.path is not None
    return release.path
