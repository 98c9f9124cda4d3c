"""The process that holds a node's step open, as ssh's ControlPersist holds a connection: one for each run and node.

It makes the job where none is given, and cancels what it made when the run that asked for it is gone, however that
ended. Started by client.py with its specification as JSON on standard input; answers on a Unix socket of its user's.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from ..errors import ArmstageError
from . import agent, allocation
from .step import NO_PYTHON, Step, StepOptions

# Besides the frames of agent.py. To here: which job is it? From here: the job's id, news for a person, and the end of
# it all (JSON: message, hint, and whether the node has Python).
JOB, NOTICE, LOST = 20, 21, 22

TICK = 0.5
POLLS = (1.0, 1.0, 2.0, 5.0, 10.0, 15.0)
"""Seconds between two questions about a waiting job: every one is a request to the controller of all users."""
PING_EVERY = 15.0
RELEASE_FOR, RELEASE_EVERY = 900.0, 5.0
"""How long it is tried to cancel our job while the controller does not answer."""


class NoPythonOnNode(ArmstageError):
    """The agent can't run there."""


class Client:
    """One connection: one command, or the question for the job."""

    def __init__(self, connection: socket.socket, channel: int) -> None:
        self.connection, self.channel = connection, channel
        self.frames = agent.Unpacker()
        self.outgoing = bytearray()
        self.waiting: list[tuple[int, bytes]] = []  # frames that the step is not ready for
        self.wants_job = False
        self.done = False

    def send(self, kind: int, content: bytes = b"") -> None:
        self.outgoing += agent.pack(0, kind, content)


class Holder:
    """``specification`` is that of client.Specification, as a mapping."""

    def __init__(self, specification: Mapping[str, Any], listener: socket.socket) -> None:
        self.specification, self.listener = specification, listener
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, self.accept)
        self.clients: dict[int, Client] = {}
        self.channels = 0
        self.request = specification["request"] and allocation.Request(**specification["request"])
        self.job: str = specification["job"]
        self.running = bool(self.job)
        self.submitted = self.next_poll = 0.0
        self.polls = 0
        self.news = ""
        self.step: Step | None = None
        self.opened = self.last_seen = self.last_ping = 0.0
        self.busy_until = time.monotonic()
        self.last_words = ""
        self.last_status: int | None = None
        self.stopping = False

    # --- the loop

    def serve(self) -> None:
        while not self.stopping or any(client.outgoing for client in self.clients.values()):
            self._arm()
            for key, events in self.selector.select(TICK):
                key.data(key.fileobj, events)
            try:
                self.tick()
            except ArmstageError as error:
                self.lose(error)
        self.close_step()

    def _arm(self) -> None:
        """Wait for writing only where there is something to write."""
        for client in self.clients.values():
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.outgoing else 0)
            self.selector.modify(client.connection, events, self.selector.get_key(client.connection).data)
        if self.step:
            registered = self.step.stdin in self.selector.get_map()
            if self.step.outgoing and not registered:
                self.selector.register(self.step.stdin, selectors.EVENT_WRITE, self.write_step)
            elif registered and not self.step.outgoing:
                self.selector.unregister(self.step.stdin)

    def tick(self) -> None:
        now = time.monotonic()
        if not self.owner_lives():
            self.stopping = True
            return
        if self.clients:
            self.busy_until = now
            if not self.running:
                self.advance_job(now)
            if self.running:
                self.answer_for_job()
                self.advance_step(now)
        elif now - self.busy_until > self.specification["idle"]:
            self.close_step()
            self.stopping = self.request is None

    def owner_lives(self) -> bool:
        """Whether the run that a job was made for is still there; a given job's step only times out."""
        owner = self.specification["owner"]
        return owner is None or process_started(owner["process"]) == owner["started"]

    # --- the job

    def advance_job(self, now: float) -> None:
        assert self.request is not None
        if not self.job:
            self.job = allocation.submit(self.request)
            self.submitted = self.next_poll = now
            self.next_poll += 0.2
            return
        if now < self.next_poll:
            return
        status = allocation.status_of(self.job)
        self.next_poll = now + POLLS[min(self.polls, len(POLLS) - 1)]
        self.polls += 1
        if status.running:
            self.running = True
        elif status.over:
            raise ArmstageError(f"job {self.job} ended before it ran: {status}", allocation.hint_for(status, self.job))
        else:
            self.still_waiting(status, now - self.submitted)

    def still_waiting(self, status: allocation.Status, seconds: float) -> None:
        why = allocation.hopeless(status.reason)
        if why or seconds > self.specification["wait"]:
            self.stopping = True
            raise ArmstageError(
                f"job {self.job} does not start: {status}"
                + (f", {why}" if why else f", for {seconds:.0f} s (srun_wait)"),
                "Ask for another partition, account, time or node: srun_partition, srun_account, srun_time",
            )
        news = f"job {self.job} waits for `{self.specification['node']}`: {status.reason}"
        if news != self.news and self.polls > 1:
            self.news = news
            for client in self.clients.values():
                client.send(NOTICE, news.encode())

    def answer_for_job(self) -> None:
        for client in self.clients.values():
            if client.wants_job and not client.done:
                client.send(JOB, self.job.encode())
                client.done = True

    # --- the step

    def advance_step(self, now: float) -> None:
        commands = [client for client in self.clients.values() if client.waiting or not client.wants_job]
        if self.step is None:
            if any(client.waiting for client in commands):
                self.open_step(now)
            return
        limit = self.specification["connect_timeout"]
        if not self.step.ready:
            if now - self.opened > limit:
                raise self.step_lost(f"it did not start within {limit:g} s (srun_connect_timeout)")
            return
        for client in commands:
            for kind, content in client.waiting:
                self.step.send(client.channel, kind, content)
            client.waiting.clear()
        if now - self.last_ping > PING_EVERY:
            self.last_ping = now
            self.step.send(0, agent.PING)
        if now - self.last_seen > self.specification["alive_timeout"]:
            raise self.step_lost(f"no sign of life for {now - self.last_seen:.0f} s (srun_alive_timeout)")

    def open_step(self, now: float) -> None:
        node, program, arguments, variables = (
            self.specification[name] for name in ("node", "srun", "arguments", "variables")
        )
        self.step = Step(StepOptions(self.job, node, program, arguments, variables))
        self.opened = self.last_seen = self.last_ping = now
        self.selector.register(self.step.stdout, selectors.EVENT_READ, self.read_step)
        self.selector.register(self.step.stderr, selectors.EVENT_READ, self.read_step_error)

    def write_step(self, _pipe: object, _events: int) -> None:
        if self.step:
            self.step.write()

    def read_step_error(self, pipe: Any, _events: int) -> None:
        if self.step and not self.step.read_error():
            self.selector.unregister(pipe)

    def read_step(self, _pipe: object, _events: int) -> None:
        if not self.step:
            return
        frames = self.step.read()
        if frames is None:
            self.lose(self.step_lost())
            return
        self.last_seen = time.monotonic()
        for channel, kind, content in frames:
            client = self.clients.get(channel)
            if client and kind != agent.PONG:
                client.send(kind, content)
                client.done = kind == agent.EXIT

    def step_lost(self, why: str = "") -> ArmstageError:
        """Why the step ended: what became of the job where it has ended too, else what srun said."""
        assert self.step is not None
        self.close_step()
        said = why or self.last_words
        if self.last_status == NO_PYTHON:
            return NoPythonOnNode(f"`{self.specification['node']}` has no Python 3.9 or newer")
        try:
            status = allocation.final_status_of(self.job)
        except ArmstageError as error:
            return ArmstageError(f"{said}; {error.message}", error.hint)
        if status.over:
            self.stopping = True
            return ArmstageError(f"job {self.job} is {status}: {said}", allocation.hint_for(status, self.job))
        return ArmstageError(said, f"See whether the node is up: scontrol show node {self.specification['node']}")

    def close_step(self) -> None:
        if self.step is None:
            return
        for pipe in (self.step.stdin, self.step.stdout, self.step.stderr):
            if pipe in self.selector.get_map():
                self.selector.unregister(pipe)
        self.last_status = self.step.close()
        self.last_words = self.step.why()
        self.step = None

    # --- clients

    def accept(self, _listener: object, _events: int) -> None:
        connection, _address = self.listener.accept()
        connection.setblocking(False)
        self.channels += 1
        client = Client(connection, self.channels)
        self.clients[client.channel] = client
        self.selector.register(connection, selectors.EVENT_READ, lambda _socket, events: self.talk(client, events))

    def talk(self, client: Client, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE and client.outgoing:
                del client.outgoing[: client.connection.send(client.outgoing[: 4 * agent.CHUNK])]
            if events & selectors.EVENT_READ:
                data = client.connection.recv(4 * agent.CHUNK)
                if not data:
                    self.forget(client)
                    return
                for _channel, kind, content in client.frames.feed(data):
                    self.hear(client, kind, content)
        except BlockingIOError:
            return
        except OSError:
            self.forget(client)
            return
        if client.done and not client.outgoing:
            self.forget(client)

    def hear(self, client: Client, kind: int, content: bytes) -> None:
        if kind == JOB:
            client.wants_job = True
        elif self.step and self.step.ready and not client.waiting:
            self.step.send(client.channel, kind, content)
        else:
            client.waiting.append((kind, content))

    def forget(self, client: Client) -> None:
        """A client that went away before its command ended takes the command with it."""
        if self.clients.pop(client.channel, None):
            self.selector.unregister(client.connection)
            client.connection.close()
            if self.step and not client.done:
                self.step.send(client.channel, agent.KILL)

    def lose(self, error: ArmstageError) -> None:
        self.close_step()
        for client in self.clients.values():
            if not client.done:
                lost = {"message": error.message, "hint": error.hint, "python": not isinstance(error, NoPythonOnNode)}
                client.send(LOST, json.dumps(lost).encode())
                client.done = True

    # --- the end

    def release(self) -> None:
        """Cancel the job that was made here. While the controller does not answer it is tried again."""
        if self.request is None or not self.job:
            return
        end = time.monotonic() + RELEASE_FOR
        while time.monotonic() < end:
            try:
                allocation.cancel(self.job)
                return
            except ArmstageError as error:  # noqa: PERF203
                print(f"job {self.job}: {error.message}", file=sys.stderr, flush=True)
                time.sleep(RELEASE_EVERY)


def process_started(process: int) -> str:
    """When a process started, in clock ticks since boot (proc(5), field 22); empty where there is none."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def tidy(path: str) -> None:
    """Remove what client.py made beside the socket; a log is kept where it says something."""
    with contextlib.suppress(OSError):
        os.unlink(f"{path}.lock")
        if not os.path.getsize(f"{path}.log"):
            os.unlink(f"{path}.log")


def main() -> None:
    path = sys.argv[1]
    specification = json.load(sys.stdin)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    identity = os.stat(path).st_ino
    holder = Holder(specification, listener)
    signal.signal(signal.SIGTERM, lambda *_: setattr(holder, "stopping", True))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.write(1, b"ready\n")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    try:
        holder.serve()
    finally:
        with contextlib.suppress(OSError):
            if os.stat(path).st_ino == identity:
                os.unlink(path)
        listener.close()
        holder.release()
        tidy(path)


if __name__ == "__main__":
    main()
