"""Downloads into a cache named by content: verified before they are used, resumed where they stopped."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from ..errors import ArmstageError
from .checksums import as_text, find_checksum
from .index import is_pypi, resolve
from .space import full, human, require_space
from .transport import (
    Limits,
    TransportError,
    file_name,
    is_local,
    is_trusted,
    open_url,
    patiently,
    without_credentials,
)

CHUNK = 1024 * 1024
RANGE_NOT_SATISFIABLE = 416
FLAGS = re.IGNORECASE | re.DOTALL

MAX_CHECKSUMS = 4 * 1024 * 1024
"""Bytes read of a checksum file."""

Progress = Callable[[int, "int | None"], None]
"""Called with the bytes there are and the bytes there will be, where that is known."""


@dataclass(frozen=True)
class Fetched:
    """A verified file in the cache."""

    path: Path
    sha256: str
    size: int


class Refused(ArmstageError):
    """The source answered, and what it sent is not what was asked for: another source is no remedy."""


def fetch(
    url: str,
    cache: Path,
    sha256: str = "",
    sha256_url: str = "",
    index_url: str = "",
    limits: Limits = Limits(),  # noqa: B008 - frozen
    progress: Progress | None = None,
) -> Fetched:
    """The file that ``url`` names, verified. Its digest comes from ``sha256``, from the checksum file at
    ``sha256_url``, or from the package index for a `pypi:` URL; without any it is refused.

    A file that is already in the cache is hashed, and no request is made for it. ``cache`` is an
    existing folder that no other process writes to. Raises TransportError when the source can't be
    had, Refused when it sent something else, ArmstageError when this host is at fault.
    """
    cached = cached_file(cache, sha256)
    if cached is not None:
        return Fetched(cached, sha256, cached.stat().st_size)
    location, digest = locate(url, sha256, sha256_url, index_url, limits)
    cached = cached_file(cache, digest) or _download(location, url, cache, digest, limits, progress)
    return Fetched(cached, digest, cached.stat().st_size)


def locate(url: str, sha256: str, sha256_url: str, index_url: str, limits: Limits) -> tuple[str, str]:
    """Where the file lies and the digest it must have; asks the index or the checksum file where it has to."""
    if is_pypi(url):
        location, listed = resolve(url, index_url, limits)
        if listed and sha256 and listed != sha256:
            raise _mismatch(url, sha256, listed, "the index lists another digest for it")
        if listed or sha256:
            return location, sha256 or str(listed)
        url = location
    return url, sha256 or _published_digest(url, sha256_url, limits)


def hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def cached_file(cache: Path, sha256: str) -> Path | None:
    """The file of this digest in the cache, hashed now; a damaged one is removed."""
    path = cache / sha256
    if not sha256 or not path.is_file():
        return None
    if hash_file(path) == sha256:
        return path
    path.unlink()  # a disk that lost blocks, or a hand that edited it
    return None


def _published_digest(url: str, sha256_url: str, limits: Limits) -> str:
    """The digest that the release itself publishes for this file, read over TLS."""
    if not sha256_url:
        raise ArmstageError(
            f"No digest is known for `{without_credentials(url)}`",
            hint="Give its sha256, or as sha256_url the checksum file of the same release",
        )
    _require_trusted(sha256_url, is_trusted(sha256_url))

    def read() -> bytes:
        with open_url(sha256_url, limits) as answer:
            _require_trusted(next((step for step in answer.way if not is_trusted(step)), answer.url), answer.trusted)
            return answer.read_all(MAX_CHECKSUMS)

    try:
        content = patiently(read)
    except TransportError as error:
        reason = f"its checksum file `{without_credentials(sha256_url)}`: {error.reason}"
        raise TransportError(reason, error.transient, error.status, error.hint) from error
    name = file_name(url) if not is_local(url) else os.path.basename(url)
    digest = find_checksum(as_text(content), name)
    if digest is None:
        raise Refused(
            f"Expected one sha256 of `{name}` in `{without_credentials(sha256_url)}`, but found {_kind(content)}",
            hint="The release may have been rebuilt under other names: look at its page, then correct the pin",
        )
    return digest


def _require_trusted(url: str, trusted: bool) -> None:
    if not trusted:
        raise ArmstageError(
            f"Expected a checksum file over TLS, but found `{without_credentials(url)}`",
            hint="Use its https address, or give the sha256 itself",
        )


class _Part:
    """A download in progress: what is there, its digest so far, and what the server called it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content_type = ""
        self.encoding = ""
        self._digest = hashlib.sha256()
        self.size = 0
        self._file = open(path, "a+b")  # noqa: SIM115 - closed on exit
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            self._digest.update(chunk)
            self.size += len(chunk)

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        if self.size == 0:
            self.discard()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def append(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._digest.update(chunk)
        self.size += len(chunk)

    def restart(self) -> None:
        self._file.truncate(0)
        self._digest, self.size = hashlib.sha256(), 0

    def head(self) -> bytes:
        self._file.seek(0)
        return self._file.read(4096)

    def flush(self) -> None:
        self._file.flush()

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)


def _download(url: str, asked: str, cache: Path, sha256: str, limits: Limits, progress: Progress | None) -> Path:
    """Fetch into `<sha256>.part`, verify, rename. Only a broken connection leaves the part, to be resumed."""
    with _Part(cache / f"{sha256}.part") as part:
        resumed = part.size > 0
        try:
            if part.sha256 != sha256:
                _receive_with_retries(url, part, limits, progress)
            if part.sha256 != sha256 and resumed:
                part.restart()
                _receive_with_retries(url, part, limits, progress)
            part.flush()
        except OSError as error:
            part.discard()
            raise full(error, cache, f"while `{without_credentials(asked)}` was downloaded") or error from error
        if part.sha256 != sha256:
            part.discard()
            packed = f" packed for the way (Content-Encoding: {part.encoding})" if part.encoding else ""
            kind = f"{_kind(part.head(), part.content_type)}{packed}, {human(part.size)}"
            raise _mismatch(asked, sha256, part.sha256, kind)
        os.replace(part.path, cache / sha256)
    return cache / sha256


def _receive_with_retries(url: str, part: _Part, limits: Limits, progress: Progress | None) -> None:
    def receive() -> None:
        try:
            _receive(url, part, limits, progress)
        except TransportError as error:
            if error.status != RANGE_NOT_SATISFIABLE or not part.size:
                raise
            part.restart()
            _receive(url, part, limits, progress)

    patiently(receive)


def _receive(url: str, part: _Part, limits: Limits, progress: Progress | None) -> None:
    """Append what is missing to ``part``; a server that ignores the range starts it over."""
    with open_url(url, limits, offset=part.size) as response:
        part.content_type, part.encoding = response.content_type, response.encoding
        if response.start != part.size:
            if response.start:
                raise TransportError(f"sent the file from byte {response.start} on, not from {part.size}")
            part.restart()
        if response.length is not None:
            require_space(part.path.parent, response.length, f"for `{without_credentials(url)}`")
        while chunk := response.read(CHUNK):
            part.append(chunk)
            if progress is not None:
                progress(part.size, response.total)
    if response.length is not None and part.size < response.start + response.length:
        raise TransportError(f"ended after {part.size} of {response.start + response.length} bytes", transient=True)


def _mismatch(url: str, expected: str, found: str, what: str) -> Refused:
    return Refused(
        f"Expected sha256 `{expected}` for `{without_credentials(url)}`, but received `{found}`: {what}",
        hint="Nothing was kept. If the file was published anew under its name, find out why before changing the pin",
    )


def _kind(content: bytes, content_type: str = "") -> str:
    """What these first bytes look like, so that a sign-in page is called one."""
    if not content.strip():
        return "an empty answer"
    text = content[:4096].decode("utf-8", "ignore")
    if len(text) < len(content[:4096]) * 0.9 or "\0" in text:
        return "binary content"
    if content_type == "text/html" or re.match(r"\s*(<!--.*?-->\s*)?<(!doctype html|html|head)\b", text, FLAGS):
        title = re.search(r"<title[^>]*>\s*(.*?)\s*</title>", text, FLAGS)
        return "an HTML page" + (f" titled `{title[1][:80]}`" if title else "")
    return f"a text that begins `{text.split(maxsplit=0)[0].splitlines()[0][:80]}`"
