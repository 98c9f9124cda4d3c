"""Files that are complete or absent: written beside, synced, then renamed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from .errors import ArmstageError


def read_text(path: str | Path, limit: int = 1024 * 1024) -> str | None:
    """The first ``limit`` bytes of a file as text, or None where there is no such file.

    Bytes that are not UTF-8 come out as ``\\xNN``. Raises ArmstageError for a file that is there
    and cannot be read.
    """
    try:
        with open(path, "rb", opener=_open) as file:
            return file.read(limit).decode("utf-8", "backslashreplace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ArmstageError(
            f"Failed to read `{path}`: {error.strerror or error}",
            hint=f"Check who may read it: ls -l {path}",
        ) from error


def _open(path: str, flags: int) -> int:
    """Open a file for reading, and no FIFO, at which one would wait for who writes into it."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISFIFO(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a FIFO, not a file")
    return handle


def write_atomic(path: str | Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replace a file by ``content`` in one step; a reader sees the old or the new, never a part."""
    import tempfile  # which loads more than all that only reads files needs

    path = Path(path)
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
    sync_folder(path.parent)


def changed_files(
    root: str | Path, wanted: Mapping[str, bytes], programs: Collection[str] = ()
) -> dict[str, bytes | None]:
    """The files below ``root`` that are not as wanted: path below it -> content now, None where absent.

    ``programs`` are those that must be executable. Raises ArmstageError for one that is there and
    cannot be read.
    """
    found: dict[str, bytes | None] = {}
    for path, content in wanted.items():
        try:
            now: bytes | None = Path(root, path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            now = None
        except OSError as error:
            raise ArmstageError(
                f"Failed to read `{Path(root, path)}`: {error.strerror or error}",
                hint=f"Look at what stands there: ls -ld {Path(root, path)}",
            ) from error
        if now != content or (path in programs and not os.access(Path(root, path), os.X_OK)):
            found[path] = now
    return found


def write_files(root: str | Path, contents: Mapping[str, bytes], programs: Collection[str] = ()) -> None:
    """Write files below ``root``, each in one step, making the folders they need; ``programs`` are executable.

    Raises ArmstageError naming the one that could not be written.
    """
    for path, content in contents.items():
        target = Path(root, path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(target, content, 0o755 if path in programs else 0o644)
        except OSError as error:
            raise ArmstageError(
                f"Failed to write `{target}`: {error.strerror or error}",
                hint=f"This user must be able to write in `{root}`",
            ) from error


def point_link(link: str | Path, target: str) -> bool:
    """Make the symbolic link ``link`` name ``target``, in one step. False when it already did.

    Raises ArmstageError when something that is not a link stands there: it is not ours to remove.
    """
    link = Path(link)
    if link.is_symlink():
        if os.readlink(link) == target:
            return False
    elif link.exists():
        raise ArmstageError(
            f"Expected a symbolic link or nothing at `{link}`, but found a file or folder",
            hint=f"Move it away, then run again: mv {link} {link}.before-armstage",
        )
    link.parent.mkdir(parents=True, exist_ok=True)
    partial = link.with_name(f".{link.name}.{os.getpid()}")
    if partial.is_symlink():
        partial.unlink()
    os.symlink(target, partial)
    os.replace(partial, link)
    sync_folder(link.parent)
    return True


def sync_folder(path: str | Path) -> None:
    """Make a rename in this folder durable, where the filesystem can."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network filesystems refuse fsync on a folder
    finally:
        os.close(handle)
