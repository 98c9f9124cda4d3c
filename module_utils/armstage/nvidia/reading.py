"""What one source said: the value, where it stood, and the literal line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

VERSION = re.compile(r"\d{1,5}(?:\.\d{1,5}){1,3}", re.ASCII)

ABSENT = re.compile(
    r"\[?(?:N/A|Not Supported|Not Found|ERR!|Unknown Error|GPU is lost|GPU requires reset"
    r"|Insufficient Permissions|Requested functionality has been deprecated|Deprecated\b.*)?\]?",
    re.IGNORECASE,
)
"""The words in which nvidia-smi says that it has no value, with or without brackets."""


class Reading(NamedTuple):
    """One value and its provenance, as `sources` of the facts shows it."""

    value: Any
    source: str
    line: str

    def provenance(self) -> dict[str, str]:
        return {"source": self.source, "line": self.line}


@dataclass
class Report:
    """What one answer of the user side says; None and empty where it does not say.

    ``refused`` is the literal text of a CUDA field that holds no version (`CUDA Version: ERR!`).
    ``processes`` is None when the answer has no list of processes, [] when it has an empty one.
    GPUs are dicts of `GPU_FIELDS`, MIG devices of `MIG_FIELDS`, processes of `PROCESS_FIELDS`.
    """

    source: str
    driver: Reading | None = None
    library: Reading | None = None
    cuda: Reading | None = None
    refused: str | None = None
    gpus: list[dict[str, Any]] = field(default_factory=list)
    mig_devices: list[dict[str, Any]] = field(default_factory=list)
    processes: list[dict[str, Any]] | None = None
    lines: dict[str, str] = field(default_factory=dict)
    """The literal lines of the three lists, by name."""


@dataclass
class Answer:
    """What the libraries, or nvidia-smi, said altogether.

    ``status`` is set when they name a fault of the whole host, with the literal ``line``; ``wedged``
    says what did not return.
    """

    source: str
    reports: list[Report] = field(default_factory=list)
    status: str | None = None
    line: str = ""
    notes: list[str] = field(default_factory=list)
    wedged: str | None = None

    def has(self, name: str) -> bool:
        """Whether any report holds this value."""
        return any(getattr(report, name) for report in self.reports)


GPU_FIELDS = ("index", "name", "uuid", "bus_id", "memory_total_mib", "compute_capability", "mig")
MIG_FIELDS = (
    "gpu_index",
    "index",
    "name",
    "uuid",
    "gpu_instance_id",
    "compute_instance_id",
    "memory_total_mib",
)
PROCESS_FIELDS = ("pid", "name", "type", "gpu_index", "used_memory_mib")


def record(fields: tuple[str, ...], **values: Any) -> dict[str, Any]:
    """A dict of exactly these fields, None where no value is given."""
    return {**dict.fromkeys(fields), **values}


def as_version(text: str | None) -> str | None:
    """The version that this text is, or None.

    What follows a version in brackets is prose (`13.3 [Deprecated; will be removed in CUDA 14.0 ...]`)
    and is left out; a version inside other text is none.
    """
    if text is None:
        return None
    value = text.split(" [", 1)[0].strip()
    return value if VERSION.fullmatch(value) else None


def as_text(text: str | None) -> str | None:
    """The text without the ways in which nvidia-smi says that it has none."""
    value = (text or "").strip()
    return None if ABSENT.fullmatch(value) else value


def as_mib(text: str | None) -> int | None:
    """`97871 MiB`, `97871MiB` or `97871` in MiB, else None."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*(?:MiB)?\s*", text or "", re.ASCII)
    return int(match[1]) if match else None


def as_switch(text: str | None) -> bool | None:
    """`Enabled` and `Disabled` as a boolean, anything else as None."""
    return {"enabled": True, "disabled": False}.get((text or "").strip().lower())


def as_number(text: str | None) -> int | None:
    match = re.fullmatch(r"\s*(\d{1,9})\s*", text or "", re.ASCII)
    return int(match[1]) if match else None


def same_version(one: str, other: str) -> bool:
    """Whether two versions agree as far as both go: NVML calls 580.159.03 `580.159`."""
    first, second = one.split("."), other.split(".")
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]
