"""`nvidia-smi -q -x`: XML with a DOCTYPE (`nvsmi_device_v13.dtd` since R560) that is never fetched.

Driver 610 and newer write `kmd_version` and `cuda_umd_version` beside the deprecated
`driver_version` and `cuda_version`; the new ones are read first.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from ..errors import ArmstageError
from .reading import (
    GPU_FIELDS,
    MIG_FIELDS,
    PROCESS_FIELDS,
    Report,
    as_mib,
    as_number,
    as_switch,
    as_text,
    record,
)
from .smi_text import fields

ROOT = "nvidia_smi_log"

GPU_ELEMENTS = {
    "product_name": ("name", as_text),
    "uuid": ("uuid", as_text),
    "pci/pci_bus_id": ("bus_id", as_text),
    "fb_memory_usage/total": ("memory_total_mib", as_mib),
    "mig_mode/current_mig": ("mig", as_switch),
}
MIG_ELEMENTS = {
    "index": ("index", as_number),
    "uuid": ("uuid", as_text),
    "gpu_instance_id": ("gpu_instance_id", as_number),
    "compute_instance_id": ("compute_instance_id", as_number),
    "fb_memory_usage/total": ("memory_total_mib", as_mib),
}
PROCESS_ELEMENTS = {
    "pid": ("pid", as_number),
    "process_name": ("name", as_text),
    "type": ("type", as_text),
    "used_memory": ("used_memory_mib", as_mib),
}


def parse(text: str, source: str) -> Report:
    """Read the document. Raises ArmstageError for text that is no such XML, or that has entities."""
    reader = _Reader(source)
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.EntityDeclHandler = _refuse_entity
    parser.SkippedEntityHandler = _refuse_entity
    parser.ExternalEntityRefHandler = _refuse_entity
    try:
        parser.Parse(text.encode("utf-8", "backslashreplace"), True)
    except expat.ExpatError as error:
        raise ArmstageError(f"Expected XML from `{source}`, but received: {error}") from error
    fields(reader.report, reader.versions)
    reader.report.lines = dict.fromkeys(("gpus", "mig_devices", "processes"), "\n".join(reader.lines))
    return reader.report


def _refuse_entity(name: str | None, *_declaration: Any) -> int:
    raise ArmstageError(
        f"Expected XML without entities from nvidia-smi, but received the entity `{name}`",
        hint="This is not what nvidia-smi writes: check which program answers to that name",
    )


class _Reader:
    """Collects the elements that the facts hold, by their path below `gpu`."""

    def __init__(self, source: str) -> None:
        self.report = Report(source, processes=[])
        self.versions: dict[str, tuple[str, str]] = {}
        self.lines: list[str] = []
        self.path: list[str] = []
        self.text: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.path and name != ROOT:
            raise ArmstageError(f"Expected `<{ROOT}>` from nvidia-smi, but received `<{name}>`")
        self.path.append(name)
        self.text = []
        below = "/".join(self.path[1:])
        if below == "gpu":
            bus_id = as_text(attributes.get("id"))
            gpu = record(GPU_FIELDS, index=len(self.report.gpus), bus_id=bus_id)
            self.report.gpus.append(gpu)
        elif below == "gpu/mig_devices/mig_device":
            parent = self.report.gpus[-1]["index"]
            self.report.mig_devices.append(record(MIG_FIELDS, gpu_index=parent))
        elif below == "gpu/processes/process_info":
            assert self.report.processes is not None
            parent = self.report.gpus[-1]["index"]
            self.report.processes.append(record(PROCESS_FIELDS, gpu_index=parent))

    def characters(self, text: str) -> None:
        self.text.append(text)

    def end(self, name: str) -> None:
        value = "".join(self.text).strip()
        self.text = []
        below = "/".join(self.path[1:])
        self.path.pop()
        if not value or not below:
            return
        line = f"<{name}>{value}</{name}>"
        if "/" not in below:
            self.versions.setdefault(name.replace("_", " "), (value, line))
        for prefix, elements, records in (
            ("gpu/mig_devices/mig_device/", MIG_ELEMENTS, self.report.mig_devices),
            ("gpu/processes/process_info/", PROCESS_ELEMENTS, self.report.processes),
            ("gpu/", GPU_ELEMENTS, self.report.gpus),
        ):
            if below.startswith(prefix) and below[len(prefix) :] in elements and records:
                field, reader = elements[below[len(prefix) :]]
                records[-1][field] = reader(value)
                self.lines.append(line)
                break
