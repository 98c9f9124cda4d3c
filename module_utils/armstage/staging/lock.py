"""A lock between hosts that needs neither flock nor a lock server: NFS and Lustre often offer neither.

The lock is a folder that holds one file, named by its owner's token. It is taken by renaming a
prepared folder to the lock's name, which the filesystem refuses while a folder with something in it
stands there, and given up (or taken from a dead owner) by unlinking that one file by its name. So
nobody can break a lock other than the one that was judged, however the steps interleave.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Callable

from ..errors import ArmstageError

HEARTBEAT = 10.0
"""Seconds between two touches of the owner file."""

STALE_AFTER = 120.0
"""Seconds without a touch after which an owner counts as dead; attribute caches of NFS hold up to 60."""

POLL = (0.1, 2.0)
"""Seconds between two tries: the first wait and the longest."""

HELD = (errno.ENOTEMPTY, errno.EEXIST)


@dataclass(frozen=True)
class Owner:
    """Who holds a lock. ``start`` is the process's start in clock ticks after boot, ``since`` ISO UTC.

    A process number means something only within one boot and one PID namespace.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    start: str
    since: str

    @classmethod
    def this_process(cls) -> Owner:
        return cls(
            host=os.uname().nodename,
            boot=_first_line("/proc/sys/kernel/random/boot_id"),
            namespace=_read_link("/proc/self/ns/pid"),
            pid=os.getpid(),
            start=_start_ticks(os.getpid()) or "",
            since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )

    def is_gone(self) -> bool:
        """True when this host can tell that the process has ended; False when it can't tell."""
        here = Owner.this_process()
        if not self.boot or (self.boot, self.namespace) != (here.boot, here.namespace):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # another user's process: it exists, even where /proc hides it
        start = _start_ticks(self.pid)
        return start is not None and start != self.start


@dataclass(frozen=True)
class _Seen:
    """A lock as it was found: the owner's file, what it says and when it was last touched."""

    token: str
    owner: Owner | None
    touched: float

    def __str__(self) -> str:
        if self.owner is None:
            return "an owner that left no name"
        return f"host `{self.owner.host}`, process {self.owner.pid}, since {self.owner.since}"


class Lock:
    """A context manager: inside it, this process is the only one that holds ``path``.

    Waits up to ``wait`` seconds; ``on_wait`` is told the holder when a wait begins and whenever the
    holder changes. Raises ArmstageError that names the holder once the time is over.
    """

    def __init__(self, path: str | Path, wait: float = 1800.0, on_wait: Callable[[str], None] | None = None) -> None:
        self.path = Path(path)
        self.wait = wait
        self.on_wait = on_wait
        self.token = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self.held = False
        self._stop = threading.Event()
        self._beat: threading.Thread | None = None

    @property
    def lost(self) -> bool:
        """True when another host judged this process dead (it was suspended) and took the lock."""
        return self.held and not self._own_file.exists()

    def __enter__(self) -> Lock:
        prepared = self.path.with_name(f"{self.path.name}.{self.token}")
        try:
            prepared.mkdir()
            prepared.chmod(os.stat(self.path.parent).st_mode & 0o777)  # who may write there may break a dead lock
            (prepared / self.token).write_text(json.dumps(asdict(Owner.this_process())) + "\n", encoding="utf-8")
            (prepared / self.token).chmod(0o644)
            self._take(prepared)
        except OSError as error:
            raise ArmstageError(
                f"Failed to take the lock `{self.path}`: {error.strerror or error}",
                hint=f"This user must be able to write in the folder: ls -ld {self.path.parent}",
            ) from error
        finally:
            if not self.held:
                _discard(prepared)
        self._stop.clear()
        self._beat = threading.Thread(target=self._touch_regularly, name="lock-heartbeat", daemon=True)
        self._beat.start()
        self._sweep()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._beat is not None:
            self._beat.join()
        self.held = False
        with contextlib.suppress(OSError):
            self._own_file.unlink()
        with contextlib.suppress(OSError):
            self.path.rmdir()  # refused, rightly, when the next owner is already in

    @property
    def _own_file(self) -> Path:
        return self.path / self.token

    def _take(self, prepared: Path) -> None:
        deadline = time.monotonic() + self.wait
        pause, told = POLL[0], ""
        last_sign: tuple[_Seen | None, float] = (None, time.monotonic())
        while not self._try(prepared):
            os.utime(prepared / self.token)
            holder, now = _look(self.path), os.stat(prepared / self.token).st_mtime
            if holder != last_sign[0]:
                last_sign = (holder, time.monotonic())
            # Whatever its time stamps say, as after a clock was set back: no sign for so long is no sign.
            silent = time.monotonic() - last_sign[1] > STALE_AFTER
            if holder is None:
                _remove_nfs_leftovers(self.path, now)
            elif silent or _is_stale(holder, now):
                with contextlib.suppress(FileNotFoundError):
                    (self.path / holder.token).unlink()
                continue
            if holder is not None and holder.token != told:
                told = holder.token
                if self.on_wait is not None:
                    self.on_wait(f"waiting for `{self.path}`, held by {holder}")
            left = deadline - time.monotonic()
            if left <= 0:
                by = holder or "one owner after another"
                raise ArmstageError(
                    f"Waited {self.wait:.0f} s for the lock `{self.path}`, held by {by}",
                    hint="Another run is staging into the same root: let it finish, or end it there, then run again",
                )
            time.sleep(min(pause, left))
            pause = min(pause * 2, POLL[1])

    def _try(self, prepared: Path) -> bool:
        try:
            os.rename(prepared, self.path)
        except OSError as error:
            if error.errno in HELD:
                return False
            # NFS: a rename that was done, but whose answer was lost and asked for again.
            if error.errno != errno.ENOENT or not self._own_file.exists():
                raise
        self.held = True
        return True

    def _touch_regularly(self) -> None:
        while not self._stop.wait(HEARTBEAT):
            with contextlib.suppress(OSError):
                os.utime(self._own_file)

    def _sweep(self) -> None:
        """Remove what processes left that were killed while they waited."""
        with contextlib.suppress(OSError):
            now = os.stat(self._own_file).st_mtime
            for folder in self.path.parent.glob(f"{self.path.name}.*"):
                waiting = _look(folder)
                # One without a file was killed before it wrote it, or is just about to.
                stale = _is_stale(waiting, now) if waiting else now - folder.stat().st_mtime > STALE_AFTER
                if stale:
                    _discard(folder)


def seems_held(path: str | Path) -> bool:
    """Whether somebody alive holds a lock, as far as reading tells: nothing is written to find out."""
    seen = _look(Path(path))
    return seen is not None and not _is_stale(seen, time.time())


def _look(folder: Path) -> _Seen | None:
    """The owner of a lock folder, or None when it has just gone.

    The file is opened, not only looked at: on NFS opening is what renews cached attributes.
    """
    try:
        token = next((name for name in os.listdir(folder) if not name.startswith(".nfs")), None)
        if token is None:
            return None
        with open(folder / token, encoding="utf-8", errors="replace") as file:
            text, touched = file.read(4096), os.fstat(file.fileno()).st_mtime
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return None
        raise
    try:
        return _Seen(token, Owner(**json.loads(text)), touched)
    except (ValueError, TypeError):
        return _Seen(token, None, touched)


def _is_stale(seen: _Seen, now: float) -> bool:
    """Pure but for /proc: the process is known to be gone, or was not heard of for too long.

    ``now`` is the filesystem's own clock: hosts need not agree on the time.
    """
    return (seen.owner is not None and seen.owner.is_gone()) or now - seen.touched > STALE_AFTER


def _remove_nfs_leftovers(folder: Path, now: float) -> None:
    """Remove what an NFS client keeps of a file that was deleted while open, where the client is long gone:
    nobody else would, and a folder that holds one is never empty."""
    for leftover in folder.glob(".nfs*"):
        with contextlib.suppress(OSError):
            if now - leftover.stat().st_mtime > STALE_AFTER:
                leftover.unlink()


def _discard(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(folder / name)
        os.rmdir(folder)


def _start_ticks(pid: int) -> str | None:
    """Field 22 of /proc/PID/stat (proc(5)), `ended` for a zombie, None where it can't be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The command's name, in parentheses, may hold spaces and parentheses.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return "ended" if fields[0] in ("Z", "X") else fields[19]


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
