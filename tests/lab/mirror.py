"""A mirror on this machine: a folder over HTTP, with ranges, a record of what was asked for, and faults on demand."""

from __future__ import annotations

import threading
import time
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from .packing import compress, pack_one

PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Sign in to use this network.</body></html>\n"
FAULTS = {
    "html": "200 and a page in place of the file, as a captive portal answers",
    "truncated": "the connection ends in the middle of the file",
    "wrong": "as many bytes, but others",
    "missing": "404",
    "error": "503",
    "slow": "8 KiB ten times a second",
    "stalled": "the headers, then nothing",
    "escape": "a well-formed archive with a member that leaves its folder",
}
CHUNK = 8192


class Mirror:
    """`with Mirror(folder) as mirror:` serves until the block ends; `mirror.url` is its base address.

    `faults` maps a part of a path to a name of FAULTS, and may be changed while it serves. `requests` holds the method
    and the path of every request, in order.
    """

    def __init__(self, folder: Path, faults: dict[str, str] | None = None, port: int = 0) -> None:
        self.folder = folder.resolve()
        self.faults = dict(faults or {})
        self.requests: list[tuple[str, str]] = []
        self.closing = threading.Event()
        handler = type("Handler", (_Handler,), {"mirror": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def fault_of(self, path: str) -> str | None:
        return next((fault for part, fault in self.faults.items() if part in path), None)

    def __enter__(self) -> Mirror:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    mirror: ClassVar[Mirror]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(body=True)

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def answer(self, body: bool) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.mirror.requests.append((self.command, path))
        fault = self.mirror.fault_of(path)
        file = (self.mirror.folder / path.lstrip("/")).resolve()
        if fault == "error":
            return self.refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        if fault == "missing" or not file.is_relative_to(self.mirror.folder) or not file.is_file():
            return self.refuse(HTTPStatus.NOT_FOUND)
        data = spoil(file.read_bytes(), file.name, fault)
        start = self.start_of_range(len(data))
        if start is None:
            return self.refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
        self.send_response(HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK)
        self.send_header("Content-Type", "text/html" if fault == "html" else "application/octet-stream")
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header("Accept-Ranges", "bytes")
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if body:
            self.send(data[start:], fault)
        return None

    def start_of_range(self, size: int) -> int | None:
        """The first byte wanted: of `bytes=N-`, the one form that resuming needs. None where it is beyond the end."""
        header = self.headers.get("Range", "")
        if not (header.startswith("bytes=") and header.endswith("-") and header[6:-1].isdigit()):
            return 0
        start = int(header[6:-1])
        return start if start < size else None

    def send(self, data: bytes, fault: str | None) -> None:
        if fault == "truncated":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif fault == "stalled":
            self.mirror.closing.wait()
            self.close_connection = True
        elif fault == "slow":
            for offset in range(0, len(data), CHUNK):
                self.wfile.write(data[offset : offset + CHUNK])
                time.sleep(0.1)
        else:
            self.wfile.write(data)

    def refuse(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """`Mirror.requests` is the log."""


def spoil(data: bytes, name: str, fault: str | None) -> bytes:
    """The bytes that a fault puts in place of a file's own."""
    if fault == "html":
        return PAGE
    if fault == "wrong":
        return bytes(byte ^ 0xFF for byte in data[:64]) + data[64:]
    if fault == "escape":
        return compress(pack_one("../escaped", b"outside\n"), name)
    return data
