"""Steps of a Slurm job: the command lines, a clean environment, and one step that stays open for many commands."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ArmstageError
from . import agent
from .commands import environment, said

EXIT_ERROR = 251
"""What srun exits with on its own failure (SLURM_EXIT_ERROR); without it 1, like a command's."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NO_PYTHON = 252
PYTHONS = tuple(f"python3.{minor}" for minor in range(14, 8, -1))
# Starts the agent by the first Python there is; its text and the nonce are the arguments.
BOOTSTRAP = f"""\
for python in {" ".join(PYTHONS)}; do
    command -v "$python" >/dev/null 2>&1 && exec "$python" -u -c "$1" "$2"
done
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && exec python3 -u -c "$1" "$2"
exit {NO_PYTHON}
"""
ERROR_TAIL = 4096


@dataclass(frozen=True)
class StepOptions:
    """``job`` and ``node`` say where; ``arguments`` are more options of srun; only ``variables`` reach the node."""

    job: str
    node: str
    srun: str = "srun"
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def exported(self) -> dict[str, str]:
        """All that a command on the node sees, besides what Slurm itself sets there."""
        mine = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
        return {**mine, "PATH": PATH, "LANG": "C.UTF-8", **self.variables}

    def command(self, program: Sequence[str]) -> list[str]:
        """srun for one process on the node. ``--overlap``: the job's own steps may hold all of it."""
        return [
            self.srun,
            f"--jobid={self.job}",
            f"--nodelist={self.node}",
            *("--nodes=1", "--ntasks=1", "--overlap", "--chdir=/", "--quiet", "--propagate=NONE", "--mpi=none"),
            f"--export={','.join(self.exported())}",
            *self.arguments,
            *program,
        ]

    def environment(self) -> dict[str, str]:
        """srun's own: what would steer it is gone, and only names of ``exported`` go on to the node."""
        return {**environment(), **self.exported(), "SLURM_EXIT_ERROR": str(EXIT_ERROR)}


def program(name: str) -> str:
    """A program of Slurm's by its path: srun runs with the node's PATH in its environment.

    Raises ArmstageError where there is none.
    """
    found = shutil.which(name)
    if not found:
        raise ArmstageError(
            f"Expected the program `{name}` on PATH, but found none",
            hint="Run this on a host of the cluster that has Slurm's commands, such as a login node",
        )
    return found


class Step:
    """An open step. Its pipes don't block; ``ready`` once the agent on the node has spoken.

    Whatever a TaskProlog prints comes before the agent's first line, and is dropped.
    """

    def __init__(self, options: StepOptions) -> None:
        self.options = options
        self.nonce = os.urandom(8).hex()
        self.ready = False
        self.outgoing = bytearray()
        self.error = bytearray()
        self._incoming = bytearray()
        self._frames = agent.Unpacker()
        text = Path(agent.__file__).read_text(encoding="utf-8")
        self.process = subprocess.Popen(
            options.command(["/bin/sh", "-c", BOOTSTRAP, "sh", text, self.nonce]),
            env=options.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        for pipe in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(pipe.fileno(), False)

    def send(self, channel: int, kind: int, content: bytes = b"") -> None:
        self.outgoing += agent.pack(channel, kind, content)

    def write(self) -> None:
        """Pass on what srun takes now."""
        try:
            while self.outgoing:
                del self.outgoing[: os.write(self.stdin.fileno(), self.outgoing[: agent.CHUNK])]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.outgoing.clear()  # srun has ended, and its exit says why

    def read(self) -> list[tuple[int, int, bytes]] | None:
        """The frames that have come; None when srun has ended."""
        try:
            data = os.read(self.stdout.fileno(), 4 * agent.CHUNK)
        except BlockingIOError:
            return []
        if not data:
            return None
        if self.ready:
            return list(self._frames.feed(data))
        self._incoming += data
        line = agent.READY + self.nonce.encode() + b"\n"
        _noise, found, rest = self._incoming.partition(line)
        if not found:
            return []
        self.ready = True
        self._incoming = bytearray()
        return list(self._frames.feed(bytes(rest)))

    def read_error(self) -> bool:
        """srun's standard error, of which the end is kept; the agent writes none. False when it has ended."""
        try:
            while data := os.read(self.stderr.fileno(), agent.CHUNK):
                self.error = (self.error + data)[-ERROR_TAIL:]
        except BlockingIOError:
            return True
        return False

    def close(self, patience: float = 3) -> int | None:
        """End the step: the agent ends with its standard input. srun's exit status, None where it does not end."""
        self.stdin.close()
        for end in (None, self.process.terminate, self.process.kill):
            if end:
                end()
            try:
                return self.process.wait(patience)
            except subprocess.TimeoutExpired:
                continue
        return None

    def why(self) -> str:
        """What srun said when it ended."""
        self.read_error()
        status = self.process.poll()
        if status == NO_PYTHON:
            return f"`{self.options.node}` has no Python 3"
        lines = [
            line for line in self.error.decode("utf-8", "replace").splitlines() if "Exited with exit code" not in line
        ]
        return said("\n".join(lines), status)
