"""Python versions and the conditions on them (PEP 440, "Version specifiers")."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_VERSION = re.compile(
    r"""\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
        (?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_number>\d*))?
        (?P<post>-(?P<post_implicit>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>\d*))?
        (?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d*))?
        (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_CLAUSE = re.compile(r"\s*(===|~=|==|!=|<=|>=|<|>)\s*([^\s,;)]+)\s*")
_PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}

_Key = tuple[Any, ...]


@dataclass(frozen=True, order=True)
class Version:
    """A version that orders as PEP 440 says. Raises ValueError for text that is none."""

    key: _Key
    text: str = field(compare=False)
    release: tuple[int, ...] = field(compare=False)
    is_prerelease: bool = field(compare=False)
    local: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Version:
        match = _VERSION.fullmatch(text)
        if match is None:
            raise ValueError(f"`{text}` is not a version")
        release = tuple(int(number) for number in match["release"].split("."))
        pre, post, dev = match["pre"], match["post"], match["dev"]
        pre_key: _Key = (1,)  # a release comes after its candidates, a development version of it before them
        if pre:
            letter = pre.lower()
            pre_key = (0, _PRE.get(letter, letter), int(match["pre_number"] or 0))
        elif dev and not post:
            pre_key = (-1,)
        key = (
            int(match["epoch"] or 0),
            _trimmed(release),
            pre_key,
            int(match["post_number"] or match["post_implicit"] or 0) if post else -1,
            (0, int(match["dev_number"] or 0)) if dev else (1,),
            _local_key(match["local"] or ""),
        )
        return cls(key, text.strip(), release, bool(pre or dev), (match["local"] or "").lower())

    @property
    def public(self) -> _Key:
        """The key without the local part: `2.11.0` of `2.11.0+cu130`."""
        return self.key[:-1]


@dataclass(frozen=True)
class Specifier:
    """Conditions that a version must all meet, such as `>=2.11,<2.12`. The empty one admits every version."""

    clauses: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Specifier:
        """Raises ValueError for text that is no list of conditions."""
        clauses = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            match = _CLAUSE.fullmatch(part)
            if match is None:
                raise ValueError(f"`{part}` is not a condition on a version")
            operator, version = match.groups()
            if operator != "===":
                wildcard = operator in ("==", "!=") and version.endswith(".*")
                Version.parse(version[:-2] if wildcard else version)
            clauses.append((operator, version))
        return cls(tuple(clauses))

    def __str__(self) -> str:
        return ",".join(operator + version for operator, version in self.clauses)

    def admits(self, text: str) -> bool:
        """Whether the version meets every condition. Candidates count like any other version."""
        version = Version.parse(text)
        return all(_meets(version, operator, wanted) for operator, wanted in self.clauses)

    def public(self) -> Specifier:
        """The same conditions without local parts: `==2.11.0` of `==2.11.0+cu130`."""
        return Specifier(tuple((operator, version.partition("+")[0]) for operator, version in self.clauses))


def _meets(version: Version, operator: str, wanted: str) -> bool:
    if operator == "===":
        return version.text.lower() == wanted.lower()
    if operator in ("==", "!=") and wanted.endswith(".*"):
        prefix = Version.parse(wanted[:-2])
        return _has_prefix(version, prefix, len(prefix.release)) == (operator == "==")
    other = Version.parse(wanted)
    if operator in ("==", "!="):
        same = version.key == other.key if other.local else version.public == other.public
        return same == (operator == "==")
    if operator == "~=":
        return version.public >= other.public and _has_prefix(version, other, len(other.release) - 1)
    if operator == ">=":
        return version.public >= other.public
    if operator == "<=":
        return version.public <= other.public
    if operator == "<":  # `<2.0` does not admit `2.0rc1`
        return version.public < other.public and (other.is_prerelease or not _is_candidate_of(version, other))
    post_of = version.key[:3] == other.key[:3] and version.key[3] >= 0 > other.key[3]
    return version.public > other.public and not post_of  # `>2.0` does not admit `2.0.post1`


def _has_prefix(version: Version, other: Version, length: int) -> bool:
    """Whether both have the same epoch and the same first ``length`` numbers."""
    padded = version.release + (0,) * (length - len(version.release))
    return version.key[0] == other.key[0] and padded[:length] == other.release[:length]


def _is_candidate_of(version: Version, release: Version) -> bool:
    return version.is_prerelease and version.key[:2] == release.key[:2] and release.key[3] < 0


def _trimmed(release: tuple[int, ...]) -> tuple[int, ...]:
    while len(release) > 1 and not release[-1]:
        release = release[:-1]
    return release


def _local_key(text: str) -> _Key:
    """Numbers order after words, and a longer local part after a shorter one it begins with."""
    parts = re.split(r"[-_.]", text.lower()) if text else []
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)
