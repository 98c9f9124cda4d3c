"""The texts of nvidia-smi: banner, `--version`, `-q`, `-L` and csv. Pure: text in, Report out.

Driver 610 renamed the fields. Banner: `Driver Version:` became `KMD Version:`, `CUDA Version:`
became `CUDA UMD Version:`. `--version` and `-q` print both, the old one with prose in its value:

    CUDA version        : Deprecated, see "CUDA UMD version" instead
    CUDA Version        : 13.3 [Deprecated; will be removed in CUDA 14.0. Use CUDA UMD Version instead]

The version of the tool itself (`NVIDIA-SMI 590.44.01`) is not the driver's: on WSL the two differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .reading import (
    GPU_FIELDS,
    MIG_FIELDS,
    PROCESS_FIELDS,
    Reading,
    Report,
    as_mib,
    as_number,
    as_switch,
    as_text,
    as_version,
    record,
)

DRIVER_KEYS = ("kmd version", "driver version")
CUDA_KEYS = ("cuda umd version", "cuda version")
"""Field names in lower case, the newer first."""

BANNER_FIELD = re.compile(r"\b(KMD Version|Driver Version|CUDA UMD Version|CUDA Version):\s*([^\s|]*)")
BUS_ID = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"
GPU_ROW = re.compile(
    rf"\|\s+(\d+)\s+(\S.*?)\s+(?:On|Off|N/A|ERR!|WDDM|TCC|MCDM)\s*\|\s+({BUS_ID}|N/A|ERR!)\s+\S+\s*\|", re.ASCII
)
MIG_ROW = re.compile(r"\|\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+\|[^|]*/\s*(\d+)MiB\s*\|", re.ASCII)
PROCESS_ROW = re.compile(
    r"\|\s+(\d+)\s+(?:(?:\d+|N/A)\s+(?:\d+|N/A)\s+)?(\d+)\s+(C\+G|M\+C|C|G|M)\s+(\S.*?)\s+(\d+MiB|N/A)\s*\|",
    re.ASCII,
)
LIST_GPU = re.compile(r"GPU (\d+): (.+?)\s+\(UUID: ([\w./-]+)\)", re.ASCII)
LIST_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([\w./-]+)\)", re.ASCII)

LONGEST_LINE = 1000
"""Characters of a line that are looked at; a process name may be a whole command line."""


def lines_of(text: str) -> list[str]:
    return [line[:LONGEST_LINE] for line in text.splitlines()]


def fields(report: Report, found: dict[str, tuple[str, str]]) -> None:
    """Take driver and CUDA from fields, `name in lower case -> (value, literal line)`.

    The newer name is asked first; prose and `N/A` in one leave it to the other.
    """
    for key in DRIVER_KEYS:
        value, line = found.get(key, ("", ""))
        if report.driver is None and as_version(value):
            report.driver = Reading(as_version(value), report.source, line)
    for key in CUDA_KEYS:
        value, line = found.get(key, ("", ""))
        if report.cuda is None and as_version(value):
            report.cuda = Reading(as_version(value), report.source, line)
    if report.cuda is None:
        report.refused = next((found[key][1] for key in CUDA_KEYS if key in found), None)


def banner(text: str, source: str) -> Report:
    """The table that nvidia-smi prints when it is given no option."""
    report = Report(source)
    lines = lines_of(text)
    found: dict[str, tuple[str, str]] = {}
    for line in lines:
        if "NVIDIA-SMI" in line:
            for name, value in BANNER_FIELD.findall(line):
                found.setdefault(name.lower(), (value, line.strip()))
    fields(report, found)
    literal: dict[str, list[str]] = {"gpus": [], "mig_devices": [], "processes": []}
    section = "gpus"
    below: list[str] = []
    for number, line in enumerate(lines):
        if "MIG devices:" in line:
            section = "mig_devices"
        elif "Processes:" in line:
            section = "processes"
            report.processes = []
        elif section == "gpus" and (match := GPU_ROW.match(line)):
            below = lines[number + 1 : number + 3]
            report.gpus.append(_banner_gpu(match, below))
            literal["gpus"] += [line, *below]
        elif section == "mig_devices" and (match := MIG_ROW.match(line)):
            report.mig_devices.append(_banner_mig(match))
            literal["mig_devices"].append(line)
        elif section == "processes" and (match := PROCESS_ROW.match(line)):
            assert report.processes is not None
            report.processes.append(
                record(
                    PROCESS_FIELDS,
                    pid=int(match[2]),
                    name=match[4],
                    type=match[3],
                    gpu_index=int(match[1]),
                    used_memory_mib=as_mib(match[5]),
                )
            )
            literal["processes"].append(line)
    report.lines = {name: "\n".join(rows) for name, rows in literal.items()}
    return report


def _banner_gpu(match: re.Match[str], below: list[str]) -> dict[str, Any]:
    """One GPU from its row and the two below: memory in the second row, MIG mode in the third."""
    cells = [line.split("|") for line in below]
    memory = cells[0][2] if cells and len(cells[0]) > 4 else ""
    mig = cells[1][3] if len(cells) > 1 and len(cells[1]) > 4 else ""
    return record(
        GPU_FIELDS,
        index=int(match[1]),
        name=as_text(match[2]),
        bus_id=as_text(match[3]),
        memory_total_mib=as_mib(memory.rpartition("/")[2]) if "/" in memory else None,
        mig=as_switch(mig),
    )


def _banner_mig(match: re.Match[str]) -> dict[str, Any]:
    gpu, instance, compute, device, memory = (int(group) for group in match.groups())
    return record(
        MIG_FIELDS,
        gpu_index=gpu,
        index=device,
        gpu_instance_id=instance,
        compute_instance_id=compute,
        memory_total_mib=memory,
    )


def version_table(text: str, source: str) -> Report:
    """`nvidia-smi --version`: one `NAME : value` a line."""
    report = Report(source)
    found = {name.lower(): (value, line) for _path, name, value, line in _entries(text)}
    fields(report, found)
    if as_version(found.get("nvml version", ("", ""))[0]):
        value, line = found["nvml version"]
        report.library = Reading(as_version(value), source, line)
    return report


def _entries(text: str) -> Iterator[tuple[tuple[str, ...], str, str, str]]:
    """(headings above, name, value, line) of indented `Name : value` text."""
    path: list[tuple[int, str]] = []
    for line in lines_of(text):
        name, colon, value = (part.strip() for part in line.partition(" : "))
        if not name:
            continue
        depth = len(line) - len(line.lstrip())
        while path and path[-1][0] >= depth:
            path.pop()
        if colon:
            yield tuple(heading for _depth, heading in path), name, value, line.strip()
        path.append((depth, f"{name} {value}" if name == "Process ID" else name))


def query(text: str, source: str) -> Report:
    """`nvidia-smi -q`: versions at the left margin, then one indented block for each GPU."""
    report = Report(source, processes=[])
    assert report.processes is not None
    top: dict[str, tuple[str, str]] = {}
    lines: list[str] = []
    for path, name, value, line in _entries(text):
        if not path:
            top.setdefault(name.lower(), (value, line))
            continue
        match = re.fullmatch(rf"GPU ({BUS_ID})", path[0])
        if not match:
            continue
        if not report.gpus or report.gpus[-1]["bus_id"] != match[1]:
            report.gpus.append(record(GPU_FIELDS, index=len(report.gpus), bus_id=match[1]))
        if _query_value(report, path[1:], name, value):
            lines.append(line)
    fields(report, top)
    report.lines = dict.fromkeys(("gpus", "mig_devices", "processes"), "\n".join(lines))
    return report


def _query_value(report: Report, path: tuple[str, ...], name: str, value: str) -> bool:
    """Take one value of the last GPU's block; False when it is not of those the facts hold."""
    gpu = report.gpus[-1]
    if path == () and name == "Product Name":
        gpu["name"] = as_text(value)
    elif path == () and name == "GPU UUID":
        gpu["uuid"] = as_text(value)
    elif path == ("MIG Mode",) and name == "Current":
        gpu["mig"] = as_switch(value)
    elif path == ("FB Memory Usage",) and name == "Total":
        gpu["memory_total_mib"] = as_mib(value)
    elif path == ("Processes",) and name == "Process ID" and as_number(value) is not None:
        process = record(PROCESS_FIELDS, pid=as_number(value), gpu_index=gpu["index"])
        assert report.processes is not None
        report.processes.append(process)
    elif path[:1] == ("Processes",) and len(path) == 2 and report.processes:
        keys = {"Type": "type", "Name": "name", "Used GPU Memory": "used_memory_mib"}
        if name not in keys:
            return False
        report.processes[-1][keys[name]] = as_mib(value) if name == "Used GPU Memory" else as_text(value)
    else:
        return False
    return True


def listing(text: str, source: str) -> Report:
    """`nvidia-smi -L`: names and UUIDs, MIG devices below their GPU."""
    report = Report(source)
    literal: dict[str, list[str]] = {"gpus": [], "mig_devices": []}
    for line in lines_of(text):
        if match := LIST_GPU.match(line):
            gpu = record(GPU_FIELDS, index=int(match[1]), name=match[2], uuid=match[3])
            report.gpus.append(gpu)
            literal["gpus"].append(line)
        elif report.gpus and (match := LIST_MIG.match(line)):
            report.mig_devices.append(
                record(
                    MIG_FIELDS,
                    gpu_index=report.gpus[-1]["index"],
                    index=int(match[2]),
                    name=f"MIG {match[1]}",
                    uuid=match[3],
                )
            )
            literal["mig_devices"].append(line)
    report.lines = {name: "\n".join(rows) for name, rows in literal.items()}
    return report


CSV_GPU = {
    "index": ("index", as_number),
    "name": ("name", as_text),
    "uuid": ("uuid", as_text),
    "pci.bus_id": ("bus_id", as_text),
    "memory.total": ("memory_total_mib", as_mib),
    "compute_cap": ("compute_capability", as_version),
    "mig.mode.current": ("mig", as_switch),
}
"""csv column -> (field, reader); `driver_version` is read beside."""

CSV_PROCESS = {
    "pid": ("pid", as_number),
    "process_name": ("name", as_text),
    "used_gpu_memory": ("used_memory_mib", as_mib),
    "gpu_uuid": ("gpu_uuid", as_text),
}
GPU_QUERY = (*CSV_GPU, "driver_version")
PROCESS_QUERY = ("gpu_uuid", "pid", "used_gpu_memory", "process_name")


def table(text: str, source: str, asked: tuple[str, ...]) -> Report:
    """`--query-gpu` or `--query-compute-apps` as csv.

    The columns are those of the header line, or those that were asked for where there is none. A row
    of another length says no more than its index and name. Only the last column may hold commas.
    """
    report = Report(source)
    rows = [line for line in lines_of(text) if line.strip()]
    columns = list(asked)
    header = [cell.strip().split(" [")[0] for cell in rows[0].split(",")] if rows else []
    if set(header) & set(asked):
        columns, rows = header, rows[1:]
    if "pid" in columns:
        report.processes = []
    for line in rows:
        row = [cell.strip() for cell in line.split(",", len(columns) - 1)]
        if len(row) != len(columns):
            row = row[:2] if columns[:2] == ["index", "name"] else []
        _table_row(report, dict(zip(columns, row)), line.strip())
    report.lines = dict.fromkeys(("gpus", "processes"), text.strip())
    return report


def _table_row(report: Report, row: dict[str, str], line: str) -> None:
    if report.processes is not None:
        process = {name: reader(row.get(key)) for key, (name, reader) in CSV_PROCESS.items()}
        if process["pid"] is not None:
            report.processes.append({**record(PROCESS_FIELDS, type="C"), **process})
        return
    gpu = {name: reader(row.get(key)) for key, (name, reader) in CSV_GPU.items()}
    if gpu["index"] is None:
        return
    report.gpus.append(gpu)
    if report.driver is None and as_version(row.get("driver_version")):
        report.driver = Reading(as_version(row["driver_version"]), report.source, line)
