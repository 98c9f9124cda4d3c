"""What uv's messages mean, in terms of the requirement, index or filesystem that is at fault."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import ArmstageError

FRAME = re.compile("[\u00d7\u2500-\u257f\u25b6]")
"""Older uv frames its messages with these."""

LAST_LINES = 15


@dataclass(frozen=True)
class Attempt:
    """What uv was asked for: where it looked, and the platform and `3.12` that it looked for."""

    uv: str
    places: str
    platform: str
    python_version: str


class UvError(ArmstageError):
    """uv failed. ``detail`` holds its own last lines; ``unreachable`` says that another source may serve."""

    def __init__(self, message: str, hint: str, detail: str, unreachable: bool = False) -> None:
        super().__init__(message, hint)
        self.detail = detail
        self.unreachable = unreachable


CHANGED = "A file other than the one that was pinned is served by {places}: find out why before trusting it"
INCOMPLETE = "Resolve it again with digests, for example: uv pip compile --generate-hashes"
OFFLINE = "Run once with network, fill the cache (`cache_dir`) elsewhere, or give a `mirror` or `find_links`"


@dataclass(frozen=True)
class Meaning:
    """A pattern of uv's message on one line, with the groups that ``message`` and ``hint`` speak of."""

    pattern: str
    message: str
    hint: str
    unreachable: bool = False


MEANINGS = (
    Meaning(
        r"ThreadPoolBuildError|[Ff]ailed to spawn thread",  # astral-sh/uv#3150, #14462: login nodes
        "uv could not start its threads: this host limits how many one user may have",
        "Raise the limit (ulimit -u), or give uv fewer: UV_CONCURRENT_INSTALLS=4 RAYON_NUM_THREADS=4",
    ),
    Meaning(
        r"Too many open files \(os error 24\)",
        "uv ran out of open files: this host limits how many one process may have",
        "Raise the limit (ulimit -n), or give uv fewer: UV_CONCURRENT_DOWNLOADS=8 UV_CONCURRENT_INSTALLS=4",
    ),
    Meaning(
        r"(?:No space left on device|Disk quota exceeded)",
        "The disk or quota is full: uv could not unpack the wheels",
        "Make room where the root and uv's cache lie (df -h; quota -s), or move the cache with `cache_dir`",
    ),
    Meaning(
        r"`?(?P<path>/[^`\s]+)`?(?: cause)?: (?P<why>Permission denied|Read-only file system)",
        "uv may not write `{path}`: {why}",
        "This user must be able to write in the root and in uv's cache (`cache_dir`)",
    ),
    Meaning(
        r"(?:Could not acquire lock|[Ff]ailed to lock).*?: (?P<why>[^:]+\(os error \d+\))",
        "uv can't lock its cache: {why}",
        "The filesystem of uv's cache has no flock: give one that has, such as a local disk, as `cache_dir`",
    ),
    Meaning(
        r"`?(?P<path>/[^`\s]+?)`?:?(?: cause:)? (?P<why>(?:Device or resource busy|Directory not empty|"
        r"Stale file handle|Stale NFS file handle|Input/output error) \(os error \d+\))",  # astral-sh/uv#12036: NFS
        "The filesystem did not let uv finish with `{path}`: {why}",
        "A network filesystem may refuse what another host still has open: run again, with uv's cache (`cache_dir`)"
        " on a local disk",
    ),
    Meaning(
        r"Hash mismatch for `(?P<name>[^`]+)`.*?sha256:(?P<expected>[0-9a-f]{64}).*?sha256:(?P<found>[0-9a-f]{64})",
        "The wheel of `{name}` has the sha256 `{found}`, expected `{expected}`",
        CHANGED,
    ),
    Meaning(
        r"In `--\w+-hashes` mode, all requirements must (?P<what>[^,]+), but [\w ]+: `?(?P<name>[^\s`]+)",
        "The lock is not complete: all its requirements must {what}, but found `{name}`",
        INCOMPLETE,
    ),
    Meaning(
        r"no trusted hash was provided for: `?(?P<name>[^\s`]+)",
        "The lock is not complete: it has no digest of `{name}`, which is required",
        INCOMPLETE,
    ),
    Meaning(
        r"Because (?P<name>\S+) was not found in the cache",
        "`{name}` is not in uv's cache, and the network is off",
        OFFLINE,
    ),
    Meaning(
        r"Failed to (?:download|fetch):? `(?P<name>[^`]+)`.*Network connectivity is disabled",
        "The wheel of `{name}` is not in uv's cache, and the network is off",
        OFFLINE,
    ),
    Meaning(
        r"(?:Network connectivity is|network was) disabled",
        "Not everything that is needed is in uv's cache, and the network is off",
        OFFLINE,
    ),
    Meaning(
        r"An index(?: URL)? \((?P<url>[^)]+)\) (?:returned a |could not be queried [\w ]+\()"
        r"(?P<status>\d+ [\w ]+?)(?: error|\))",
        "`{url}` answers {status}",
        "Check the address, and the credentials if it wants some",
        unreachable=True,
    ),
    Meaning(
        r"(?P<name>\S+) has no wheels with a matching [\w ]+ tag",
        "There is no wheel of `{name}` for Python {python_version} on `{platform}` in {places}",
        "Choose a version that has one; the detail says which platforms it does have wheels for",
    ),
    Meaning(
        r"(?P<name>\S+) has no usable wheels",
        "There is no wheel of `{name}` in {places}, only its source, and nothing is built here",
        "Choose a version that has wheels, or build one and give its folder as `find_links`",
    ),
    Meaning(
        r"Because there (?:is|are) no versions? of (?P<name>\S+?),? (?:and|so|we)",
        "There is no `{name}` for Python {python_version} on `{platform}` in {places}",
        "Choose a version that is there, or another index",
    ),
    Meaning(
        r"Because only (?P<available>\S+) is available and (?:[^,]+ depends? on|you require) (?P<name>[^\s,]+),",
        "There is only `{available}` in {places}, but `{name}` is required",
        "Choose a version that is there, or another index",
    ),
    Meaning(
        r"Because (?P<name>\S+) was not found in the (?:package registry|provided package locations)",
        "There is no `{name}` in {places}",
        "Check the name, or give an index or folder that has it",
    ),
    Meaning(
        r"Because (?P<name>[^\s=]+)(?P<version>\S*) has an invalid package format",
        "The wheel of `{name}{version}` is damaged, in {places} or in uv's cache",
        "Clean it from the cache (uv cache clean {name}), then run again",
    ),
    Meaning(
        r"No solution found when resolving dependencies:? (?:cause: )?(?P<why>Because .+?)"
        r"(?:, we can conclude that your requirements are unsatisfiable\.)?(?: hint: .*)?$",
        "No set of versions meets the requirements: {why}",
        "Change the requirement named there, or the constraints",
    ),
    Meaning(
        r"(?P<url>https://[^\s`]+).*invalid peer certificate: (?P<why>\w+)",
        "The certificate behind `{url}` is not trusted: {why}",
        "Behind a proxy that signs certificates itself set SSL_CERT_FILE, or UV_SYSTEM_CERTS=1 "
        "(UV_NATIVE_TLS=1 for an older uv)",
        unreachable=True,
    ),
    Meaning(
        r"HTTP status (?:client|server) error \((?P<status>[^)]+)\) for url \((?P<url>[^)]+)\)",
        "`{url}` answers {status}",
        "Check the address, and the credentials if it wants some",
        unreachable=True,
    ),
    Meaning(
        r"Failed to (?:fetch|download).*?(?P<url>https?://[^\s`]+).*: (?P<why>[^:]+)$",
        "`{url}` can't be reached: {why}",
        "Check the network and the proxy variables, or stage from a `mirror`",
        unreachable=True,
    ),
    Meaning(
        r"Failed to read `--find-links` (?:directory|URL):? (?P<place>\S+)",
        "The folder of wheels `{place}` can't be read",
        "Correct `mirror` or `find_links`",
    ),
    Meaning(
        r"Couldn't parse requirement in `[^`]+` at position \d+ cause: (?P<why>.+?)(?: \^+)?$",
        "A requirement can't be parsed: {why}",
        "Write it as in PEP 508, for example torch==2.11.0",
    ),
    Meaning(
        r"Failed to parse environment variable `(?P<name>[^`]+)` with invalid value `(?P<value>[^`]*)`: (?P<why>.+)$",
        "uv does not understand `{name}={value}`: {why}",
        "Correct or unset {name} on the host that stages",
    ),
    Meaning(
        r"Failed to initialize cache at `(?P<path>[^`]+)`.*: (?P<why>[^:]+\(os error \d+\))",
        "uv can't use its cache `{path}`: {why}",
        "Give a folder that this user may write in as `cache_dir`",
    ),
    Meaning(
        r"Failed to inspect Python interpreter from [\w ]+ at `(?P<path>[^`]+)`.*?(?:failed with (?P<why>.+?))?"
        r"(?: \[stderr\].*)?$",
        "The Python `{path}` does not run on this host: {why}",
        "Give another as `compile_python`, or none",
    ),
    Meaning(
        r"unexpected argument '(?P<what>[^']+)'|invalid value '(?P<value>[^']+)'",
        "The uv at `{uv}` does not know `{what}{value}`",
        "Use uv 0.10.0 or newer, or correct `python_platform`, for example aarch64-manylinux_2_28",
    ),
)


def explain(attempt: Attempt, messages: str, status: int) -> UvError:
    """The error that uv's messages amount to. ``status`` is its exit status, negative for a signal."""
    detail = last_lines(messages)
    line = " ".join(FRAME.sub(" ", messages).replace("Caused by:", "cause:").split())
    for meaning in MEANINGS:
        found = re.search(meaning.pattern, line)
        if found is not None:
            words = {**vars(attempt), **{name: text or "" for name, text in found.groupdict().items()}}
            return UvError(meaning.message.format(**words), meaning.hint.format(**words), detail, meaning.unreachable)
    if status < 0:
        return UvError(f"uv was ended by signal {-status}", "If the kernel did it, memory was short: dmesg", detail)
    said = re.search(r"error: (?P<what>.{1,300})", line)
    message = f"uv failed with exit status {status}" + (f": {said['what']}" if said else "")
    return UvError(message, "The detail holds uv's own words", detail)


def out_of_time(attempt: Attempt, messages: str, timeout: float) -> UvError:
    return UvError(
        f"uv had not finished after {timeout:.0f} s; it was fetching from {attempt.places}",
        "Raise `timeout`; what is in uv's cache by now is not fetched again",
        last_lines(messages),
    )


def last_lines(messages: str) -> str:
    return "\n".join(messages.strip().splitlines()[-LAST_LINES:])
