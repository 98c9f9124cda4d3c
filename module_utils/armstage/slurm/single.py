"""A step of its own for one command: the way without a holder, one request to the controller each."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence

from ..errors import ArmstageError
from .allocation import final_status_of, hint_for
from .client import StepLost
from .commands import said
from .step import EXIT_ERROR, StepOptions

# Whatever a TaskProlog prints comes before this line.
MARKED = 'printf "%s\\n" "$0" && exec "$@"'
CHUNK = 65536


def run_single(
    options: StepOptions,
    argv: Sequence[str],
    stdin: Iterator[bytes],
    stdout: Callable[[bytes], object],
    stderr: Callable[[bytes], object],
) -> int:
    """As client.run, by one srun. Raises StepLost where srun itself failed, or the job ended meanwhile."""
    mark = f"armstage-{os.urandom(8).hex()}"
    child = subprocess.Popen(
        options.command(["/bin/sh", "-c", MARKED, mark, *argv]),
        env=options.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout
    assert child.stderr
    errors = bytearray()
    threads = [
        threading.Thread(target=_feed, args=(child, stdin), daemon=True),
        threading.Thread(target=lambda: errors.extend(child.stderr.read()), daemon=True),  # type: ignore[union-attr]
    ]
    try:
        for thread in threads:
            thread.start()
        started = _pass_on(child, f"{mark}\n".encode(), stdout)
        status = child.wait()
        threads[1].join()
    finally:
        child.kill()
    text = errors.decode("utf-8", "replace")
    if not started or status == EXIT_ERROR or "CANCELLED" in text or "NODE FAIL" in text:
        raise _lost(options, text, status)
    stderr(bytes(errors))
    return status if status >= 0 else 128 - status


def _feed(child: subprocess.Popen[bytes], chunks: Iterator[bytes]) -> None:
    assert child.stdin
    try:
        with child.stdin:
            for chunk in chunks:
                child.stdin.write(chunk)
    except BrokenPipeError:
        pass


def _pass_on(child: subprocess.Popen[bytes], mark: bytes, sink: Callable[[bytes], object]) -> bool:
    """Everything behind the mark; False where it never came."""
    assert child.stdout
    seen, started = b"", False
    while data := os.read(child.stdout.fileno(), CHUNK):
        if started:
            sink(data)
            continue
        seen += data
        _noise, mark_found, rest = seen.partition(mark)
        if mark_found:
            started = True
            sink(rest)
    return started


def _lost(options: StepOptions, text: str, status: int) -> StepLost:
    words = said(text, status)
    try:
        job = final_status_of(options.job)
    except ArmstageError as error:
        return StepLost(f"{words}; {error.message}", error.hint)
    if job.over:
        return StepLost(f"job {options.job} is {job}: {words}", hint_for(job, options.job))
    return StepLost(words)
