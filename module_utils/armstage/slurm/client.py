"""Commands on a node through its holder (holder.py), which is started where there is none."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import selectors
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ArmstageError
from . import agent, holder
from .allocation import Request

WINDOW = 1024 * 1024
"""Bytes of standard input under way: a command that reads slowly fills no memory on the node."""
START_TIMEOUT = 20


class StepLost(ArmstageError):
    """The way to the node is gone: the job, the node, or the process that held the step."""


class NoPython(StepLost):
    """The node has no Python for the agent; a step for one command needs none."""


def ignore(_data: object) -> None:
    """Where nobody wants to hear it."""


@dataclass(frozen=True)
class Specification:
    """One holder. Without ``job`` it makes one by ``request`` for process ``owner``, and cancels it when that is gone.

    Times are in seconds: ``idle`` until an unused step is closed, ``wait`` for the job, ``connect_timeout`` for the
    step, ``alive_timeout`` without an answer of the node.
    """

    node: str
    job: str = ""
    request: Request | None = None
    owner: int = 0
    srun: str = "srun"
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    idle: float = 60
    wait: float = 3600
    connect_timeout: float = 60
    alive_timeout: float = 60

    def message(self) -> dict[str, Any]:
        """As JSON for the holder. A process id alone is no identity: it is used again."""
        owner = {"process": self.owner, "started": holder.process_started(self.owner)} if self.request else None
        return {**asdict(self), "arguments": list(self.arguments), "owner": owner}

    def key(self) -> str:
        """Another job, node, way or version of the code is another holder."""
        code = "".join(Path(module.__file__ or "").read_text(encoding="utf-8") for module in (agent, holder))
        slurm = os.environ.get("SLURM_CONF", "")
        return hashlib.sha256(json.dumps([self.message(), slurm, code], sort_keys=True).encode()).hexdigest()[:20]


def socket_folder() -> Path:
    """A folder of this user's alone. Raises ArmstageError where someone else's stands in its place."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime, "armstage") if os.path.isdir(runtime) else Path(f"/tmp/armstage-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ArmstageError(
            f"Expected `{folder}` to be a folder of yours with mode 0700, but it is not",
            hint=f"Remove it, or name another place: XDG_RUNTIME_DIR=$(mktemp -d); see ls -ld {folder}",
        )
    return folder


def connect(specification: Specification) -> socket.socket:
    """A connection to the holder; started by one process where several ask at once."""
    path = socket_folder() / specification.key()
    connection = _try(path)
    if connection is None:
        with open(f"{path}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            connection = _try(path)
            if connection is None:
                _start(path, specification)
                connection = _try(path)
    if connection is None:
        raise StepLost(f"the process that holds the step on `{specification.node}` ended at once")
    return connection


def _try(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


def _start(path: Path, specification: Specification) -> None:
    """Start a holder of its own session: Ctrl-C does not reach it, and so it can clean up."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    environment.pop("PYTHONHOME", None)
    with open(f"{path}.log", "ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "armstage.slurm.holder", str(path)],
            env=environment,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert child.stdin
    assert child.stdout
    with child.stdin, child.stdout:
        child.stdin.write(json.dumps(specification.message()).encode())
        child.stdin.close()
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            if not selector.select(START_TIMEOUT) or child.stdout.read(6) != b"ready\n":
                said = Path(f"{path}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
                raise StepLost(
                    f"the process that holds the step did not start: {said[-1] if said else 'no word from it'}"
                )


def job_of(specification: Specification, notice: Callable[[str], None] = ignore) -> str:
    """The job that the holder has or makes. Raises StepLost where there is none to be had."""
    with connect(specification) as connection:
        connection.sendall(agent.pack(0, holder.JOB))
        for kind, content in _frames(connection, specification.node):
            if kind == holder.JOB:
                return content.decode()
            if kind == holder.NOTICE:
                notice(content.decode())
    raise AssertionError("_frames ends by an error")


def run(
    specification: Specification,
    argv: Sequence[str],
    stdin: Iterator[bytes],
    stdout: Callable[[bytes], object] = ignore,
    stderr: Callable[[bytes], object] = ignore,
    notice: Callable[[str], None] = ignore,
) -> int:
    """Run a command on the node: its exit status, 128 + n where signal n ended it.

    Raises StepLost with Slurm's reason where the way to the node is gone.
    """
    with connect(specification) as connection:
        feeder = _Feeder(connection, stdin)
        connection.sendall(agent.pack(0, agent.START, json.dumps(list(argv)).encode()))
        feeder.feed()
        sinks = {agent.STDOUT: stdout, agent.STDERR: stderr}
        for kind, content in _frames(connection, specification.node, feeder):
            if kind == agent.TAKEN:
                feeder.taken(int(content))
            elif kind == agent.EXIT:
                status = int(json.loads(content)["status"])
                return status if status >= 0 else 128 - status
            elif kind == holder.NOTICE:
                notice(content.decode())
            elif kind in sinks:
                sinks[kind](content)
    raise AssertionError("_frames ends by an error")


class _Feeder:
    """Standard input, as fast as the command takes it."""

    def __init__(self, connection: socket.socket, chunks: Iterator[bytes]) -> None:
        self.connection, self.chunks = connection, chunks
        self.outgoing = bytearray()
        self.window = WINDOW
        self.ended = False

    def feed(self) -> None:
        while self.window > 0 and not self.ended:
            chunk = next(self.chunks, None)
            if chunk is None:
                self.ended = True
                self.outgoing += agent.pack(0, agent.EOF)
            elif chunk:
                self.window -= len(chunk)
                self.outgoing += agent.pack(0, agent.STDIN, chunk)

    def taken(self, count: int) -> None:
        self.window += count
        self.feed()

    def write(self) -> None:
        try:
            del self.outgoing[: self.connection.send(self.outgoing[: 4 * agent.CHUNK])]
        except OSError:
            self.outgoing.clear()  # the command has ended without it; how, is there to be read
            self.ended = True


def _frames(connection: socket.socket, node: str, feeder: _Feeder | None = None) -> Iterator[tuple[int, bytes]]:
    """What the holder says, while writing what there is to write; StepLost where it says so, or no more."""
    unpacker = agent.Unpacker()
    gone = StepLost(
        f"the process that held the step on `{node}` is gone", hint="Run again: the next run starts a new one"
    )
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while True:
            writing = selectors.EVENT_WRITE if feeder and feeder.outgoing else 0
            selector.modify(connection, selectors.EVENT_READ | writing)
            for _key, events in selector.select():
                if events & selectors.EVENT_WRITE and feeder:
                    feeder.write()
                try:
                    data = connection.recv(4 * agent.CHUNK) if events & selectors.EVENT_READ else None
                except OSError as error:
                    raise gone from error
                if data == b"":
                    raise gone
                for _channel, kind, content in unpacker.feed(data or b""):
                    if kind == holder.LOST:
                        lost = json.loads(content)
                        raise (StepLost if lost["python"] else NoPython)(lost["message"], lost["hint"])
                    yield kind, content
