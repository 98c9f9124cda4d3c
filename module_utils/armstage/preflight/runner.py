"""Runs the checks, each with its own time limit, and whatever happens ends with a finding for each.

The checks run in forked children that report each finding as it is made. A check that does not return,
on a filesystem or in a driver that hangs, is ended with its child, which is abandoned where it cannot
be ended, and the next child goes on with the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
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

MOST_WAIT = 3600.0
"""Seconds of one wait; select(2) takes no more than some."""

END = 0.5
"""Seconds that a killed child has to be gone, before it is abandoned."""


def run_checks(
    request: Request, on_outcome: Callable[[Outcome], None] = lambda _outcome: None, describe: bool = False
) -> dict[str, Any]:
    """Every check that is wanted, in order: ``checks``, ``lines`` and ``verdict``, plain JSON types.

    ``on_outcome`` is called with each, in the same order. With ``describe`` there is also ``host``, for the report.
    """
    wanted = [check for check in CHECKS if request.wants(check.id)]
    found: dict[str, Outcome] = {}
    outcomes: list[Outcome] = []
    first = Lane([check for check in wanted if not check.beside], request, describe=describe)
    beside = [check for check in wanted if check.beside]
    lanes = [first]
    try:
        while True:
            if beside and (first.driver or first.done):
                lanes.append(Lane(beside, request, first.driver))
                beside = []
            busy = [lane for lane in lanes if not lane.done]
            if not busy:
                break
            left = min([MOST_WAIT, *(lane.deadline - time.monotonic() for lane in busy)])
            readable = select.select([lane.handle for lane in busy], [], [], max(0.0, left))[0]
            for lane in busy:
                found.update({outcome.id: outcome for outcome in lane.follow(lane.handle in readable)})
            while len(outcomes) < len(wanted) and wanted[len(outcomes)].id in found:
                outcomes.append(found[wanted[len(outcomes)].id])
                on_outcome(outcomes[-1])
    finally:
        for lane in lanes:
            lane.end()
    return {
        "checks": [outcome.as_dict() for outcome in outcomes],
        "lines": [outcome.line for outcome in outcomes],
        "verdict": verdict(outcome.finding.status for outcome in outcomes),
        **({"host": first.described} if describe else {}),
    }


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


class Lane:
    """Checks that are run one after another, by one child, or by as many as it takes.

    ``handle`` is the pipe that the child writes to, ``deadline`` when (monotonic) it must have said the next thing,
    ``done`` whether there is no more to wait for. ``driver`` are the driver's facts: given, or as the child has read
    them before its first check, so that a driver is asked once. ``described`` is what the child said of the host,
    where it was to ``describe`` it.
    """

    def __init__(
        self, checks: Iterable[Check], request: Request, driver: dict[str, Any] | None = None, describe: bool = False
    ) -> None:
        self._ahead, self._request, self._describe = deque(checks), request, describe
        self.driver = driver
        self.described: dict[str, Any] = {}
        self.handle, self._child, self._since, self._data = -1, 0, 0.0, b""
        if not self.done:
            self._start()

    @property
    def done(self) -> bool:
        return not (self._ahead or self._describe)

    @property
    def deadline(self) -> float:
        return self._since + self._allowed

    @property
    def _allowed(self) -> float:
        return limit(self._ahead[0], self._request) if self._ahead else self._request.timeout + GRACE

    def follow(self, readable: bool) -> Iterator[Outcome]:
        """What the child has said, or that it is lost: gone, or over its time. The next child is started then."""
        chunk = os.read(self.handle, 65536) if readable else b""
        if not chunk:
            if readable or time.monotonic() >= self.deadline:
                yield from self._lose(crashed=readable)
            return
        *lines, self._data = (self._data + chunk).split(b"\n")
        for line in lines:
            content = json.loads(line)
            self._since = time.monotonic()
            if "finding" in content:
                yield _outcome(self._ahead.popleft(), content)
            elif "driver" in content:
                self.driver = content["driver"]
            else:
                self.described, self._describe = content["host"], False

    def end(self) -> None:
        """End the child and forget it."""
        if self._child:
            os.close(self.handle)
            _end(self._child)
            self._child = 0

    def _start(self) -> None:
        self.handle, writable = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._since, self._data = time.monotonic(), b""
        self._child = os.fork()
        if not self._child:
            os.close(self.handle)
            _work(self._ahead, Context(self._request, self.driver), self._describe, writable)
        os.close(writable)

    def _lose(self, crashed: bool) -> Iterator[Outcome]:
        """What is said of the check at whose turn the child was lost."""
        if self._ahead:
            finding = _lost(crashed, self._allowed, self._child)
            check = self._ahead.popleft()
            yield Outcome(check.id, check.name, finding, time.monotonic() - self._since)
        else:
            self._describe = False
        self.end()
        if not self.done:
            self._start()


def _work(checks: Iterable[Check], context: Context, describe: bool, writable: int) -> None:
    """The child: never returns, and runs nothing that the parent meant to do at its own end."""
    try:
        with os.fdopen(writable, "wb", buffering=0) as pipe:
            for content in _said(checks, context, describe):
                pipe.write(json.dumps(content).encode() + b"\n")
    finally:
        os._exit(0)


def _said(checks: Iterable[Check], context: Context, describe: bool) -> Iterator[dict[str, Any]]:
    """What a child has to say, as it comes: the driver's facts, each check's finding, the host."""
    with contextlib.suppress(ArmstageError):  # each check that needs them says so itself
        yield {"driver": context.driver}
    for check in checks:
        outcome = judge(check, context)
        yield {"finding": asdict(outcome.finding), "seconds": outcome.seconds}
    if describe:
        from . import host

        yield {"host": host.describe(context)}


def _outcome(check: Check, content: dict[str, Any]) -> Outcome:
    finding = content["finding"]
    facts = tuple(Fact(**fact) for fact in finding.pop("facts"))
    return Outcome(check.id, check.name, Finding(**finding, facts=facts), content["seconds"])


def _lost(crashed: bool, allowed: float, child: int) -> Finding:
    """What is said of a check whose child is gone or does not answer."""
    if crashed:
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
