"""One request: proxies, trusted certificates, separate time limits, and failures with a plain reason."""

from __future__ import annotations

import base64
import email.utils
import errno
import functools
import http.client
import os
import re
import socket
import ssl
import stat
import time
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Callable, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ..errors import ArmstageError
from .access import credentials, proxies, proxy_of

CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Files or folders of certificates to trust; the first two replace the system's own."""

SYSTEM_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
"""Where Debian, Fedora and SUSE keep theirs: a Python built elsewhere may look in another place."""

TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
TRANSIENT_ERRNO = frozenset({errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ETIMEDOUT})

RETRIES = 3
BACKOFF = 1.0
"""Seconds before the first retry; doubled each time."""

LONGEST_WAIT = 60.0
"""Seconds that a server may ask to be left alone (Retry-After) and still be waited for."""

STATUS_HINTS = {
    401: "Give its credentials in the address (https://USER:PASSWORD@HOST/) or in ~/.netrc of the user who stages",
    407: "Give the proxy's credentials in its variable: https_proxy=http://USER:PASSWORD@HOST:PORT",
    429: "Wait, stage from another address, or put a mirror's copy in front",
}

LONGEST_SILENCE = 7.0 * 24 * 3600
"""Seconds that a socket is told to wait at most: beyond what any network does, and what any system takes."""

READY = "%/:=&?~#+!$,;'@()*[]"
"""Characters of an address that are sent as they are; a space or an accent is escaped."""

GZIP_MAGIC = b"\x1f\x8b"

Given = TypeVar("Given")


class TransportError(Exception):
    """Why a request failed. ``status`` is HTTP's, or 0; ``transient`` means that trying again may help,
    after ``wait`` seconds where the server says so."""

    def __init__(
        self, reason: str, transient: bool = False, status: int = 0, hint: str = "", wait: float = 0.0
    ) -> None:
        self.reason = "".join(letter if letter.isprintable() else "?" for letter in " ".join(reason.split()))
        super().__init__(self.reason)
        self.transient = transient
        self.status = status
        self.hint = hint
        self.wait = wait


def patiently(ask: Callable[[], Given], longest: float = LONGEST_WAIT) -> Given:
    """What ``ask`` gives, asked again after a transient failure, but for a wait longer than ``longest`` seconds in all.

    Raises the last TransportError.
    """
    waited = 0.0
    for attempt in range(RETRIES):
        pause = BACKOFF * 2**attempt
        try:
            return ask()
        except TransportError as error:
            pause = max(pause, error.wait)
            if not error.transient or waited + pause > longest:
                raise
            time.sleep(pause)
            waited += pause
    return ask()


@dataclass(frozen=True)
class Limits:
    """Seconds to connect (TLS included) and seconds without a byte while reading."""

    connect: float = 10.0
    read: float = 60.0


@dataclass
class Response:
    """An open answer. ``length`` is what the server announced for this body, or None: the caller
    counts; ``start`` is the first byte of a partial answer; ``total`` the whole file's size or None;
    ``encoding`` what it is packed with though that was declined; ``way`` the addresses it was redirected to."""

    body: BinaryIO
    url: str
    length: int | None
    start: int
    total: int | None
    content_type: str
    encoding: str = ""
    way: tuple[str, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether nobody on the way could change it, redirects included."""
        return all(is_trusted(url) for url in (self.url, *self.way))

    def read(self, size: int) -> bytes:
        try:
            return self.body.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise _explain(error, self.url) from error

    def read_all(self, limit: int) -> bytes:
        """The whole body, of which no more than ``limit`` bytes are kept; unpacked where it was packed for the way."""
        content = bytearray()
        while len(content) < limit and (chunk := self.read(limit - len(content))):
            content += chunk
        if self.encoding in ("gzip", "x-gzip") and content.startswith(GZIP_MAGIC):
            try:
                return zlib.decompressobj(wbits=31).decompress(bytes(content), limit)
            except zlib.error as error:
                raise TransportError(
                    f"sent what can't be unpacked (Content-Encoding: {self.encoding}): {error}"
                ) from error
        return bytes(content)

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_error: object) -> None:
        self.body.close()


def is_local(url: str) -> bool:
    """Whether a URL is a file of this host: a path, or `file:` with one slash or three (RFC 8089)."""
    return not re.match(r"[a-z][a-z0-9+.-]*://", url, re.IGNORECASE) or url.lower().startswith("file:")


def is_trusted(url: str) -> bool:
    """Whether nobody on the way can change what this URL gives: TLS, this host, or a file."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    # Digits and dots alone: 127.example.org is a name that anyone may own.
    loopback = host in ("localhost", "::1") or re.fullmatch(r"127(\.\d+){1,3}", host, re.ASCII) is not None
    return is_local(url) or parts.scheme.lower() == "https" or loopback


def local_path(url: str) -> Path:
    return Path(unquote(urlsplit(url).path)) if url.lower().startswith("file:") else Path(os.path.expanduser(url))


def file_name(url: str) -> str:
    """The last part of a URL's path, decoded: `cpython-3.12.12%2B2026.tar.gz` is a name with a plus."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def without_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def open_url(
    url: str, limits: Limits, method: str = "GET", offset: int = 0, until: int | None = None, accept: str = "*/*"
) -> Response:
    """Open a URL, `file://` URL or path, from byte ``offset`` on where the server can do that.

    Raises TransportError.
    """
    if is_local(url):
        return _open_local(url, offset)
    try:
        parts = urlsplit(url)
        _valid = parts.port
    except ValueError as error:
        raise TransportError(f"not a usable URL: {error}") from error
    if parts.scheme not in ("http", "https"):
        raise TransportError(f"expected http, https or file, but found `{parts.scheme}`")
    proxy = proxy_of(url)
    if proxy is not None and proxy.scheme not in ("http", "https"):
        raise TransportError(
            f"{proxy} is not an HTTP proxy, and others are not supported",
            hint=f"Set {proxy.variable} to an http:// proxy, or name `{parts.hostname}` in no_proxy",
        )
    request = urllib.request.Request(quote(without_credentials(url), safe=READY), method=method)
    request.add_header("User-Agent", "armstage")
    request.add_header("Accept", accept)
    request.add_header("Accept-Encoding", "identity")
    known = (unquote(parts.username), unquote(parts.password or "")) if parts.username is not None else None
    known = known or credentials(parts.hostname or "")
    if known is not None:
        secret = ":".join(known).encode()
        # Unredirected: it is meant for this host and not for where it may send us.
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(secret).decode())
    if offset or until is not None:
        request.add_header("Range", f"bytes={offset}-{'' if until is None else until}")
    redirects = _Redirects()
    try:
        answer = _opener(limits, redirects).open(request, timeout=min(limits.connect, LONGEST_SILENCE))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _explain(error, url) from error
    return _response(answer, answer.url, tuple(redirects.way))


def _response(answer: http.client.HTTPResponse, url: str, way: tuple[str, ...]) -> Response:
    length = answer.headers.get("Content-Length", "")
    size = int(length) if length.isdigit() else None
    start, total = 0, size
    if answer.status == 206:
        span = re.match(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
        if span is None:
            raise TransportError("sent a part of the file without saying which (no Content-Range)")
        start, total = int(span[1]), None if span[2] == "*" else int(span[2])
    content_type = answer.headers.get_content_type() if "Content-Type" in answer.headers else ""
    encoding = answer.headers.get("Content-Encoding", "").strip().lower()
    return Response(answer, url, size, start, total, content_type, "" if encoding == "identity" else encoding, way)


def _open_local(url: str, offset: int) -> Response:
    path = local_path(url)
    host = urlsplit(url).netloc if url.lower().startswith("file:") else ""
    if host not in ("", "localhost"):
        raise TransportError(
            f"a file: address is of this host, and `{url}` names another, `{host}`",
            hint="Write a path with three slashes in front: file:///path/of/the/file",
        )
    try:
        # Not blocking: a pipe that nobody writes to would be waited for without end.
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115 - the Response closes it
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            file.close()
            raise TransportError(f"expected a file, but found a pipe or device: `{path}`")
        size = status.st_size
        file.seek(min(offset, size))
    except OSError as error:
        raise TransportError(f"{error.strerror or error}: `{path}`") from error
    return Response(file, url, size - min(offset, size), min(offset, size), size, "")


def _opener(limits: Limits, redirects: _Redirects) -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler(proxies()), redirects, _HTTP(limits), _HTTPS(limits))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to http and https only, status 308 also before Python 3.11, and remembers the way."""

    def __init__(self) -> None:
        self.way: list[str] = []

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise TransportError(f"redirects to `{without_credentials(newurl)}`, expected http or https")
        self.way.append(newurl)
        return super().redirect_request(req, fp, 307 if code == 308 else code, msg, headers, newurl)

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


class _Connection(http.client.HTTPConnection):
    def __init__(self, *args: object, read_timeout: float, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._read_timeout = read_timeout

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(min(self._read_timeout, LONGEST_SILENCE))


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    """``connect`` runs _Connection's, which runs HTTPSConnection's: TLS belongs to connecting."""


class _HTTP(urllib.request.HTTPHandler):
    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._make = functools.partial(_Connection, read_timeout=limits.read)

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._make, request)


class _HTTPS(urllib.request.HTTPSHandler):
    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._make = functools.partial(_SecureConnection, read_timeout=limits.read)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._make, request, context=trusted_context())


@functools.lru_cache(maxsize=1)
def trusted_context() -> ssl.SSLContext:
    """The system's certificates and those that the usual variables name.

    Raises ArmstageError when a variable names what can't be read: falling back to other
    certificates would only move the failure to a place that does not name the cause.
    """
    context = ssl.create_default_context()
    for variable in CERTIFICATE_VARIABLES:
        for named in filter(None, os.environ.get(variable, "").split(os.pathsep)):
            _trust(context, variable, named)
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath or any(os.environ.get(name) for name in CERTIFICATE_VARIABLES)):
        for bundle in filter(os.path.exists, SYSTEM_BUNDLES):
            context.load_verify_locations(cafile=bundle)
    return context


def _trust(context: ssl.SSLContext, variable: str, named: str) -> None:
    try:
        if os.path.isdir(named):
            context.load_verify_locations(capath=named)
        else:
            context.load_verify_locations(cafile=named)
    except (OSError, ssl.SSLError) as error:
        raise ArmstageError(
            f"Failed to read the certificates that `{variable}` names: `{named}`: {error}",
            hint=f"Correct or unset {variable}",
        ) from error


def _explain(error: BaseException, url: str) -> TransportError:
    """A failure of any layer as one plain reason; table-like, first match wins."""
    host, proxy = urlsplit(url).hostname or url, proxy_of(url)
    peer = str(proxy) if proxy else f"`{host}`"
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return _explain_status(error)
    if isinstance(error, urllib.error.URLError):
        if not isinstance(error.reason, BaseException):
            return TransportError(f"not a usable URL: {error.reason}")
        error = error.reason
    if isinstance(error, http.client.InvalidURL):
        return TransportError(f"not a usable URL: {error}" + (f" ({proxy})" if proxy else ""))
    if isinstance(error, socket.gaierror):
        named = f"the name `{proxy.host}` of {proxy}" if proxy else f"the name `{host}`"
        return TransportError(f"{named} does not resolve ({error.strerror})")
    if isinstance(error, ssl.SSLCertVerificationError):
        return TransportError(
            f"the certificate of `{host}` is not trusted ({error.verify_message})",
            hint="Behind an intercepting proxy, set SSL_CERT_FILE to the bundle that holds its certificate",
        )
    if isinstance(error, (socket.timeout, TimeoutError)):
        return TransportError(f"{peer} did not answer in time", transient=True)
    if isinstance(error, (http.client.HTTPException, ssl.SSLError)):
        return TransportError(f"the connection to {peer} broke off ({error or type(error).__name__})", transient=True)
    if isinstance(error, OSError):
        refused = re.search(r"Tunnel connection failed: (\d+)", str(error))
        hint = STATUS_HINTS.get(int(refused[1]), "") if refused else ""
        return TransportError(f"{peer}: {error.strerror or error}", error.errno in TRANSIENT_ERRNO, hint=hint)
    return TransportError(f"not a usable URL: {error}")


def _explain_status(error: urllib.error.HTTPError) -> TransportError:
    circle = str(error.reason).startswith(urllib.request.HTTPRedirectHandler.inf_msg.split("\n")[0])
    reason = f"HTTP {error.code} {'redirects in a circle' if circle else error.reason}"
    wait = _retry_after(error.headers.get("Retry-After", "") if error.headers else "")
    if wait > LONGEST_WAIT:
        reason += f", and asks to be left alone for {wait:.0f} s"
    return TransportError(reason, error.code in TRANSIENT_STATUS, error.code, STATUS_HINTS.get(error.code, ""), wait)


def _retry_after(value: str) -> float:
    """Seconds that a Retry-After header asks for, a number or a date (RFC 9110, 10.2.3); 0 without one."""
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0
