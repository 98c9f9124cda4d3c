"""Checksum files: what `sha256sum`, `shasum -a 256`, BSD's `sha256` and openssl write, lists in Debian's form, JSON,
YAML, TOML and tables of one name a line, or one bare digest."""

from __future__ import annotations

import re

DIGEST = r"(?:sha256:)?(?P<digest>[0-9a-fA-F]{64})"
NAMED = (
    re.compile(rf"{DIGEST}\s+\d+\s+(?P<name>\S+)"),
    re.compile(rf"\\?{DIGEST}\s+\*?(?P<name>[^ *|].*)"),
    re.compile(rf"SHA(?:2-)?256 ?\((?P<name>.+)\) ?= ?{DIGEST}", re.IGNORECASE),
    re.compile(rf"(?P<name>\S+?)\s*[\s:=|]\s*{DIGEST}"),
    re.compile(rf"{DIGEST}\s*\|\s*(?P<name>\S+)"),
)
"""Debian's, with a size; GNU; BSD and openssl; a name with its digest behind it; a table with the digest first."""

AROUND = "{}|, \t"
QUOTES = str.maketrans("", "", "\"'`")
"""What JSON, tables and lists put around names and digests; the names of releases have none of it."""

STANDARD_INPUT = "-"
"""The name of a file that was hashed through a pipe: as good as none."""

BARE = re.compile(rf"(?:sha(?:2-)?256\s*[:=]?\s*)?{DIGEST}", re.IGNORECASE)

MARKS = (("utf-8-sig", b"\xef\xbb\xbf"), ("utf-16", b"\xff\xfe"), ("utf-16", b"\xfe\xff"))
"""How a text written on Windows may begin."""


def as_text(content: bytes) -> str:
    """The text of a checksum file, whatever wrote it."""
    encoding = next((name for name, mark in MARKS if content.startswith(mark)), "utf-8")
    return content.decode(encoding, "replace")


def find_checksum(text: str, name: str) -> str | None:
    """The digest of the file ``name`` in the text of a checksum file, or None.

    Names match as a whole, with or without the folder the file was hashed in. A bare digest counts
    when it is the only digest there is. Other lines (signatures, comments) say nothing. Two
    different digests for one name count as none: nothing says which.
    """
    lines = [line.translate(QUOTES).strip(AROUND) for line in text.splitlines()]
    lines = [re.sub(rf"^({DIGEST})\s+\*?{STANDARD_INPUT}$", r"\1", line) for line in lines]
    named = [found for line in lines if (found := _match(line))]
    digests = {found["digest"].lower() for found in named if name in (found["name"], _base_name(found["name"]))}
    if not named:
        digests = {found["digest"].lower() for line in lines if (found := BARE.fullmatch(line))}
    return digests.pop() if len(digests) == 1 else None


def _match(line: str) -> re.Match[str] | None:
    if BARE.fullmatch(line):
        return None
    return next((found for pattern in NAMED if (found := pattern.fullmatch(line))), None)


def _base_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
