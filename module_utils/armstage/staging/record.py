"""What a staged root says about itself: the record in each release, and the manifest of them all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..files import read_text

RECORD = ".armstage.json"
MANIFEST = "manifest.json"
SCHEMA = 1


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


def read_manifest(root: str | Path) -> Mapping[str, Any]:
    """``manifest.json`` as it stands; empty where there is none or it can't be parsed."""
    try:
        content = json.loads(read_text(Path(root) / MANIFEST, limit=64 * 1024 * 1024) or "{}")
    except ValueError:
        return {}
    whole = isinstance(content, dict) and isinstance(content.get("releases", []), list)
    return content if whole and isinstance(content.get("links", {}), dict) else {}
