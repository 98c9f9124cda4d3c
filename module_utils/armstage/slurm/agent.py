"""The node's end of a long-lived step: runs commands for the login node, several at a time, over one pair of pipes.

Its text is what ``srun`` starts (``python3 -c TEXT NONCE``), so it stands alone. Both ends speak in frames: channel (4
bytes), kind (1), length (4), content, and a line end, for slurmstepd passes whole lines on. A channel is one command.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO

# To the node: what to run (JSON: argv), its standard input, the end of that, stop it, are you there.
START, STDIN, EOF, KILL, PING = 1, 2, 3, 4, 5
# From the node; TAKEN says how many bytes of standard input the command took, EXIT how it ended (JSON: status).
STDOUT, STDERR, TAKEN, EXIT, PONG = 6, 7, 8, 9, 10

HEADER = struct.Struct("!IBI")
CHUNK = 65536
READY = b"armstage-step "
# Seconds between looks at a command: one that has closed its output, and one that left it open to a child.
ENDING, RUNNING = 0.005, 0.2


def pack(channel: int, kind: int, content: bytes = b"") -> bytes:
    return HEADER.pack(channel, kind, len(content)) + content + b"\n"


class Unpacker:
    """Bytes in, whole frames out: ``(channel, kind, content)``."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        self.buffer += data
        while len(self.buffer) >= HEADER.size:
            channel, kind, length = HEADER.unpack_from(self.buffer)
            end = HEADER.size + length
            if len(self.buffer) <= end:
                return
            content = bytes(self.buffer[HEADER.size : end])
            del self.buffer[: end + 1]
            yield channel, kind, content


class Command:
    """One running command and what is still to be written to it."""

    def __init__(self, agent: Agent, channel: int, argv: Sequence[str]) -> None:
        self.agent, self.channel = agent, channel
        self.pending, self.ended = bytearray(), False
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.stdin = self.process.stdin
        self.outputs: dict[IO[bytes], int] = {self.process.stdout: STDOUT, self.process.stderr: STDERR}
        for pipe in self.outputs:
            os.set_blocking(pipe.fileno(), False)
            agent.selector.register(pipe, selectors.EVENT_READ, self.read)
        os.set_blocking(self.stdin.fileno(), False)

    def feed(self, data: bytes) -> None:
        self.pending += data
        self.write(self.stdin)

    def end_input(self) -> None:
        self.ended = True
        self.write(self.stdin)

    def write(self, pipe: IO[bytes]) -> None:
        """Write what the command takes; wait for the rest to be taken."""
        if pipe.closed:
            self.acknowledge(len(self.pending))
            return
        try:
            while self.pending:
                count = os.write(pipe.fileno(), self.pending[:CHUNK])
                self.acknowledge(count)
        except BlockingIOError:
            self.agent.watch(pipe, self.write)
            return
        except OSError:  # it reads no more: what is left is dropped, as a pipe to a shell would
            self.acknowledge(len(self.pending))
            self.ended = True
        self.agent.unwatch(pipe)
        if self.ended:
            pipe.close()

    def acknowledge(self, count: int) -> None:
        del self.pending[:count]
        if count:
            self.agent.send(self.channel, TAKEN, b"%d" % count)

    def read(self, pipe: IO[bytes]) -> None:
        try:
            data = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return
        if data:
            self.agent.send(self.channel, self.outputs[pipe], data)
        else:
            self.close(pipe)

    def close(self, pipe: IO[bytes]) -> None:
        del self.outputs[pipe]
        self.agent.unwatch(pipe)
        pipe.close()

    def drain(self) -> None:
        """What is in the pipes of a command that has ended; a process that it left behind may hold them open."""
        for pipe in list(self.outputs):
            while pipe in self.outputs:
                before = self.agent.sent
                self.read(pipe)
                if self.agent.sent == before and pipe in self.outputs:
                    self.close(pipe)

    def finish(self) -> None:
        self.drain()
        if not self.stdin.closed:
            self.acknowledge(len(self.pending))
            self.agent.unwatch(self.stdin)
            self.stdin.close()
        self.agent.send(self.channel, EXIT, json.dumps({"status": self.process.returncode}).encode())

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass


class Agent:
    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.commands: dict[int, Command] = {}
        self.sent = 0

    def watch(self, pipe: IO[bytes], callback: Callable[[IO[bytes]], None]) -> None:
        if pipe not in self.selector.get_map():
            self.selector.register(pipe, selectors.EVENT_WRITE, callback)

    def unwatch(self, pipe: IO[bytes]) -> None:
        if pipe in self.selector.get_map():
            self.selector.unregister(pipe)

    def send(self, channel: int, kind: int, content: bytes = b"") -> None:
        self.sent += 1
        data = memoryview(pack(channel, kind, content))
        while data:
            data = data[os.write(1, data) :]

    def handle(self, channel: int, kind: int, content: bytes) -> None:
        command = self.commands.get(channel)
        if kind == START:
            self.start(channel, json.loads(content.decode()))
        elif kind == PING:
            self.send(channel, PONG)
        elif command is None:
            if kind == STDIN:
                self.send(channel, TAKEN, b"%d" % len(content))
        elif kind == STDIN:
            command.feed(content)
        elif kind == EOF:
            command.end_input()
        elif kind == KILL:
            command.kill()

    def start(self, channel: int, argv: Sequence[str]) -> None:
        try:
            self.commands[channel] = Command(self, channel, argv)
        except OSError as error:
            self.send(channel, STDERR, f"{argv[0]}: {error.strerror}\n".encode())
            self.send(channel, EXIT, json.dumps({"status": 127}).encode())

    def reap(self) -> None:
        for channel, command in list(self.commands.items()):
            if command.process.poll() is not None:
                del self.commands[channel]
                command.finish()

    def serve(self, nonce: str) -> None:
        """Until standard input ends: then the login node is gone, and every command with it."""
        os.write(1, READY + nonce.encode() + b"\n")
        self.selector.register(0, selectors.EVENT_READ, None)
        frames = Unpacker()
        while True:
            for key, _events in self.selector.select(self.patience()):
                if key.fileobj == 0:
                    data = os.read(0, CHUNK)
                    if not data:
                        return
                    for frame in frames.feed(data):
                        self.handle(*frame)
                elif not key.fileobj.closed:  # type: ignore[union-attr]
                    key.data(key.fileobj)
            self.reap()

    def patience(self) -> float | None:
        """Seconds until a look at what may have ended. Not by SIGCHLD: a step may start with it blocked."""
        if not self.commands:
            return None
        ending = any(not command.outputs for command in self.commands.values())
        return ENDING if ending else RUNNING

    def stop(self) -> None:
        for command in self.commands.values():
            command.kill()


if __name__ == "__main__":
    agent = Agent()
    try:
        agent.serve(sys.argv[1])
    finally:
        agent.stop()
