"""A file server that misbehaves on demand, and archives made to measure."""

import http.server
import io
import re
import struct
import tarfile
import threading
import time
import zipfile
from dataclasses import dataclass, field

import pytest

MACHINES = {"aarch64": 183, "x86_64": 62}


@dataclass
class Reply:
    """What the server answers for a path. ``cut`` ends the connection after so many bytes of a body
    that was announced whole; ``pause`` is seconds before each of the first two blocks."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/octet-stream"
    ranges: bool = True
    cut: int | None = None
    pause: float = 0
    announce: bool = True
    headers: dict = field(default_factory=dict)
    head_status: int | None = None


class Server:
    """Serves ``replies``; each path has a list of them, used up from the front, the last one for good."""

    def __init__(self):
        self.replies = {}
        self.requests = []
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.handle_error = lambda *_request: None  # clients leave early on purpose
        self.base = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def put(self, path, *replies, **options):
        """Serve Reply objects, or bytes with Reply's options, at ``path``; returns the URL."""
        self.replies[path] = [reply if isinstance(reply, Reply) else Reply(reply, **options) for reply in replies]
        return self.base + path

    def listen_with(self, context):
        """From now on, talk TLS."""
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.base = self.base.replace("http://", "https://")

    def asked(self, method="GET"):
        return [path for verb, path, _headers in self.requests if verb == method]

    def close(self):
        self._http.shutdown()
        self._http.server_close()

    def _handler(server):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self._answer(body=True)

            def do_HEAD(self):
                self._answer(body=False)

            def _answer(self, body):
                server.requests.append((self.command, self.path, dict(self.headers)))
                queue = server.replies.get(self.path, [Reply(b"not here", 404, "text/plain")])
                reply = queue.pop(0) if len(queue) > 1 and body else queue[0]
                content, status, headers = reply.body, reply.status, dict(reply.headers)
                if not body and reply.head_status:
                    status = reply.head_status
                wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
                if wanted and reply.ranges and status == 200:
                    start = int(wanted[1])
                    if start >= len(content):
                        content, status = b"", 416
                    else:
                        end = int(wanted[2] or len(content) - 1)
                        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
                        content, status = content[start : end + 1], 206
                self.send_response(status)
                self.send_header("Content-Type", reply.content_type)
                if reply.announce:
                    self.send_header("Content-Length", str(len(content)))
                else:
                    self.close_connection = True
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if not body:
                    return
                sent = content if reply.cut is None else content[: reply.cut]
                half = len(sent) // 2
                for block in (sent[:half], sent[half:]):
                    time.sleep(reply.pause)
                    self.wfile.write(block)
                    self.wfile.flush()
                if reply.cut is not None:
                    self.close_connection = True

            def log_message(self, *_arguments):
                pass

        return Handler


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


@pytest.fixture
def reply():
    return Reply


@pytest.fixture(scope="session")
def elf():
    """The first 64 bytes of an ELF file for a machine, and some more."""

    def make(machine="aarch64", extra=b""):
        ident = b"\x7fELF\x02\x01\x01" + bytes(9)
        return struct.pack("<16sHHIQQQIHHHHHH", ident, 3, MACHINES[machine], 1, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0) + extra

    return make


@pytest.fixture(scope="session")
def tar():
    """``tar({name: content})``: bytes make a file, text a symbolic link, None a folder, a TarInfo itself.

    Names below ``bin/`` are executable; ``packed`` is one of tarfile's modes.
    """

    def make(members, packed="w:gz"):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode=packed) as archive:
            for name, content in members.items() if isinstance(members, dict) else members:
                info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
                info.mtime = info.mtime or 1_700_000_000
                if content is None:
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                elif isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                elif isinstance(content, bytes):
                    info.size, info.mode = len(content), 0o755 if "bin/" in name else 0o644
                archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
        return buffer.getvalue()

    return make


@pytest.fixture(scope="session")
def wheel():
    """``wheel({name: content})`` as pip's tools write it: modes in the external attributes, links as text."""

    def make(members, modes=()):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                info = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
                kind = 0o120000 if isinstance(content, str) else 0o100000
                info.external_attr = (kind | dict(modes).get(name, 0o644)) << 16
                archive.writestr(info, content, zipfile.ZIP_DEFLATED)
        return buffer.getvalue()

    return make
