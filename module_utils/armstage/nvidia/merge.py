"""Lists that several sources know a part of: GPUs, MIG devices, processes. And where sources differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import kernel, processes
from .driver_table import DATED, cuda_of_branch
from .reading import Answer, Reading, Report, same_version

Readings = dict[str, list[Reading]]
"""All readings of a value, by its name in the facts, the most trusted first."""


@dataclass
class Host:
    """What was observed: the kernel side, and the answers of the user side in the order of trust."""

    root: str
    kernel: kernel.Kernel
    answers: list[Answer] = field(default_factory=list)

    @property
    def reports(self) -> list[Report]:
        return [report for answer in self.answers for report in answer.reports]

    @property
    def jetson_module(self) -> str | None:
        """The NVRM line of a module that was built for a Jetson."""
        module = self.kernel.module
        return module.line if module and module.jetson else None

    @property
    def live(self) -> bool:
        return self.root == "/"


def gpus(host: Host) -> Reading | None:
    """The GPUs by the user side, else by the module's own list in /proc."""
    found = devices(host.reports, "gpus")
    if found or not host.kernel.gpus:
        return found
    names = ", ".join(gpu["name"] or "?" for gpu in host.kernel.gpus)
    return Reading(host.kernel.gpus, f"/{kernel.PROC_GPUS}", names)


def devices(reports: list[Report], name: str) -> Reading | None:
    """The first report's list of this name, its empty fields filled from the later ones."""
    having = [report for report in reports if getattr(report, name)]
    if not having:
        return None
    records = [dict(entry) for entry in getattr(having[0], name)]
    for report in having[1:]:
        _fill(records, getattr(report, name))
    return Reading(records, having[0].source, having[0].lines.get(name, ""))


def _fill(records: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    """Fill the empty fields of records from those of the same device: by UUID, else by position."""
    for position, entry in enumerate(records):
        same = [other for other in others if entry["uuid"] and other["uuid"] == entry["uuid"]]
        if not same and len(others) == len(records):
            same = [others[position]]
        for other in same:
            entry.update({key: value for key, value in other.items() if entry.get(key) is None})


def gpu_processes(host: Host, devices: Iterable[dict[str, Any]]) -> Reading | None:
    """Processes by NVML or nvidia-smi, else the holders of /dev/nvidia*; None without a module.

    ``devices`` are GPUs and MIG devices: csv names a process's GPU by UUID alone.
    """
    report = next((report for report in host.reports if report.processes is not None), None)
    if report is None or report.processes is None:
        return processes.holders(host.root) if host.kernel.loaded else None
    indexes = {entry["uuid"]: entry.get("gpu_index", entry.get("index")) for entry in devices}
    found = []
    for entry in report.processes:
        process = dict(entry)
        uuid = process.pop("gpu_uuid", None)
        if uuid is not None:
            process["gpu_index"] = indexes.get(uuid)
        process["name"] = process["name"] or processes.name_of(host.root, process["pid"])
        found.append(process)
    return Reading(found, report.source, report.lines.get("processes", ""))


def two_sides(host: Host, readings: Readings) -> tuple[Reading, Reading] | None:
    """The loaded module and the libraries, where they are not of one version.

    libcuda alone proves nothing: a forward-compatibility package brings a newer one.
    """
    users = [reading for reading in readings["user_driver"] if reading.source != "libcuda"]
    if host.kernel.readings and users:
        pair = host.kernel.readings[0], users[0]
        if not same_version(pair[0].value, pair[1].value):
            return pair
    return None


def disagreements(host: Host, readings: Readings) -> list[dict[str, Any]]:
    """Values on which sources differ, kernel side and user side apart."""
    candidates: list[tuple[str, Sequence[Reading]]] = list(readings.items())
    candidates.append(("kernel_driver and user_driver", two_sides(host, readings) or ()))
    module, cuda = host.kernel.readings[:1], readings["cuda_version"][:1]
    own = cuda_of_branch(module[0].value) if module else None
    if own:
        table = Reading(own, f"driver table of {DATED}", f"driver {module[0].value} -> CUDA {own}")
        candidates.append(("cuda_version and kernel_driver", [*cuda, table]))
    return [
        disagreement(name, found)
        for name, found in candidates
        if any(not same_version(found[0].value, other.value) for other in found[1:])
    ]


def disagreement(name: str, readings: Iterable[Reading]) -> dict[str, Any]:
    return {
        "value": name,
        "readings": [{"value": reading.value, **reading.provenance()} for reading in readings],
    }
