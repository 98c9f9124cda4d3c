"""What a task asks of one component: checked before anything is looked at."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..elf.reader import known_machine
from ..errors import ArmstageError
from ..options import at_least
from .folders import root_folder
from .record import Release
from .transport import without_credentials
from .unpack import Layout

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
SHA256 = re.compile(r"[0-9a-f]{64}")
OWN_FOLDERS = ("store", "cache")


@dataclass(frozen=True)
class Source:
    """One place a release can come from, and what of its archive is wanted. ``kind`` is a label."""

    url: str
    kind: str = "upstream"
    sha256: str = ""
    sha256_url: str = ""
    layout: Layout = field(default_factory=Layout)
    plain_sonames: bool = False

    @property
    def shown(self) -> str:
        """The address as it is recorded and said."""
        return without_credentials(self.url)

    def made(self, release: Release) -> bool:
        """Whether this source is where a release is from: by its digest, else by its address."""
        if self.sha256:
            return bool(release.source.get("sha256") == self.sha256)
        return bool(release.source.get("url") == self.shown)

    def __str__(self) -> str:
        return f"{self.kind} `{self.shown}`"


@dataclass(frozen=True)
class Desired:
    """A component as it should be. ``links`` maps a path below the root to one inside the release."""

    name: str
    version: str
    root: Path
    sources: tuple[Source, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    elf_machine: str = "aarch64"
    present: bool = True
    keep: int = 1
    edits: tuple[Mapping[str, str], ...] = ()
    index_url: str = ""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 60.0
    run: str = ""
    required: bool = True

    def recipe(self, source: Source) -> dict[str, Any]:
        """How an archive becomes the release: another recipe makes another release of the same archive."""
        return {
            "strip_components": source.layout.strip_components,
            "select": source.layout.select,
            "into": source.layout.into,
            "plain_sonames": source.plain_sonames,
            "replace": [dict(edit) for edit in self.edits],
        }


def from_options(options: Mapping[str, Any]) -> Desired:
    """The options of the module as a Desired. Raises ArmstageError for one that can't be meant."""
    for option in ("name", "version"):
        if not NAME.fullmatch(options[option]):
            raise ArmstageError(
                f"Expected letters, digits, `.`, `_`, `+` and `-` in `{option}`, but received: `{options[option]}`",
                hint="It becomes part of a folder's name",
            )
    first = {options["link"]: options["link_target"]} if options["link"] else {}
    links = {**first, **(options["links"] or {})}
    return Desired(
        name=options["name"],
        version=options["version"],
        root=root_folder(options["dest"]),
        sources=tuple(_source(source, options["strip_components"]) for source in options["sources"] or ()),
        links={_link(link): inside(target) for link, target in links.items()},
        elf_machine=known_machine(options["elf_machine"]),
        present=options["state"] == "present",
        keep=at_least("keep", options["keep"], 0),
        edits=tuple(options["replace"] or ()),
        index_url=options["index_url"] or "",
        unreachable=options["unreachable"] or {},
        timeout=at_least("timeout", options["timeout"], 1),
        run=options["run_id"] or "",
        required=options["required"],
    )


def _source(options: Mapping[str, Any], strip_components: int) -> Source:
    digest = (options.get("sha256") or "").strip().lower()
    digest = digest[len("sha256:") :] if digest.startswith("sha256:") else digest
    if not options["url"].strip():
        raise ArmstageError(
            f"Expected an address or a path in `url`, but received: `{options['url']}`",
            hint="Give where the archive is, or leave the source out",
        )
    if digest and not SHA256.fullmatch(digest):
        raise ArmstageError(
            f"Expected a sha256 of 64 hexadecimal digits for `{options['url']}`, but received: `{digest}`",
            hint="Copy it from the checksum file of the release",
        )
    own = options.get("strip_components")
    layout = Layout(
        strip_components=at_least("strip_components", strip_components if own is None else own, 0),
        select=inside(options.get("select") or "."),
        into=inside(options.get("into") or "."),
    )
    return Source(
        url=options["url"].strip(),
        kind=options.get("kind") or "upstream",
        sha256=digest,
        sha256_url=options.get("sha256_url") or "",
        layout=layout,
        plain_sonames=bool(options.get("plain_sonames")),
    )


def _link(path: str) -> str:
    link = inside(path)
    parts = link.split("/")
    if not link or len(parts) > 2 or parts[0] in OWN_FOLDERS or parts[-1].startswith("."):
        raise ArmstageError(
            f"Expected a link in the root or in a folder of it, but received: `{path}`",
            hint="Give a path such as bin/uv-aarch64; store/ and cache/ are armstage's own",
        )
    return link


def inside(path: Any) -> str:
    """A relative path in its shortest form, empty for the folder itself."""
    if not isinstance(path, str):
        raise ArmstageError(f"Expected a path, but received: `{path}`", hint="Give it as text, relative to the release")
    plain = posixpath.normpath(path)
    if posixpath.isabs(plain) or plain.split("/")[0] == "..":
        raise ArmstageError(
            f"Expected a path that stays inside, but received: `{path}`",
            hint="Give it relative to the root or the release, without `..`",
        )
    return "" if plain == "." else plain
