"""Commands of the lab: with a time limit, and with an error that shows what the command said."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from armstage.errors import ArmstageError
from armstage.run import run

TAIL_LINES = 15


def output_of(argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None, cwd: str | None = None) -> str:
    """Standard output of a command that must succeed.

    Raises ArmstageError with the end of what it wrote to standard error.
    """
    try:
        completed = run(argv, timeout=timeout, env=env, cwd=cwd)
    except OSError as error:
        raise ArmstageError(f"Failed to start `{argv[0]}`: {error.strerror}") from error
    if completed.ok:
        return completed.out
    ending = f"no end within {timeout:.0f} s" if completed.timed_out else f"exit status {completed.rc}"
    said = "\n".join((completed.err or completed.out).splitlines()[-TAIL_LINES:])
    raise ArmstageError(f"Failed to run `{' '.join(argv)}`: {ending}\n{said}".rstrip())


def say(text: str) -> None:
    """A line for the person waiting; standard output is kept for results."""
    print(text, file=sys.stderr, flush=True)
