"""Runs the checks one after another, each with its own time limit, and whatever happens ends with a finding for each.

The checks run in a forked child that reports each finding as it is made. A check that does not return,
on a filesystem or in a driver that hangs, is ended with its child, which is abandoned where it cannot
be ended, and the next child goes on with the rest.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ..errors import ArmstageError
from ..files import read_text
from .catalogue import CHECKS, Check
from .context import Context
from .model import WARN, Fact, Finding, Outcome, verdict
from .request import Request

GRACE = 5.0
"""Seconds that a check has beyond its own limit: for the commands it runs to be ended first."""

END = 0.5
"""Seconds that a killed child has to be gone, before it is abandoned."""


def run_checks(
    request: Request, on_outcome: Callable[[Outcome], None] = lambda _outcome: None, describe: bool = False
) -> dict[str, Any]:
    """Every check that is wanted, in order: ``checks``, ``lines`` and ``verdict``, plain JSON types.

    ``on_outcome`` is called as each is done. With ``describe`` there is also ``host``, for the report.
    """
    ahead = [check for check in CHECKS if request.wants(check.id)]
    outcomes: list[Outcome] = []
    described: dict[str, Any] = {}
    while ahead:
        for found in _batch(ahead, request, describe):
            if isinstance(found, Outcome):
                outcomes.append(found)
                on_outcome(found)
            else:
                described = found
        ahead = _after(ahead, outcomes)
    return {
        "checks": [outcome.as_dict() for outcome in outcomes],
        "lines": [outcome.line for outcome in outcomes],
        "verdict": verdict(outcome.finding.status for outcome in outcomes),
        **({"host": described} if describe else {}),
    }


def _after(ahead: Sequence[Check], outcomes: Sequence[Outcome]) -> list[Check]:
    done = {outcome.id for outcome in outcomes}
    return [check for check in ahead if check.id not in done]


def limit(check: Check, request: Request) -> float:
    """Seconds that a check may take."""
    return request.timeout + GRACE + (request.sample if check.id == "G4" else 0.0)


def judge(check: Check, context: Context) -> Outcome:
    """One check, run here; what it could not find out becomes a WARN that says so."""
    started = time.monotonic()
    try:
        finding = check.run(context)
    except ArmstageError as error:
        finding = Finding(WARN, f"could not be judged: {error.message}", error.hint)
    except Exception as error:  # a check never raises, whatever a host puts before it
        where = _place(error)
        finding = Finding(WARN, f"could not be judged: {type(error).__name__}: {error}", f"Report this with {where}")
    return Outcome(check.id, check.name, finding, time.monotonic() - started)


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}, line {trace.tb_lineno}" if trace else "its output"


def _batch(checks: Sequence[Check], request: Request, describe: bool) -> Iterator[Outcome | dict[str, Any]]:
    """The outcomes of one child, then the host; ends early after a check that had to be ended with it."""
    readable, writable = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        os.close(readable)
        _work(checks, request, describe, writable)
    os.close(writable)
    try:
        lines = _Lines(readable)
        for check in checks:
            allowed = limit(check, request)
            started = time.monotonic()
            line = lines.next(allowed)
            if line is None:
                yield Outcome(check.id, check.name, _lost(lines.ended, allowed, child), time.monotonic() - started)
                return
            yield _outcome(check, json.loads(line))
        line = lines.next(request.timeout + GRACE) if describe else None
        if line is not None:
            yield json.loads(line)
    finally:
        os.close(readable)
        _end(child)


def _work(checks: Sequence[Check], request: Request, describe: bool, writable: int) -> None:
    """The child: never returns, and runs nothing that the parent meant to do at its own end."""
    try:
        context = Context(request)
        with os.fdopen(writable, "wb", buffering=0) as pipe:
            for check in checks:
                outcome = judge(check, context)
                content = {"finding": asdict(outcome.finding), "seconds": outcome.seconds}
                pipe.write(json.dumps(content).encode() + b"\n")
            if describe:
                from . import host

                pipe.write(json.dumps(host.describe(context)).encode() + b"\n")
    finally:
        os._exit(0)


def _outcome(check: Check, content: dict[str, Any]) -> Outcome:
    finding = content["finding"]
    facts = tuple(Fact(**fact) for fact in finding.pop("facts"))
    return Outcome(check.id, check.name, Finding(**finding, facts=facts), content["seconds"])


def _lost(ended: bool, allowed: float, child: int) -> Finding:
    """What is said of a check whose child is gone or does not answer."""
    if ended:
        return Finding(
            WARN, "could not be judged: the process that looked has crashed", "Look into dmesg, and report this"
        )
    state = _state(child)
    asleep = "; it sleeps where it can't be interrupted" if state == "D" else ""
    return Finding(
        WARN,
        f"could not be judged: it did not return within {allowed:g} s{asleep}",
        "A filesystem or a driver that hangs looks like this: try `ls` on the environment, and nvidia-smi",
    )


def _state(pid: int) -> str:
    text = read_text(f"/proc/{pid}/stat") or ""
    return text.rpartition(")")[2].strip()[:1]


def _end(child: int) -> None:
    """Kill the child, and wait no longer than it takes a process that can be killed."""
    deadline = time.monotonic() + END
    try:
        os.kill(child, signal.SIGKILL)
        while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
    except (ProcessLookupError, ChildProcessError):
        pass


class _Lines:
    """Lines from a pipe, each waited for no longer than is said."""

    def __init__(self, handle: int) -> None:
        self._handle, self._data, self.ended = handle, b"", False

    def next(self, seconds: float) -> bytes | None:
        """The next line; None when it does not come in time, or no more will (``ended``)."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._data:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._handle], [], [], left)[0]:
                return None
            chunk = os.read(self._handle, 65536)
            if not chunk:
                self.ended = True
                return None
            self._data += chunk
        line, _newline, self._data = self._data.partition(b"\n")
        return line
