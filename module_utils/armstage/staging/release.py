"""One component of a root: what is there, what a run would change, and changing it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..elf.reader import find_elf
from ..errors import ArmstageError
from ..files import point_link
from .adapt import link_plain_sonames, replace_texts
from .desired import Desired
from .folders import make_folder, require_room, require_writable, standing
from .in_use import not_open
from .progress import Reporter
from .publish import Store, in_real_folder, relative_target
from .record import Release, read_manifest, read_release
from .sourcing import Choice, avoiding, choose, obtain, require_same_digest
from .space import full, require_space
from .survey import what_is_wrong
from .unpack import unpack


@dataclass(frozen=True)
class Observed:
    """What the root holds of a component.

    ``current`` is the release asked for, intact and made the way asked for; ``unfit`` maps those of
    its version that are not to the reason; ``intact`` says that one is at least undamaged; ``old``
    may go; ``links`` says where the links of the task point now, None where there is none;
    ``listed`` says that manifest.json agrees; ``leftovers`` are folders that killed runs left.
    """

    releases: tuple[Release, ...] = ()
    current: Release | None = None
    unfit: Mapping[Path, str] = field(default_factory=dict)
    intact: bool = False
    old: tuple[Release, ...] = ()
    links: Mapping[str, str | None] = field(default_factory=dict)
    listed: bool = True
    leftovers: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What has to change, in this order: ``sweep`` leftovers, publish ``final``, point ``links`` (None: remove),
    ``remove``, and bring the ``manifest`` up to date."""

    sweep: tuple[Path, ...] = ()
    final: Path | None = None
    publish: bool = False
    links: Mapping[str, str | None] = field(default_factory=dict)
    remove: tuple[Release, ...] = ()
    manifest: bool = False

    @property
    def changes(self) -> bool:
        return bool(self.sweep or self.publish or self.links or self.remove or self.manifest)


@dataclass(frozen=True)
class Done:
    """A run, or what one would be: what was found, which source was used, what changed, what is there."""

    observed: Observed
    choice: Choice
    plan: Plan
    release: Release | None = None


def observe(desired: Desired) -> Observed:
    """Read the root: no write, no lock, no request. Raises ArmstageError for what stands in the way."""
    observed = _observe_present(desired) if desired.present else _observe_absent(desired)
    return replace(observed, leftovers=tuple(Store(desired.root).leftovers()))


def _observe_present(desired: Desired) -> Observed:
    store = Store(desired.root)
    releases = tuple(store.releases(desired.name))
    candidates = [
        (source, release)
        for source in desired.sources
        for release in releases
        if release.version == desired.version and source.made(release)
    ]
    for source in filter(lambda source: source.sha256, desired.sources):
        require_same_digest(releases, desired, source, source.sha256)
    links = {link: _read_link(desired.root / link) for link in desired.links}
    damaged = {path_of(release): what_is_wrong(release) for _source, release in candidates}
    unfit = {where: why for where, why in damaged.items() if why}
    for source, release in candidates:
        if release.extra.get("recipe") != desired.recipe(source):
            unfit.setdefault(path_of(release), f"`{path_of(release)}` was made with other options")
    current = _preferred(desired, [release for _source, release in candidates if path_of(release) not in unfit])
    spare = store.unneeded(desired.name, [path_of(current)] if current else [], moved=desired.links)
    broken = [release for release in spare if path_of(release) in unfit]
    others = [release for release in spare if path_of(release) not in unfit]
    return Observed(
        releases=releases,
        current=current,
        unfit=unfit,
        intact=not all(damaged.values()),
        old=tuple(not_open(store.store, broken + others[desired.keep :])),
        links=links,
        listed=current is None or _is_listed(desired, current),
    )


def _observe_absent(desired: Desired) -> Observed:
    store = Store(desired.root)
    releases = tuple(store.releases(desired.name))
    old = tuple(release for release in releases if release.version == desired.version)
    users = store.users()
    named: set[str] = set()
    for release in old:
        named |= users.get(os.path.realpath(path_of(release)), set())
    others = sorted(named - set(desired.links))
    if others:
        raise ArmstageError(
            f"{desired.name} {desired.version} is in use: the link `{desired.root / others[0]}` names it",
            hint=f"Point `{others[0]}` elsewhere first, or list it under `links`",
        )
    idle = not_open(store.store, list(old))
    busy = [release for release in old if release not in idle]
    if busy:
        raise ArmstageError(
            f"{desired.name} {desired.version} is in use: a process of this host has files of it open",
            hint=f"See which: lsof +D {path_of(busy[0])}",
        )
    return Observed(releases, old=old, links={link: _read_link(desired.root / link) for link in sorted(named)})


def _preferred(desired: Desired, fit: list[Release]) -> Release | None:
    """The one that a link of the task names already; else that of the first source."""
    named = [os.path.realpath(desired.root / link) + os.sep for link in desired.links]
    for release in fit:
        inside = os.path.realpath(path_of(release)) + os.sep
        if any(name.startswith(inside) for name in named):
            return release
    return fit[0] if fit else None


def _read_link(link: Path) -> str | None:
    require_room(link)
    if link.is_symlink():
        return os.readlink(link)
    if link.exists():
        raise ArmstageError(
            f"Expected a symbolic link or nothing at `{link}`, but found a file or folder",
            hint=f"Move it away, then run again: mv {link} {link}.before-armstage",
        )
    return None


def _is_listed(desired: Desired, release: Release) -> bool:
    manifest = read_manifest(desired.root)
    entry = {**release.record(), "path": os.path.relpath(path_of(release), os.path.abspath(desired.root))}
    links = manifest.get("links", {})
    return entry in manifest.get("releases", []) and all(
        links.get(link) == target for link, target in _targets(desired, path_of(release)).items()
    )


def _targets(desired: Desired, final: Path) -> dict[str, str]:
    """Where each link has to point, relative to the folder that it really lies in."""
    targets = {}
    for link, inside in desired.links.items():
        real = in_real_folder(desired.root / link)
        targets[link] = relative_target(real, os.path.join(in_real_folder(final), inside))
    return targets


def make_plan(desired: Desired, observed: Observed, choice: Choice) -> Plan:
    """What has to change. Pure but for links among the folders above a link."""
    if not desired.present:
        return Plan(observed.leftovers, links=dict.fromkeys(observed.links), remove=observed.old)
    if observed.current is not None:
        final = path_of(observed.current)
    elif choice.source is not None:
        final = Store(desired.root).release_path(desired.name, desired.version, choice.sha256)
    else:
        return Plan(observed.leftovers)
    targets = _targets(desired, final)
    plan = Plan(
        observed.leftovers,
        final,
        publish=observed.current is None,
        links={link: target for link, target in targets.items() if observed.links[link] != target},
        remove=tuple(release for release in observed.old if path_of(release) != final),
    )
    # manifest.json follows every change; here it is the change.
    return plan if plan.changes else replace(plan, manifest=not observed.listed)


def predict(desired: Desired) -> Done:
    """What ``act`` would do: nothing is written, and sources are asked only where one is needed."""
    with _plain_errors(desired):
        observed = observe(desired)
        needed = desired.present and observed.current is None
        choice = choose(desired, observed.releases) if needed else Choice()
        plan = make_plan(desired, observed, choice)
        if plan.changes:
            store = Store(desired.root)
            caches = [store.cache] if plan.publish else []
            require_writable([store.root, store.store, *caches, *((desired.root / link).parent for link in plan.links)])
        if plan.publish:
            require_space(standing(store.store), 0, f"to stage {desired.name}")
        return Done(observed, choice, plan, observed.current)


def act(desired: Desired, predicted: Done, report: Reporter) -> Done:
    """Make it so, under the lock; what another run has done meanwhile is seen and used."""
    store = Store(desired.root)
    with _plain_errors(desired), store.lock(on_wait=report.say):  # which sweeps
        done = _act(avoiding(desired, predicted.choice), store, report)
        return replace(done, plan=replace(done.plan, sweep=predicted.plan.sweep))


@contextlib.contextmanager
def _plain_errors(desired: Desired) -> Iterator[None]:
    """An error of the filesystem, said in this component's words."""
    try:
        yield
    except OSError as error:
        raise full(error, desired.root, f"while {desired.name} was staged") or ArmstageError(
            f"Failed to stage {desired.name} {desired.version}: {error.strerror or error}: `{error.filename}`",
            hint=f"Nothing half-done was published. Look at the folder: ls -ld {desired.root}",
        ) from error


def _act(desired: Desired, store: Store, report: Reporter) -> Done:
    observed = observe(desired)
    started = time.monotonic()
    release, choice = observed.current, Choice()
    if desired.present and release is None:
        make_folder(store.cache)
        choice = obtain(desired, observed.releases, report.step)
    plan = make_plan(desired, observed, choice)
    if plan.publish:
        release = _publish(desired, store, choice, report, started)
    for link, target in plan.links.items():
        if target is None:
            (desired.root / link).unlink()
            continue
        make_folder((desired.root / link).parent)
        point_link(desired.root / link, target)
    for old in plan.remove:
        store.remove(old)
    return Done(observed, choice, plan, release)


def _publish(desired: Desired, store: Store, choice: Choice, report: Reporter, started: float) -> Release:
    source, archive = choice.source, choice.archive
    assert source is not None
    assert archive is not None
    shown = source.shown
    places = {
        "release": str(store.release_path(desired.name, desired.version, choice.sha256)),
        "root": str(store.root),
        "link": str(store.root / next(iter(desired.links), "")),
    }
    with store.begin(desired.name) as partial:
        unpack(archive, partial, source.layout, shown, report.step(f"{desired.name}, unpacking"))
        if source.plain_sonames:
            link_plain_sonames(partial)
        replace_texts(partial, desired.edits, places)
        _require_targets(desired, partial, shown)
        release = Release(
            name=desired.name,
            version=desired.version,
            digest=choice.sha256,
            source={"kind": source.kind, "url": shown, "sha256": choice.sha256},
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            run=desired.run,
            elf=count_machines(partial, desired.elf_machine, shown),
            extra={"recipe": desired.recipe(source)},
        )
        release = replace(release, seconds=round(time.monotonic() - started, 1))
        published = read_release(store.publish(partial, release))
    assert published is not None
    return published


def _require_targets(desired: Desired, partial: Path, shown: str) -> None:
    for link, inside in desired.links.items():
        if not (partial / inside).exists():
            held = ", ".join(f"`{name}`" for name in sorted(os.listdir(partial))[:8])
            raise ArmstageError(
                f"Expected `{inside}` in `{shown}` for the link `{link}`, but found {held}",
                hint="Correct link_target, or strip_components and select of this source",
            )


def count_machines(folder: Path, wanted: str, shown: str) -> dict[str, int]:
    """The ELF files of a folder by machine. Raises ArmstageError for one that is not for ``wanted``."""
    counts: dict[str, int] = {}
    try:
        found = list(find_elf(str(folder)))
    except ArmstageError as error:
        said = error.message.replace(f"{folder}{os.sep}", "")
        raise ArmstageError(
            f"Expected whole files in `{shown}`, but {said}",
            hint="Nothing was published: the archive itself holds it like this, so choose another",
        ) from error
    for file, machine in found:
        if wanted and machine != wanted:
            raise ArmstageError(
                f"Expected {wanted} in `{shown}`, but `{os.path.relpath(file, folder)}` is for {machine}",
                hint="Nothing was published: choose the archive that is built for the nodes",
            )
        counts[machine] = counts.get(machine, 0) + 1
    return counts


def path_of(release: Release) -> Path:
    """Where a release that was read lies."""
    assert release.path is not None
    return release.path
