"""Slurm's own commands: with a time limit, in plain English, and with errors that say what Slurm said."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..errors import ArmstageError
from ..run import run

# What Slurm's commands say when the controller can't be asked.
CONTROLLER_DOWN = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Socket timed out",
    "Zero Bytes were transmitted",
)
# What they say on a host that belongs to no cluster.
NO_CONFIGURATION = "Could not establish a configuration source"
ON_THE_CLUSTER = "Run this on a host of the cluster that has Slurm's commands, such as a login node"
# Variables that a job or a wrapper sets and that would steer a command of ours; SLURM_CONF says where Slurm is.
STEERING = (
    "SLURM_",
    "SLURMD_",
    "SRUN_",
    "SALLOC_",
    "SBATCH_",
    "SCANCEL_",
    "SQUEUE_",
    "SINFO_",
    "SCONTROL_",
    "PMI_",
    "PMIX_",
)


def environment() -> dict[str, str]:
    """This process' environment without what would steer Slurm's commands."""
    kept = {name: value for name, value in os.environ.items() if name == "SLURM_CONF" or not name.startswith(STEERING)}
    return {**kept, "LC_ALL": "C.UTF-8"}


def output_of(argv: Sequence[str], timeout: float = 30) -> str:
    """What a command of Slurm's printed.

    Raises ArmstageError: not installed, the controller down, or what the command said.
    """
    line = " ".join(argv)
    try:
        done = run(argv, timeout=timeout, env=environment(), max_output=256 * 1024 * 1024)
    except OSError as error:
        raise ArmstageError(
            f"Failed to start `{argv[0]}`: {error.strerror or error}",
            hint=ON_THE_CLUSTER,
        ) from error
    if done.timed_out:
        raise ArmstageError(
            f"`{line}` gave no answer within {timeout:g} s", hint="See whether the controller is up: scontrol ping"
        )
    if not done.ok:
        told = done.err or done.out
        raise ArmstageError(f"`{line}` failed: {said(told, done.rc)}", hint=hint_for(told))
    return done.out


def said(text: str, status: int | None) -> str:
    """The last thing Slurm said, or what it starred: `*** STEP 7.0 ON gb01 CANCELLED AT ... DUE TO PREEMPTION ***`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    starred = [line for line in lines if "***" in line]
    words = [f"exit status {status}", *lines, *starred][-1]
    return words.partition(": error: ")[2] or words


def hint_for(text: str) -> str:
    if NO_CONFIGURATION in text:
        return ON_THE_CLUSTER
    if any(sign in text for sign in CONTROLLER_DOWN):
        return "Slurm's controller does not answer: see `scontrol ping`, and try again when it is back"
    return ""
