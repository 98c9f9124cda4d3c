"""The store of a staged root: releases that appear by one rename and are never changed after it.

    <root>/store/<name>-<version>-<sha12>/              a release
    <root>/store/<name>-<version>-<sha12>/.armstage.json  its record, written before it is published
    <root>/store/.partial-<name>-<host>-<pid>-<random>/  one being made; under the lock only
    <root>/store/.removed-...                             one being deleted; under the lock only

Every link is relative, so that the root may be mounted elsewhere on another host.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Callable

from ..errors import ArmstageError
from ..files import sync_folder, write_atomic
from .folders import delete_tree, make_folder, sync_filesystem
from .in_use import not_open
from .lock import Lock, seems_held
from .record import MANIFEST, RECORD, SCHEMA, Release, folder_name, read_manifest, read_release
from .survey import survey, what_is_wrong

LOCK = ".lock"

LEFTOVER_LINK = re.compile(r"\..+\.\d+")
"""The name of a link before the rename that gives it its own (files.point_link)."""


class StoreLock(Lock):
    """The store's lock: its holder begins with what killed runs left swept away, and leaves
    ``manifest.json`` true."""

    def __init__(self, store: Store, wait: float = 1800.0, on_wait: Callable[[str], None] | None = None) -> None:
        super().__init__(store.store / LOCK, wait, on_wait)
        self._store = store

    def __enter__(self) -> Lock:
        super().__enter__()
        try:
            self._store.sweep()
        except BaseException:
            super().__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self.lost:
                write_manifest(self._store.root)
        except OSError:
            if kind is None:
                raise
        finally:
            super().__exit__(kind, error, trace)


class Store:
    """The releases of one root.

    ``begin``, ``publish``, ``remove`` and ``prune`` are for the holder of ``lock()`` only; reading
    needs neither the lock nor the right to write.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(os.path.abspath(root))
        self.store = self.root / "store"
        self.cache = self.root / "cache"
        self._lock: StoreLock | None = None

    def release_path(self, name: str, version: str, digest: str) -> Path:
        return self.store / folder_name(name, version, digest)

    def releases(self, name: str | None = None) -> list[Release]:
        """The complete releases of a component (of all without a name), newest first."""
        try:
            folders = [entry.path for entry in os.scandir(self.store) if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []
        found = [release for folder in folders if (release := read_release(folder)) is not None]
        wanted = [release for release in found if name is None or release.name == name]
        return sorted(wanted, key=lambda release: (release.created, str(release.path)), reverse=True)

    def lock(self, wait: float = 1800.0, on_wait: Callable[[str], None] | None = None) -> Lock:
        """The lock to hold while anything under the root is changed; makes the store's folder."""
        make_folder(self.store)
        self._lock = StoreLock(self, wait, on_wait)
        return self._lock

    @contextlib.contextmanager
    def begin(self, name: str) -> Iterator[Path]:
        """An empty folder to make a release in; gone afterwards unless it was published."""
        self._require_lock()
        partial = self.store / f".partial-{name}-{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        partial.mkdir()
        try:
            yield partial
        finally:
            if partial.exists():
                delete_tree(partial)

    def publish(self, partial: Path, release: Release) -> Path:
        """Give a finished folder its final name. The same release already there wins.

        What stands there damaged, without a record, or made otherwise, is put away first.
        """
        self._require_lock()
        found = survey(partial)
        release = replace(release, size=found.size, files=found.files, tree=found.tree)
        final = self.store / release.folder
        there = read_release(final)
        if (
            there is not None
            and (there.tree, there.extra) == (release.tree, release.extra)
            and not what_is_wrong(there)
        ):
            return final
        text = json.dumps(release.record(), indent=2, sort_keys=True) + "\n"
        write_atomic(partial / RECORD, text)
        partial.chmod(0o755)
        sync_filesystem(partial)
        self._require_lock()
        if os.path.lexists(final):
            self._delete(final)
        os.rename(partial, final)
        sync_folder(self.store)
        return final

    def remove(self, release: Release) -> None:
        self._require_lock()
        assert release.path is not None
        self._delete(release.path)

    def prune(self, name: str, keep: int, protected: Iterable[Path] = ()) -> list[Release]:
        """Remove all but the ``keep`` newest of the releases that nothing needs; what was removed."""
        old = not_open(self.store, self.unneeded(name, protected)[keep:])
        for release in old:
            self.remove(release)
        return old

    def unneeded(self, name: str, protected: Iterable[Path] = (), moved: Collection[str] = ()) -> list[Release]:
        """The releases of a component, newest first, that neither ``protected`` lists nor a link names:
        one below the root (but those in ``moved``, paths from the root), or one in another release."""
        needed = {os.path.realpath(path) for path in protected}
        needed.update(folder for folder, links in self.users().items() if links - set(moved))
        return [release for release in self.releases(name) if os.path.realpath(str(release.path)) not in needed]

    def users(self) -> dict[str, set[str]]:
        """Which links name each release (its real path): those below the root, and those of other
        releases, as an environment's ``bin/python``. Links are given as paths from the root."""
        found: dict[str, set[str]] = {}
        for link in self.links():
            found.setdefault(self._release_of(self.root / link), set()).add(link)
        for release in self.releases():
            own = os.path.realpath(str(release.path))
            for folder in (str(release.path), os.path.join(str(release.path), "bin")):
                for link in _links_in(folder):
                    named = self._release_of(link)
                    if named not in ("", own):
                        found.setdefault(named, set()).add(os.path.relpath(link, self.root))
        return found

    def links(self) -> dict[str, str]:
        """Every link below the root that leads into the store: its path from the root -> its target."""
        return {
            os.path.relpath(link, self.root): os.readlink(link)
            for folder in self._link_folders()
            for link in _links_in(folder)
            if self._release_of(link) and not os.path.basename(link).startswith(".")
        }

    def _link_folders(self) -> list[str]:
        """The root and the folders in it, but for armstage's own: where links to releases are."""
        try:
            with os.scandir(self.root) as entries:
                folders = [entry.path for entry in entries if entry.is_dir() and entry.name not in ("store", "cache")]
        except FileNotFoundError:
            return []
        return [str(self.root), *(folder for folder in folders if not self._release_of(folder))]

    def leftovers(self) -> list[Path]:
        """Folders that killed runs left half-made or half-deleted; none while somebody holds the lock."""
        found = [*self.store.glob(".partial-*"), *self.store.glob(".removed-*")]
        return sorted(found) if found and not seems_held(self.store / LOCK) else []

    def sweep(self) -> None:
        """Remove what killed processes left. The lock is held, so nobody is at work on it."""
        self._require_lock()
        for unfinished in [*self.store.glob(".partial-*"), *self.store.glob(".removed-*")]:
            delete_tree(unfinished)
        for file in self.root.glob(f".{MANIFEST}.*"):
            file.unlink()
        for folder in self._link_folders():
            for link in _links_in(folder):
                if LEFTOVER_LINK.fullmatch(os.path.basename(link)) and self._points_into_store(link):
                    os.unlink(link)

    def _points_into_store(self, link: str) -> bool:
        """Whether a link says a path in the store, be it there or not."""
        said = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
        return said.startswith(str(self.store) + os.sep)

    def _release_of(self, path: str | Path) -> str:
        """The folder of the store that a path lies in once every link is followed, or ''."""
        store = os.path.realpath(self.store) + os.sep
        real = os.path.realpath(path)
        return store + real[len(store) :].partition(os.sep)[0] if real.startswith(store) else ""

    def _delete(self, path: Path) -> None:
        aside = self.store / f".removed-{path.name}-{uuid.uuid4().hex[:8]}"
        os.rename(path, aside)
        sync_folder(self.store)
        delete_tree(aside)

    def _require_lock(self) -> None:
        if self._lock is None or not self._lock.held:
            raise RuntimeError("the store is changed only by the holder of its lock")
        if self._lock.lost:
            raise ArmstageError(
                f"The lock `{self._lock.path}` was taken over while this run was suspended",
                hint="Run again: what the other run has published is used as it is",
            )


def _links_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def relative_target(link: str | Path, target: str | Path) -> str:
    """What the link ``link`` has to say to name ``target``, wherever the root is mounted."""
    return os.path.relpath(target, os.path.dirname(link))


def in_real_folder(path: str | Path) -> str:
    """A path with the links above it followed, and it itself taken as it is."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def manifest(root: str | Path) -> dict[str, Any]:
    """Every release under a root and every link to one, in an order that does not depend on when."""
    store = Store(root)
    releases = [
        {**release.record(), "path": os.path.relpath(str(release.path), store.root)} for release in store.releases()
    ]
    releases.sort(key=lambda release: release["path"])
    return {"schema": SCHEMA, "releases": releases, "links": dict(sorted(store.links().items()))}


def write_manifest(root: str | Path) -> bool:
    """Bring ``manifest.json`` up to date; False, and no write, when it already is or has nothing to say."""
    content = manifest(root)
    if content == (read_manifest(root) or {"schema": SCHEMA, "releases": [], "links": {}}):
        return False
    write_atomic(Path(root) / MANIFEST, json.dumps(content, indent=2, sort_keys=True) + "\n")
    return True
