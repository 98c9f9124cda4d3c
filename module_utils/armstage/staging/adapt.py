"""What is changed in a release between unpacking and publishing: links and a few lines of text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..errors import ArmstageError

SUFFIXED = re.compile(r"(?P<base>lib.+)-[0-9a-f]{8,}\.so\.(?P<major>\d+)(?:\.\d+)*")
"""auditwheel's names: `libavutil-2a27f4d8.so.59.39.100` is `libavutil.so.59` with 8 digits of its hash."""


def plain_soname(name: str) -> str | None:
    """The soname a library had before it was given a suffix, or None where the name has no version."""
    match = SUFFIXED.fullmatch(name)
    return None if match is None else f"{match['base']}.so.{match['major']}"


def link_plain_sonames(folder: Path) -> dict[str, str]:
    """Beside every suffixed library a link under its plain soname: link -> target, as made.

    Raises ArmstageError when there is none, or when two libraries ask for one name.
    """
    made: dict[str, str] = {}
    for directory, _folders, names in os.walk(folder):
        for name in sorted(names):
            soname = plain_soname(name)
            if soname is None:
                continue
            link = os.path.join(directory, soname)
            if os.path.lexists(link):
                raise ArmstageError(
                    f"Expected one library for `{soname}`, but found `{name}` and `{made.get(link, soname)}`",
                    hint="Choose the folder that is meant with `select`",
                )
            os.symlink(name, link)
            made[link] = name
    if not made:
        raise ArmstageError(
            "Expected libraries with a hash in their names (`libavutil-2a27f4d8.so.59.39.100`), but found none",
            hint="Leave plain_sonames out for archives whose libraries have their own names",
        )
    return made


def replace_texts(folder: Path, edits: Iterable[Mapping[str, str]], places: Mapping[str, str]) -> None:
    """Apply edits ``{path: glob, old, new}``; in ``new``, `{release}`, `{link}` and `{root}` stand for
    the paths that ``places`` gives. Raises ArmstageError for an edit that changes nothing."""
    for edit in edits:
        new = edit["new"]
        for word, value in places.items():
            new = new.replace("{" + word + "}", value)
        changed = [path for path in sorted(folder.glob(edit["path"])) if _replace(path, edit["old"], new)]
        if not changed:
            raise ArmstageError(
                f"Expected `{edit['old']}` in the files `{edit['path']}` of the release, but found none",
                hint="The archive's layout has changed: correct or remove this edit",
            )


def _replace(path: Path, old: str, new: str) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    content = path.read_bytes()
    edited = content.replace(old.encode(), new.encode())
    if edited == content:
        return False
    path.write_bytes(edited)  # not published yet: in place, its mode kept
    return True
