"""One request: proxies, trusted certificates, separate time limits, and failures with a plain reason."""

from __future__ import annotations

import base64
import errno
import functools
import http.client
import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit, urlunsplit

from ..errors import ArmstageError

CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Files or folders of certificates to trust; the first two replace the system's own."""

SYSTEM_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
"""Where Debian, Fedora and SUSE keep theirs: a Python built elsewhere may look in another place."""

TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
TRANSIENT_ERRNO = frozenset({errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ETIMEDOUT})


class TransportError(Exception):
    """Why a request failed. ``status`` is HTTP's, or 0; ``transient`` means that trying again may help."""

    def __init__(self, reason: str, transient: bool = False, status: int = 0, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.transient = transient
        self.status = status
        self.hint = hint


@dataclass(frozen=True)
class Limits:
    """Seconds to connect (TLS included) and seconds without a byte while reading."""

    connect: float = 10.0
    read: float = 60.0


@dataclass
class Response:
    """An open answer. ``length`` is what the server announced for this body, or None: the caller
    counts; ``start`` is the first byte of a partial answer; ``total`` the whole file's size or None."""

    body: BinaryIO
    url: str
    length: int | None
    start: int
    total: int | None
    content_type: str

    def read(self, size: int) -> bytes:
        try:
            return self.body.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise _explain(error, self.url) from error

    def read_all(self, limit: int) -> bytes:
        """The whole body, of which no more than ``limit`` bytes are kept."""
        content = bytearray()
        while len(content) < limit and (chunk := self.read(limit - len(content))):
            content += chunk
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
    loopback = host in ("localhost", "::1") or host.startswith("127.")
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
    request = urllib.request.Request(without_credentials(url), method=method)
    request.add_header("User-Agent", "armstage")
    request.add_header("Accept", accept)
    request.add_header("Accept-Encoding", "identity")
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        # Unredirected: it is meant for this host and not for where it may send us.
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(secret).decode())
    if offset or until is not None:
        request.add_header("Range", f"bytes={offset}-{'' if until is None else until}")
    try:
        answer = _opener(limits).open(request, timeout=limits.connect)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _explain(error, url) from error
    return _response(answer, answer.url)


def _response(answer: http.client.HTTPResponse, url: str) -> Response:
    length = answer.headers.get("Content-Length", "")
    size = int(length) if length.isdigit() else None
    start, total = 0, size
    if answer.status == 206:
        span = re.match(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
        if span is None:
            raise TransportError("sent a part of the file without saying which (no Content-Range)")
        start, total = int(span[1]), None if span[2] == "*" else int(span[2])
    content_type = answer.headers.get_content_type() if "Content-Type" in answer.headers else ""
    return Response(answer, url, size, start, total, content_type)


def _open_local(url: str, offset: int) -> Response:
    path = local_path(url)
    try:
        file = open(path, "rb")  # noqa: SIM115 - the Response closes it
        size = os.fstat(file.fileno()).st_size
        file.seek(min(offset, size))
    except OSError as error:
        raise TransportError(f"{error.strerror or error}: `{path}`") from error
    return Response(file, url, size - min(offset, size), min(offset, size), size, "")


def _opener(limits: Limits) -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_HTTP(limits), _HTTPS(limits))


class _Connection(http.client.HTTPConnection):
    def __init__(self, *args: object, read_timeout: float, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._read_timeout = read_timeout

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(self._read_timeout)


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
    host = urlsplit(url).hostname or url
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return TransportError(f"HTTP {error.code} {error.reason}", error.code in TRANSIENT_STATUS, error.code)
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException):
        error = error.reason
    if isinstance(error, socket.gaierror):
        return TransportError(f"the name `{host}` does not resolve ({error.strerror})")
    if isinstance(error, ssl.SSLCertVerificationError):
        return TransportError(
            f"the certificate of `{host}` is not trusted ({error.verify_message})",
            hint="Behind an intercepting proxy, set SSL_CERT_FILE to the bundle that holds its certificate",
        )
    if isinstance(error, (socket.timeout, TimeoutError)):
        return TransportError(f"`{host}` did not answer in time", transient=True)
    if isinstance(error, (http.client.HTTPException, ssl.SSLError)):
        return TransportError(f"the connection to `{host}` broke off ({error or type(error).__name__})", transient=True)
    if isinstance(error, OSError):
        return TransportError(f"`{host}`: {error.strerror or error}", transient=error.errno in TRANSIENT_ERRNO)
    return TransportError(f"not a usable URL: {error}")
