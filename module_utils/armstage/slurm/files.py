"""Files to and from a node: over the filesystem that both sides see, else through the step with a checksum."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import ArmstageError
from .client import StepLost

Run = Callable[..., "tuple[int, bytes, bytes]"]
"""run(argv, stdin=function that makes the chunks, stdout=sink) -> (status, standard output, standard error)."""

CHUNK = 256 * 1024
# $1 the new file, $2 its place, $3 its size. NFS may need a moment to show what the other side has just written.
TAKE = '[ -f "$1" ] && [ "$(stat -c %s "$1")" = "$3" ] && exec mv -f "$1" "$2"; exit 9'
RECEIVE = 'cat >"$1.$2" && sha256sum <"$1.$2" && exec mv -f "$1.$2" "$1"'
LOOK = 'exec stat -L -c "%i %s %Y" "$1"'
SEND = 'sha256sum <"$1" && exec cat <"$1"'


def put(run: Run, source: str, target: str) -> None:
    """Copy a local file to the node. Raises ArmstageError saying what the node said."""
    if not _put_shared(run, source, target):
        _put_through(run, source, target)


def _put_shared(run: Run, source: str, target: str) -> bool:
    """Write beside the target here and let the node move it there: where it can, both see one filesystem."""
    folder = os.path.dirname(target)
    if not os.path.isabs(target) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        return False
    try:
        handle, partial = tempfile.mkstemp(prefix=".armstage-", dir=folder)
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file, open(source, "rb") as content:
            shutil.copyfileobj(content, file, CHUNK)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o666 & ~_umask())
        status, _out, _err = run(["/bin/sh", "-c", TAKE, "sh", partial, target, str(os.path.getsize(partial))])
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return status == 0


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _put_through(run: Run, source: str, target: str) -> None:
    digest = hashlib.sha256()

    def chunks() -> Iterator[bytes]:
        with open(source, "rb") as file:
            while data := file.read(CHUNK):
                digest.update(data)
                yield data

    suffix = os.urandom(4).hex()
    status, out, err = run(["/bin/sh", "-c", RECEIVE, "sh", target, suffix], stdin=chunks)
    if status:
        raise ArmstageError(f"Failed to write `{target}`: {_text(err) or f'exit status {status}'}")
    _compare(target, digest.hexdigest(), out.split()[0].decode() if out else "nothing")


def fetch(run: Run, source: str, target: str) -> None:
    """Copy a file of the node to here, complete or not at all. Raises ArmstageError saying what the node said."""
    status, out, err = run(["/bin/sh", "-c", LOOK, "sh", source])
    if status:
        raise ArmstageError(f"Failed to read `{source}`: {_text(err)}")
    partial = Path(f"{target}.{os.urandom(4).hex()}")
    try:
        if _same(source, out):
            shutil.copyfile(source, partial)
        else:
            _fetch_through(run, source, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _same(path: str, seen: bytes) -> bool:
    """Whether the file of this name here is the one that the node sees: inode, size and time agree."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    here = f"{found.st_ino} {found.st_size} {int(found.st_mtime)}"
    return os.access(path, os.R_OK) and here == _text(seen)


def _fetch_through(run: Run, source: str, partial: Path) -> None:
    digest, head = hashlib.sha256(), bytearray()
    with open(partial, "wb") as file:

        def sink(data: bytes) -> Any:
            # The first line is sha256sum's: `DIGEST  -`.
            if not head.endswith(b"\n"):
                line, end, data = data.partition(b"\n")
                head.extend(line + end)
            digest.update(data)
            file.write(data)

        status, _out, err = run(["/bin/sh", "-c", SEND, "sh", source], stdout=sink)
    if status:
        raise ArmstageError(f"Failed to read `{source}`: {_text(err)}")
    _compare(source, head.split()[0].decode() if head else "nothing", digest.hexdigest())


def _compare(path: str, sent: str, received: str) -> None:
    if sent != received:
        raise StepLost(f"The sha256 of `{path}` does not match what was sent: {received} was received, {sent} sent")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()
