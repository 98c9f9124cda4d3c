"""libcuda and NVML: the user side of the driver, asked through ctypes in a child process.

The child runs the text of `probe` (`python -c`), so it works out of a zip file as well, and a
driver that hangs in an ioctl costs the time limit and no more.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from ..run import run
from .reading import (
    GPU_FIELDS,
    MIG_FIELDS,
    PROCESS_FIELDS,
    Answer,
    Reading,
    Report,
    as_text,
    as_version,
    record,
)

LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")

NVML_CODES = {
    2: "INVALID_ARGUMENT",
    3: "NOT_SUPPORTED",
    4: "NO_PERMISSION",
    6: "NOT_FOUND",
    9: "DRIVER_NOT_LOADED",
    12: "LIBRARY_NOT_FOUND",
    13: "FUNCTION_NOT_FOUND",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH",
    999: "UNKNOWN",
}

INIT_STATUS = {9: "driver-not-loaded", 18: "driver-library-mismatch"}
"""What a refusal of nvmlInit_v2 says about the whole host."""

QUIET = frozenset({3, 13})
"""A device that has no such thing (NOT_SUPPORTED), a library that is older than the question."""


def present() -> list[str]:
    """Which of the two libraries the dynamic loader would find, without loading any.

    A musl system has no cache; its loader searches the default folders alone.
    """
    searched = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    try:
        with open("/etc/ld.so.cache", "rb") as file:
            cache = file.read()
    except OSError:
        cache = b""
    return [
        name
        for name in LIBRARIES
        if b"\0%s\0" % name.encode() in cache
        or any(os.path.exists(f"{folder}/{name}") for folder in (*searched, *DEFAULT_FOLDERS))
    ]


def ask(timeout: float) -> Answer:
    """Ask both libraries, for at most ``timeout`` seconds."""
    import inspect

    from . import probe

    completed = run([sys.executable, "-I", "-S", "-c", inspect.getsource(probe)], timeout)
    answers: dict[str, dict[str, Any]] = {}
    try:
        for line in completed.out.splitlines():
            answers.update(json.loads(line))
    except ValueError:
        pass  # the line on which the child was ended
    answer = Answer("libcuda and NVML")
    if "libcuda" in answers:
        _libcuda(answer, answers["libcuda"])
    if "nvml" in answers:
        _nvml(answer, answers["nvml"])
    waiting = "libcuda" if "libcuda" not in answers else "NVML"
    if completed.timed_out:
        left = " and could not be killed" if completed.abandoned else ""
        answer.wedged = f"{waiting} did not return within {timeout:g} s{left}"
    elif "nvml" not in answers:
        told = completed.err.strip().splitlines()[-1:] or [f"exit status {completed.rc}"]
        answer.notes.append(f"asking {waiting} ended early: {told[0]}")
    return answer


def cuda_text(number: int | None) -> str | None:
    """12080 as `12.8` and 13000 as `13.0`; None for what is no version."""
    return f"{number // 1000}.{number % 1000 // 10}" if number and number >= 1000 else None


def file_version(path: str | None) -> str | None:
    """The driver version in a library's file name, `libnvidia-ml.so.580.159.03`."""
    match = re.search(r"\.so\.(\d+(?:\.\d+){1,2})$", path or "", re.ASCII)
    return match[1] if match else None


def _libcuda(answer: Answer, raw: dict[str, Any]) -> None:
    report = Report("libcuda")
    version = cuda_text(raw.get("version")) if raw.get("result") == 0 else None
    if version:
        line = f"cuDriverGetVersion -> {raw['version']}"
        report.cuda = Reading(version, "libcuda", line)
    elif "error" in raw:
        report.refused = raw["error"]
    else:
        report.refused = f"cuDriverGetVersion returned {raw.get('result')}"
    if file_version(raw.get("file")):
        report.library = Reading(file_version(raw["file"]), "libcuda", raw["file"])
    answer.reports.append(report)


def _nvml(answer: Answer, raw: dict[str, Any]) -> None:
    report = Report("NVML")
    if file_version(raw.get("file")):
        report.library = Reading(file_version(raw["file"]), "NVML", raw["file"])
    answer.reports.append(report)
    if "error" in raw:
        answer.notes.append(f"NVML does not load: {raw['error']}")
        return
    if raw["init"]:
        answer.line = f"nvmlInit_v2 -> {nvml_code(raw['init'])}"
        answer.status = INIT_STATUS.get(raw["init"])
        if answer.status is None:
            answer.notes.append(answer.line)
        return
    if as_version(raw["driver"]):
        line = f"nvmlSystemGetDriverVersion -> {raw['driver']}"
        report.driver = Reading(raw["driver"], "NVML", line)
    if cuda_text(raw["cuda"]):
        line = f"nvmlSystemGetCudaDriverVersion_v2 -> {raw['cuda']}"
        report.cuda = Reading(cuda_text(raw["cuda"]), "NVML", line)
    if raw["count"] == 0:
        answer.status, answer.line = "no-devices", "nvmlDeviceGetCount_v2 -> 0"
    _devices(report, raw["devices"])
    for device in [raw, *raw["devices"]]:
        where = f"GPU {device['index']}: " if "index" in device else ""
        answer.notes += [
            f"{where}{function} -> {nvml_code(code)}"
            for function, code in device["refusals"]
            if code not in QUIET and function != "nvmlSystemGetCudaDriverVersion_v2"
        ]
    for function, code in raw["refusals"]:
        if function == "nvmlSystemGetCudaDriverVersion_v2":
            report.refused = f"{function} -> {nvml_code(code)}"


def _devices(report: Report, devices: list[dict[str, Any]]) -> None:
    known = [device for device in devices if "name" in device]
    for device in known:
        capability = device["capability"]
        report.gpus.append(
            record(
                GPU_FIELDS,
                index=device["index"],
                name=as_text(device["name"]),
                uuid=as_text(device["uuid"]),
                bus_id=as_text(device["bus_id"]),
                memory_total_mib=mib(device["memory"]),
                compute_capability=".".join(map(str, capability)) if capability else None,
                mig=device["mig"],
            )
        )
        for mig in device["mig_devices"]:
            report.mig_devices.append(
                record(
                    MIG_FIELDS,
                    gpu_index=device["index"],
                    index=mig["index"],
                    name=as_text(mig["name"]),
                    uuid=as_text(mig["uuid"]),
                    gpu_instance_id=mig["gpu_instance"],
                    compute_instance_id=mig["compute_instance"],
                    memory_total_mib=mib(mig["memory"]),
                )
            )
    if all(device["processes"] is not None for device in known):
        report.processes = [
            record(
                PROCESS_FIELDS,
                pid=pid,
                type=letter,
                gpu_index=device["index"],
                used_memory_mib=mib(used),
            )
            for device in known
            for pid, used, letter in device["processes"]
        ]
    report.lines = {
        "gpus": f"nvmlDeviceGetCount_v2 -> {len(devices)}",
        "mig_devices": "nvmlDeviceGetMigDeviceHandleByIndex",
        "processes": "nvmlDeviceGetComputeRunningProcesses",
    }


def mib(count: int | None) -> int | None:
    """Bytes in whole MiB."""
    return None if count is None else count // (1024 * 1024)


def nvml_code(code: int) -> str:
    """18 as `18 NVML_ERROR_LIB_RM_VERSION_MISMATCH`."""
    return f"{code} NVML_ERROR_{NVML_CODES[code]}" if code in NVML_CODES else str(code)
