"""A job of our own that holds one node: submitted, waited for, watched and cancelled."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ArmstageError
from .commands import output_of

# squeue(1), JOB REASON CODES: with these a job waits until a person does something.
HOPELESS = {
    "AccountNotAllowed": "the account may not use this partition",
    "BadConstraints": "no node has what was asked for",
    "InvalidAccount": "there is no such account",
    "InvalidQOS": "there is no such QoS",
    "JobHeldAdmin": "an administrator holds it",
    "JobHeldUser": "it is held",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition takes no jobs to start",
    "PartitionNodeLimit": "the partition does not allow so many nodes",
    "PartitionTimeLimit": "the partition does not allow so long a time",
    "QOSNotAllowed": "the QoS may not use this partition",
}
# job_reason_codes.html of Slurm (2026-12-01): limits of one job, which no waiting changes. Those of a user or an
# account end with that one's other jobs.
PER_JOB = re.compile(r"(?P<whose>Assoc|QOS)(?:Max\w*Per(?:Job|Node)|Min[A-Z]\w*?)(?:Limit)?")
# What became of a job, and what a person can do.
HINTS = {
    "CANCELLED": "Someone cancelled it: run again, and see `sacct -j {job}` for who",
    "NODE_FAIL": "The node failed: choose another one, and see `sinfo -R`",
    "PREEMPTED": "A job of higher priority took the node: run again, or in another partition or QoS",
    "TIMEOUT": "Its time is up: ask for more by srun_time, or in the job that you run in",
    "COMPLETED": "It has ended: start a new one, or leave out the job id to have one made",
    "": "Start a new job, or leave out the job id to have one made",
}


@dataclass(frozen=True)
class Request:
    """One node for some time, in sbatch's words; what is empty is not asked for."""

    node: str
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    time: str = ""
    gres: str = ""
    cpus: str = ""
    memory: str = ""
    arguments: Sequence[str] = ()

    def command(self, sbatch: str = "sbatch") -> list[str]:
        """The job only waits: the steps run in it. It takes no environment along."""
        named = {
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "reservation": self.reservation,
            "time": self.time,
            "gres": self.gres,
            "cpus-per-task": self.cpus,
            "mem": self.memory,
        }
        return [
            sbatch,
            *("--parsable", "--job-name=armstage", "--nodes=1", "--ntasks=1", f"--nodelist={self.node}"),
            *("--chdir=/", "--output=/dev/null", "--export=NONE", "--no-requeue"),
            *(f"--{option}={value}" for option, value in named.items() if value),
            *self.arguments,
            "--wrap=exec sleep infinity",
        ]


@dataclass(frozen=True)
class Status:
    """``state`` and ``reason`` in Slurm's own words; an empty state is a job that Slurm no longer knows."""

    state: str
    reason: str = ""

    @property
    def pending(self) -> bool:
        return self.state in ("PENDING", "CONFIGURING", "REQUEUED")

    @property
    def running(self) -> bool:
        return self.state in ("RUNNING", "SUSPENDED")

    @property
    def over(self) -> bool:
        return not self.pending and not self.running

    def __str__(self) -> str:
        shown = self.reason if self.reason not in ("", "None") else ""
        return (self.state or "not known to Slurm any more") + (f" ({shown})" if shown else "")


def hopeless(reason: str) -> str:
    """Why a job that waits for this reason never starts by itself; empty where it may."""
    limit = PER_JOB.fullmatch(reason)
    if limit:
        whose = "QoS" if limit["whose"] == "QOS" else "account"
        return f"it asks for more, or for less, than one job of the {whose} may have"
    return HOPELESS.get(reason, "")


def submit(request: Request) -> str:
    """Submit the job: its id. Raises ArmstageError with what sbatch said."""
    output = output_of(request.command(), timeout=60)
    found = re.search(r"^(\d+)(;\S*)?$", output, re.MULTILINE)
    if not found:
        raise ArmstageError(f"Expected a job id of sbatch, but received: `{output.strip()[:200]}`")
    return found[1]


def status_of(job: str) -> Status:
    """What Slurm says about a job. Raises ArmstageError where the controller can't be asked."""
    try:
        text = output_of(["scontrol", "show", "job", "-o", job], timeout=20)
    except ArmstageError as error:
        if "Invalid job id" in error.message:
            return Status("")
        raise
    return parse_status(text)


def final_status_of(job: str, patience: float = 6) -> Status:
    """As status_of; while a job is being cleaned up Slurm says COMPLETING, and only then how it ended."""
    end = time.monotonic() + patience
    status = status_of(job)
    while status.state == "COMPLETING" and time.monotonic() < end:
        time.sleep(0.5)
        status = status_of(job)
    return status


def parse_status(text: str) -> Status:
    """Of ``scontrol show job -o``: the fields that count stand between the job's name and the rest of what a person
    can write into."""
    name, found, rest = text.partition(" UserId=")
    fields: dict[str, str] = {}
    for key, value in re.findall(r"(?:^|\s)(JobState|Reason)=(\S*)", rest if found else name):
        fields.setdefault(key, value)
    return Status(fields.get("JobState", "").partition(" ")[0], fields.get("Reason", ""))


def cancel(job: str) -> None:
    """Raises ArmstageError where Slurm does not take it; a job that has ended is no error."""
    try:
        output_of(["scancel", "--quiet", job], timeout=20)
    except ArmstageError as error:
        if "Invalid job id" not in error.message and "already completing or completed" not in error.message:
            raise


def hint_for(status: Status, job: str) -> str:
    return HINTS.get(status.state, HINTS[""]).format(job=job)
