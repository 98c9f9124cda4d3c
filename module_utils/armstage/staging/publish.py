"""The store of a staged root: releases that appear by one rename and are never changed after it.

    <root>/store/<name>-<version>-<sha12>/              a release
    <root>/store/<name>-<version>-<sha12>/.armstage.json  its record, written before it is published
    <root>/store/.partial-<name>-<host>-<pid>-<random>/  one being made; under the lock only
    <root>/store/.removed-...                             one being deleted; under the lock only

Every link is relative, so that the root may be mounted elsewhere on another host.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Callable

from ..errors import ArmstageError
from ..files import read_text, sync_folder, write_atomic
from .lock import Lock

RECORD = ".armstage.json"
MANIFEST = "manifest.json"
SCHEMA = 1

LINK_FOLDERS = ("", "bin", "envs", "python")
"""Folders below the root whose links may name a release."""

NOT_CONTENT = ("__pycache__", RECORD)
"""Names that say nothing about whether a release is intact: Python writes bytecode where it runs."""


@dataclass(frozen=True)
class Survey:
    """What a folder holds: bytes and number of its files, and one digest over its listing."""

    size: int
    files: int
    tree: str


@dataclass(frozen=True)
class Release:
    """One version of one component.

    ``digest`` is the full hex digest that its folder's name begins; ``source`` holds kind, url and
    sha256; ``created`` is ISO UTC; ``run`` names the run that made it; ``elf`` maps a machine to the
    number of its ELF files; ``size``, ``files`` and ``tree`` are filled in when it is published.
    """

    name: str
    version: str
    digest: str
    source: dict[str, Any]
    created: str
    run: str = ""
    size: int = 0
    files: int = 0
    tree: str = ""
    elf: dict[str, int] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None

    def record(self) -> dict[str, Any]:
        """The release as it is written down: everything but where it lies."""
        content = {"schema": SCHEMA, **asdict(self)}
        del content["path"]
        return content

    @property
    def folder(self) -> str:
        """The name of its folder in the store."""
        return folder_name(self.name, self.version, self.digest)


def folder_name(name: str, version: str, digest: str) -> str:
    return f"{name}-{version}-{digest[:12]}"


def read_release(path: str | Path) -> Release | None:
    """The release in this folder, or None where there is no readable record: it is not complete."""
    text = read_text(Path(path) / RECORD)
    if text is None:
        return None
    try:
        content = json.loads(text)
        known = {key: content[key] for key in Release.__dataclass_fields__ if key in content}
        return Release(**{**known, "path": Path(path)})
    except (ValueError, TypeError):
        return None


def survey(folder: str | Path) -> Survey:
    """Walk a folder without opening a file: type, size, executable bit and link target of each entry.

    Enough to notice whatever is missing, cut short or replaced, at the price of one lstat each.
    """
    size, lines = 0, []
    for path, entry in _walk(os.fspath(folder), ""):
        if entry.is_symlink():
            lines.append(f"{path}\0-> {os.readlink(entry.path)}")
            continue
        status = entry.stat(follow_symlinks=False)
        size += status.st_size
        lines.append(f"{path}\0{status.st_size} {'x' if status.st_mode & stat.S_IXUSR else '-'}")
    listing = "\n".join(sorted(lines)).encode("utf-8", "surrogateescape")
    return Survey(size, len(lines), hashlib.sha256(listing).hexdigest())


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in NOT_CONTENT or entry.name.startswith(".nfs"):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name, entry


def what_is_wrong(release: Release) -> str:
    """Why a published release is not what was published, or an empty string when it is."""
    assert release.path is not None
    found = survey(release.path)
    if found.tree == release.tree:
        return ""
    return (
        f"`{release.path}` held {release.files} files with {release.size} bytes when it was published, "
        f"and holds {found.files} with {found.size} now"
        + ("" if (found.files, found.size) != (release.files, release.size) else ": names, links or modes differ")
    )


class StoreLock(Lock):
    """The store's lock; whoever gives it up leaves ``manifest.json`` true."""

    def __init__(self, store: Store, wait: float = 1800.0, on_wait: Callable[[str], None] | None = None) -> None:
        super().__init__(store.store / ".lock", wait, on_wait)
        self._store = store

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
        """An empty folder to make a release in; gone afterwards unless it was published.

        The lock is held, so whatever else is half-made here was left by a process that died.
        """
        self._require_lock()
        for leftover in self._leftovers():
            delete_tree(leftover)
        partial = self.store / f".partial-{name}-{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        partial.mkdir()
        try:
            yield partial
        finally:
            if partial.exists():
                delete_tree(partial)

    def publish(self, partial: Path, release: Release) -> Path:
        """Give a finished folder its final name. A complete release already there wins: same content.

        What stands there without a record, or differs from its record, is put away first.
        """
        self._require_lock()
        found = survey(partial)
        release = replace(release, size=found.size, files=found.files, tree=found.tree)
        final = self.store / release.folder
        there = read_release(final)
        if there is not None and not what_is_wrong(there):
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
        """Remove what ``prunable`` names, and say what that was."""
        gone = self.prunable(name, keep, protected)
        for release in gone:
            self.remove(release)
        return gone

    def prunable(self, name: str, keep: int, protected: Iterable[Path] = ()) -> list[Release]:
        """The releases of a component that are old enough to go: all but the ``keep`` newest of
        those that nothing needs. Needed is what ``protected`` lists, what a link under the root
        names, and what a process of this host has open."""
        releases = self.releases(name)
        needed = {os.path.realpath(path) for path in protected} | self._linked()
        spare = [release for release in releases if os.path.realpath(str(release.path)) not in needed][keep:]
        if not spare:
            return []
        in_use = open_paths(os.path.realpath(self.store))
        return [release for release in spare if os.path.basename(str(release.path)) not in in_use]

    def links(self) -> dict[str, str]:
        """Every link below the root that leads into the store: its path from the root -> its target."""
        found = {}
        for folder in LINK_FOLDERS:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.root / folder) as entries:
                for entry in entries:
                    if entry.is_symlink() and self._release_of(entry.path):
                        found[os.path.join(folder, entry.name)] = os.readlink(entry.path)
        return found

    def _linked(self) -> set[str]:
        """The releases that links name: those of the root, and those of other releases (an
        environment's ``bin/python``)."""
        named = {self._release_of(self.root / link) for link in self.links()}
        for release in self.releases():
            for folder in (str(release.path), os.path.join(str(release.path), "bin")):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
                    targets = {self._release_of(entry.path) for entry in entries if entry.is_symlink()}
                    named |= targets - {os.path.realpath(str(release.path))}
        return named - {""}

    def _release_of(self, path: str | Path) -> str:
        """The folder of the store that a path lies in once every link is followed, or ''."""
        store = os.path.realpath(self.store) + os.sep
        real = os.path.realpath(path)
        return store + real[len(store) :].partition(os.sep)[0] if real.startswith(store) else ""

    def _leftovers(self) -> list[Path]:
        return [*self.store.glob(".partial-*"), *self.store.glob(".removed-*")]

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


def relative_target(link: str | Path, target: str | Path) -> str:
    """What the link ``link`` has to say to name ``target``, wherever the root is mounted."""
    return os.path.relpath(target, os.path.dirname(link))


def manifest(root: str | Path) -> dict[str, Any]:
    """Every release under a root and every link to one, in an order that does not depend on when."""
    store = Store(root)
    releases = [
        {**release.record(), "path": os.path.relpath(str(release.path), store.root)} for release in store.releases()
    ]
    releases.sort(key=lambda release: release["path"])
    return {"schema": SCHEMA, "releases": releases, "links": dict(sorted(store.links().items()))}


def read_manifest(root: str | Path) -> Mapping[str, Any]:
    """``manifest.json`` as it stands; empty where there is none or it can't be parsed."""
    try:
        content = json.loads(read_text(Path(root) / MANIFEST, limit=64 * 1024 * 1024) or "{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def write_manifest(root: str | Path) -> bool:
    """Bring ``manifest.json`` up to date; False, and no write, when it already is or has nothing to say."""
    content = manifest(root)
    if content == (read_manifest(root) or {"schema": SCHEMA, "releases": [], "links": {}}):
        return False
    write_atomic(Path(root) / MANIFEST, json.dumps(content, indent=2, sort_keys=True) + "\n")
    return True


def open_paths(store: str) -> set[str]:
    """Names of the store's folders from which a process of this host runs, works or has a file open.

    Another user's processes are seen by root only; other hosts' not at all.
    """
    prefix, found = store.rstrip(os.sep) + os.sep, set()
    processes = os.listdir("/proc") if os.path.isdir("/proc") else []
    for process in filter(str.isdigit, processes):
        for path in _process_paths(f"/proc/{process}"):
            if path.startswith(prefix):
                found.add(path[len(prefix) :].partition(os.sep)[0])
    return found


def _process_paths(process: str) -> Iterator[str]:
    links = [f"{process}/exe", f"{process}/cwd"]
    with contextlib.suppress(OSError):
        links += [f"{process}/fd/{number}" for number in os.listdir(f"{process}/fd")]
    for link in links:
        with contextlib.suppress(OSError):
            yield os.readlink(link)
    with contextlib.suppress(OSError), open(f"{process}/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            _numbers, slash, path = line.partition("/")
            if slash:
                yield slash + path.rstrip("\n")


def make_folder(path: Path) -> None:
    """Make a folder and those above it, readable by everyone whatever the umask says."""
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        path.mkdir()
        path.chmod(path.stat().st_mode | 0o755)
    except FileExistsError:
        pass
    except OSError as error:
        raise ArmstageError(
            f"Failed to make the folder `{path}`: {error.strerror or error}",
            hint=f"This user must be able to write in `{path.parent}`",
        ) from error


def delete_tree(path: Path) -> None:
    """Remove a folder, folders without write permission inside it included."""

    def unlock(function: Callable[[str], Any], name: str, _error: Any) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        os.chmod(name, 0o700, follow_symlinks=True)
        function(name)

    try:
        shutil.rmtree(path, onerror=unlock)
    except FileNotFoundError:
        pass
    except OSError as error:
        # A file still open on another host of an NFS keeps its folder: the next run sweeps it.
        if error.errno not in (errno.ENOTEMPTY, errno.EBUSY):
            raise


def sync_filesystem(path: Path) -> None:
    """Have everything written so far on this path's filesystem reach the disk, and nothing else's.

    A rename may otherwise survive a lost node when the data it published did not.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(handle)
