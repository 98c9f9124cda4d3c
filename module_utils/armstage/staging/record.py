"""What a release says about itself, and whether that is still true."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..files import read_text

RECORD = ".armstage.json"
SCHEMA = 1

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
    sha256; ``created`` is ISO UTC and ``seconds`` what it took, from the first request until everything
    was checked, None where the record is older than that; ``run`` names the run that made it; ``elf`` maps
    a machine to the number of its ELF files; ``size``, ``files`` and ``tree`` are filled in when it is published.
    """

    name: str
    version: str
    digest: str
    source: dict[str, Any]
    created: str
    seconds: float | None = None
    run: str = ""
    size: int = 0
    files: int = 0
    tree: str = ""
    elf: dict[str, int] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None

    def record(self) -> dict[str, Any]:
        """The release as it is written down: everything but where it lies, and ``seconds`` where they are known."""
        content = {"schema": SCHEMA, **asdict(self)}
        del content["path"]
        if self.seconds is None:
            del content["seconds"]
        return content

    @property
    def folder(self) -> str:
        """The name of its folder in the store."""
        return folder_name(self.name, self.version, self.digest)


TYPES: dict[str, Any] = {
    **dict.fromkeys(("name", "version", "digest", "created", "run", "tree"), str),
    **dict.fromkeys(("size", "files"), int),
    **dict.fromkeys(("source", "elf", "extra"), dict),
    "seconds": (int, float),
}
"""What a record holds, and as what: one that was edited into something else is none."""


EXTRA_TYPES: dict[str, Any] = {
    "identity": str,
    **dict.fromkeys(("installed", "origins", "builds"), dict),
    **dict.fromkeys(("unhashed", "library_dirs"), list),
}
"""The same of what a component adds of its own."""


def folder_name(name: str, version: str, digest: str) -> str:
    return f"{name}-{version}-{digest[:12]}"


def read_release(path: str | Path) -> Release | None:
    """The release in this folder, or None where there is no readable record: it is not complete."""
    text = read_text(Path(path) / RECORD)
    if text is None:
        return None
    try:
        content = json.loads(text)
        known = {key: content[key] for key in TYPES if key in content}
        if not (_are_of(TYPES, known) and _are_of(EXTRA_TYPES, known.get("extra", {}))):
            return None
        return Release(**{**known, "path": Path(path)})
    except (ValueError, TypeError):
        return None


def _are_of(types: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return all(isinstance(value, types[key]) for key, value in values.items() if key in types)


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
