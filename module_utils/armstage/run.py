"""Commands with a time limit, bounded output, and no wait for a child that cannot be killed."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_OUTPUT = 8 * 1024 * 1024
"""Bytes kept of each stream; a child that writes more is ended."""

KILL_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL, and again between SIGKILL and giving the child up."""


@dataclass(frozen=True)
class Completed:
    """How a command ended.

    ``rc`` is None when it never ended: ``abandoned`` then says that it could not even be killed
    (a process in uninterruptible sleep). ``truncated`` says that output was cut at the limit.
    """

    argv: tuple[str, ...]
    rc: int | None
    out: str
    err: str
    timed_out: bool = False
    abandoned: bool = False
    truncated: bool = False

    @property
    def ok(self) -> bool:
        return self.rc == 0 and not self.timed_out and not self.truncated


def run(
    argv: Sequence[str],
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    max_output: int = MAX_OUTPUT,
    group: bool = True,
) -> Completed:
    """Run ``argv`` for at most ``timeout`` seconds, its standard input closed off.

    The child leads a session of its own, so that what it started ends with it. A child that
    ignores SIGTERM is killed; one that survives SIGKILL is abandoned and reported, not waited for.

    Raises OSError when the program cannot be started.
    """
    child = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else dict(env),
        cwd=cwd,
        start_new_session=group,
    )
    streams, timed_out, truncated = _collect(child, time.monotonic() + timeout, max_output)
    abandoned = False
    if timed_out or truncated:
        abandoned = not _end(child, group)
    out, err = (bytes(data).decode("utf-8", "backslashreplace") for data in streams)
    return Completed(tuple(argv), child.poll(), out, err, timed_out, abandoned, truncated)


def _collect(child: subprocess.Popen[bytes], deadline: float, limit: int) -> tuple[list[bytearray], bool, bool]:
    """Read both streams until the child has ended, the deadline passed or the limit was reached."""
    streams = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as selector:
        for pipe, data in zip((child.stdout, child.stderr), streams):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, data)
        try:
            # A grandchild may hold the pipes open after the child ended: that is no reason to wait.
            while selector.get_map() or child.poll() is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return streams, True, False
                ended = child.poll() is not None
                ready = selector.select(min(left, 0.05 if not ended else 0))
                if ended and not ready:
                    break
                if not selector.get_map():
                    time.sleep(min(left, 0.01))
                for key, _events in ready:
                    chunk = os.read(key.fd, 65536)
                    if not chunk:
                        selector.unregister(key.fileobj)
                        continue
                    key.data.extend(chunk[: limit - len(key.data)])
                    if len(key.data) >= limit:
                        return streams, False, True
        finally:
            for pipe in (child.stdout, child.stderr):
                assert pipe is not None
                pipe.close()
    return streams, False, False


def _end(child: subprocess.Popen[bytes], group: bool) -> bool:
    """True when the child is gone: asked first, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            if group:
                os.killpg(child.pid, number)
            else:
                child.send_signal(number)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            child.wait(KILL_GRACE)
            return True
        except subprocess.TimeoutExpired:
            continue
    return False
