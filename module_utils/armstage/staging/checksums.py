"""Checksum files: what `sha256sum`, `shasum -a 256` and BSD's `sha256` write, or one bare digest."""

from __future__ import annotations

import re

GNU = re.compile(r"^\\?(?P<digest>[0-9a-fA-F]{64})(?: [ *]|\t)(?P<name>.+)$")
BSD = re.compile(r"^SHA256 ?\((?P<name>.+)\) ?= ?(?P<digest>[0-9a-fA-F]{64})$")
BARE = re.compile(r"^(?P<digest>[0-9a-fA-F]{64})$")


def find_checksum(text: str, name: str) -> str | None:
    """The digest of the file ``name`` in the text of a checksum file, or None.

    Names match as a whole, with or without the folder the file was hashed in. A bare digest counts
    when it is the only digest there is. Other lines (signatures, comments) say nothing. Two
    different digests for one name count as none: nothing says which.
    """
    lines = [line.strip() for line in text.splitlines()]
    named = [found for line in lines if (found := GNU.match(line) or BSD.match(line))]
    digests = {found["digest"].lower() for found in named if name in (found["name"], _base_name(found["name"]))}
    if not named:
        digests = {found["digest"].lower() for line in lines if (found := BARE.match(line))}
    return digests.pop() if len(digests) == 1 else None


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]
