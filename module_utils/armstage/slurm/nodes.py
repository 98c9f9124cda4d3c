"""Slurm's nodes, as scontrol prints them, and whether one can run the work.

Read are ``scontrol show node`` in one line a node (``-o``) and in several, of Slurm 16 to 25, and the JSON of
``scontrol show node --json`` and ``sinfo --json`` where it lists nodes one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ArmstageError
from .commands import hint_for

# slurm.h, enum node_states.
BASE_STATES = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")
# The marks that Slurm put behind a state up to 20.11, and sinfo still does (sinfo(1), NODE STATE CODES).
MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
# One state, the names that releases and tools gave it.
ALIASES = {
    "ALLOC": "ALLOCATED",
    "MIX": "MIXED",
    "UNK": "UNKNOWN",
    "ERR": "ERROR",
    "FUTR": "FUTURE",
    "NO_RESPOND": "NOT_RESPONDING",
    "DRAINED": "DRAIN",
    "MAINT": "MAINTENANCE",
    "RESV": "RESERVED",
    "RES": "RESERVED",
    "COMP": "COMPLETING",
    "PLND": "PLANNED",
    "POWER": "POWERED_DOWN",
    "POW_UP": "POWERING_UP",
    "POW_DN": "POWERING_DOWN",
    "POWER_SAVING": "POWERED_DOWN",
    "POWERING_DN": "POWERING_DOWN",
    "POWER_UP": "POWERING_UP",
    "REBOOT": "REBOOT_REQUESTED",
    "BOOT": "REBOOT_ISSUED",
    "INVAL": "INVALID_REG",
    "NPC": "PERFCTRS",
}
# One word for two states: such a node still has jobs (sinfo(1), NODE STATE CODES).
DOUBLES = {
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "DRNG": ("ALLOCATED", "DRAIN"),
    "FAILING": ("ALLOCATED", "FAIL"),
    "FAILG": ("ALLOCATED", "FAIL"),
}
# What keeps a node from taking work, each by itself.
UNUSABLE = {
    "UNKNOWN": "its state is unknown to the controller",
    "DOWN": "is down",
    "ERROR": "is in error",
    "FUTURE": "is not there yet",
    "NOT_RESPONDING": "does not respond",
    "DRAIN": "is drained",
    "FAIL": "is failing",
    "MAINTENANCE": "is in maintenance",
    "RESERVED": "is in a reservation",
    "REBOOT_REQUESTED": "will reboot",
    "REBOOT_ISSUED": "reboots",
    "POWER_DOWN": "will be powered down",
    "POWERING_DOWN": "is being powered down",
    "POWER_DRAIN": "is drained to be powered down",
    "INVALID_REG": "registered with less than slurm.conf promises",
    "BLOCKED": "is blocked by an exclusive job beside it",
    "PERFCTRS": "its performance counters are in use",
}
# Says nothing against it: Slurm gives such a node work, at once or when it is up or free again.
HARMLESS = (
    *("IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"),
    *("POWERED_DOWN", "POWERING_UP", "RUN", "NET", "UNDRAIN", "EXTERNAL"),
)
# Values with spaces, and the keys that may end them; elsewhere every ` Key=` begins a value.
FREE_TEXT = {
    "OS": ("RealMemory",),
    "Reason": ("Comment", "Extra", "ReservationName", "InstanceId", "InstanceType"),
    "Comment": ("Extra", "Reason", "ReservationName", "InstanceId", "InstanceType"),
    "Extra": ("Comment", "Reason", "ReservationName", "InstanceId", "InstanceType"),
}
_KEY = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z_]*)=")
_MISSING = ("", "(null)", "N/A", "n/a", "None")


@dataclass(frozen=True)
class Node:
    """``states``: the base state first, then its flags, in capitals. ``architecture`` is empty where the node never
    registered. ``gpu_types`` has none for GPUs whose type Slurm isn't told."""

    name: str
    address: str = ""
    architecture: str = ""
    states: tuple[str, ...] = ("UNKNOWN",)
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    gpus: int = 0
    gpu_types: tuple[str, ...] = ()
    cpus: int = 0
    memory_mib: int = 0
    reason: str = ""
    version: str = ""

    def unusable(
        self, architectures: Collection[str] = ("aarch64",), gpus: int = 0, tolerate: Collection[str] = ()
    ) -> str:
        """Why this node can't run the work, every reason in one sentence; empty where it can."""
        found = [_against(state) for state in self.states if state not in tolerate]
        reasons = [text for text in found if text]
        if reasons and self.reason:
            reasons[-1] += f" ({self.reason})"
        if architectures and self.architecture not in architectures:
            known = f"is {self.architecture}" if self.architecture else "never registered, its architecture is unknown"
            reasons.append(f"{known}, not {' or '.join(architectures)}")
        if self.gpus < gpus:
            reasons.append(f"has {self.gpus} GPUs, not {gpus}")
        return "; ".join(reasons)

    @property
    def eagerness(self) -> int:
        """How soon it takes work: 0 idle, 1 idle but off or planned for another, 2 partly busy, 3 busy."""
        if self.states[0] == "IDLE":
            return 0 if set(self.states) <= {"IDLE", "CLOUD", "DYNAMIC_NORM"} else 1
        return 2 if self.states[0] == "MIXED" else 3

    def variables(self) -> dict[str, Any]:
        """The node as an inventory's host variables."""
        return {
            "slurm_address": self.address or self.name,
            "slurm_architecture": self.architecture,
            "slurm_state": self.states[0].lower(),
            "slurm_states": [state.lower() for state in self.states],
            "slurm_partitions": list(self.partitions),
            "slurm_features": list(self.features),
            "slurm_gpus": self.gpus,
            "slurm_gpu_types": list(self.gpu_types),
            "slurm_cpus": self.cpus,
            "slurm_memory_mib": self.memory_mib,
            "slurm_reason": self.reason,
            "slurm_version": self.version,
        }


def _against(state: str) -> str:
    return UNUSABLE.get(state) or ("" if state in HARMLESS else f"its state `{state}` is not known")


def parse(text: str) -> list[Node]:
    """Every node of an output of scontrol or sinfo, text or JSON, in its order.

    Raises ArmstageError where it holds something else than nodes.
    """
    return list(_from_json(text) if text.lstrip().startswith("{") else _from_text(text))


def _from_text(text: str) -> Iterator[Node]:
    # A record begins with its name, at the start of a line; lines that follow belong to it (without -o).
    records = re.split(r"^(?=NodeName=)", text, flags=re.MULTILINE)
    if records[0].strip() and not (len(records) == 1 and "No nodes in the system" in text):
        raise ArmstageError(f"Expected `NodeName=...`, but received: `{records[0].strip().splitlines()[0][:200]}`")
    for record in records[1:]:
        fields = _fields(" ".join(line.strip() for line in record.splitlines()))
        gpus, types = count_gpus(fields.get("Gres", ""))
        yield Node(
            name=fields["NodeName"],
            address=_text(fields.get("NodeAddr")),
            architecture=_text(fields.get("Arch")),
            states=states_of(fields.get("State", "UNKNOWN")),
            partitions=_list(fields.get("Partitions")),
            features=_list(fields.get("AvailableFeatures", fields.get("Features"))),
            gpus=gpus,
            gpu_types=types,
            cpus=_number(fields.get("CPUTot")),
            memory_mib=_number(fields.get("RealMemory")),
            reason=_text(fields.get("Reason")),
            version=_text(fields.get("Version")),
        )


def _fields(record: str) -> dict[str, str]:
    """``Key=value`` pairs of one node. The first of a key counts: what a person wrote comes last."""
    fields: dict[str, str] = {}
    key, start, ends = "", 0, None
    for match in _KEY.finditer(record):
        if ends is not None and match[1] not in ends:
            continue
        if key:
            fields.setdefault(key, record[start : match.start()].strip())
        key, start, ends = match[1], match.end(), FREE_TEXT.get(match[1])
    fields.setdefault(key, record[start:].strip())
    return fields


def _from_json(text: str) -> Iterator[Node]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ArmstageError(f"Expected JSON of scontrol, but received: `{text.strip()[:80]}` ({error})") from error
    if "nodes" not in content:
        raise ArmstageError(
            f"Expected JSON with `nodes`, but found: {', '.join(f'`{key}`' for key in content) or '`{}`'}",
            hint="sinfo groups nodes since Slurm 23.02: use `scontrol show node --json`",
        )
    entries, errors = content["nodes"], content.get("errors")
    if errors and not entries:
        raise ArmstageError(
            f"Expected nodes in scontrol's JSON, but it has none, and `errors`: `{json.dumps(errors)[:300]}`",
            hint=hint_for(json.dumps(errors)),
        )
    if not isinstance(entries, list):
        raise _no_node("a list as `nodes`", entries)
    return (_node_from_json(entry) for entry in entries)


def _no_node(expected: str, received: object) -> ArmstageError:
    return ArmstageError(f"Expected {expected} in scontrol's JSON, but received: `{json.dumps(received)[:200]}`")


def _node_from_json(entry: object) -> Node:
    if not isinstance(entry, Mapping) or not (isinstance(entry.get("name"), str) and entry["name"]):
        raise _no_node("a node with a `name`", entry)
    gres = entry.get("gres")
    gpus, types = count_gpus(",".join(map(str, gres)) if isinstance(gres, list) else _text(gres))
    words = (*_list(entry.get("state")), *_list(entry.get("state_flags")))
    return Node(
        name=entry["name"],
        address=_text(entry.get("address")),
        architecture=_text(entry.get("architecture")),
        states=states_of("+".join(words)),
        partitions=_list(entry.get("partitions")),
        features=_list(entry.get("features")),
        gpus=gpus,
        gpu_types=types,
        cpus=_number(entry.get("cpus")),
        memory_mib=_number(entry.get("real_memory")),
        reason=_text(entry.get("reason")),
        version=_text(entry.get("version") or entry.get("slurmd_version")),
    )


def states_of(text: str) -> tuple[str, ...]:
    """``idle*+drain`` -> (``IDLE``, ``NOT_RESPONDING``, ``DRAIN``): the base state first."""
    found: dict[str, None] = {}
    for word in re.split(r"[+,\s]+", text.upper()):
        marks = []
        while word and word[-1] in MARKS:
            marks.append(MARKS[word[-1]])
            word = word[:-1]
        for name in (*DOUBLES.get(word, (ALIASES.get(word, word),)), *reversed(marks)):
            if name:
                found[name] = None
    base = [state for state in found if state in BASE_STATES]
    # sinfo says `drained` or `planned` alone: the node is up, and the flag says the rest.
    return tuple(dict.fromkeys([*(base or ["IDLE" if found else "UNKNOWN"]), *found]))


def count_gpus(gres: str) -> tuple[int, tuple[str, ...]]:
    """``gpu:gb200:4(S:0-1),shard:8`` -> (4, (``gb200``,)). Without a number it is one GPU (gres.conf(5))."""
    total = 0
    types: dict[str, None] = {}
    for entry in re.sub(r"\([^()]*\)", "", gres).split(","):
        name, *rest = entry.strip().split(":")
        if name != "gpu":
            continue
        count = rest.pop() if rest and re.fullmatch(r"\d+", rest[-1], re.ASCII) else "1"
        total += int(count)
        types.update((word, None) for word in rest[:1] if word != "no_consume")
    return total, tuple(types)


def _text(value: object) -> str:
    return "" if value is None or str(value) in _MISSING else str(value)


def _list(value: object) -> tuple[str, ...]:
    """A list of JSON, or a list with commas; each word once."""
    words = value if isinstance(value, list) else re.split(r"[,\s]+", _text(value))
    return tuple(dict.fromkeys(str(word) for word in words if str(word)))


def _number(value: object) -> int:
    """A number, its text, or the ``{set, infinite, number}`` of newer JSON; 0 where there is none."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else 0
    return int(str(value)) if re.fullmatch(r"\d+", str(value)) else 0
