"""Ask libcuda and NVML; one JSON object a line on standard output.

This text runs in a child process (`python -c`), because a wedged driver hangs inside an ioctl that
no signal ends. It therefore imports nothing of the package. libcuda is asked first and its answer
is flushed: cuDriverGetVersion touches no device, so it stands even when NVML then hangs.

Layouts and codes: nvml.h and cuda.h of CUDA 13.4, read 2026-11-30.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from typing import Any, Callable

NVML_ERROR_INSUFFICIENT_SIZE = 7
NVML_ERROR_FUNCTION_NOT_FOUND = 13
TEXT = 96
"""Bytes of the longest name or UUID that NVML writes (NVML_DEVICE_NAME_V2_BUFFER_SIZE)."""

NOT_AVAILABLE = 2**64 - 1


class PciInfo(ctypes.Structure):
    _fields_ = [
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pciDeviceId", ctypes.c_uint),
        ("pciSubSystemId", ctypes.c_uint),
        ("busId", ctypes.c_char * 32),
    ]


class Memory(ctypes.Structure):
    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class ProcessInfo1(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong)]


class ProcessInfo2(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("usedGpuMemory", ctypes.c_ulonglong),
        ("gpuInstanceId", ctypes.c_uint),
        ("computeInstanceId", ctypes.c_uint),
    ]


# _v2 before _v3: early 535 drivers write longer records for _v3 (NVIDIA/go-nvml#75), and _v2 has
# been exported with one layout ever since it came.
PROCESS_CALLS = (("_v2", ProcessInfo2), ("_v3", ProcessInfo2), ("", ProcessInfo1))


class Refused(Exception):
    """An NVML function returned something else than NVML_SUCCESS."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(function, code)
        self.function = function
        self.code = code


class Nvml:
    """NVML functions by name; a symbol that this library lacks counts as FUNCTION_NOT_FOUND."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def call(self, function: str, *arguments: Any) -> None:
        entry = getattr(self.library, function, None)
        code = NVML_ERROR_FUNCTION_NOT_FOUND if entry is None else entry(*arguments)
        if code:
            raise Refused(function, code)

    def text(self, function: str, *before: Any) -> str:
        buffer = ctypes.create_string_buffer(TEXT)
        self.call(function, *before, buffer, ctypes.c_uint(TEXT))
        return buffer.value.decode("utf-8", "backslashreplace")

    def number(self, function: str, *before: Any) -> int:
        value = ctypes.c_uint()
        self.call(function, *before, ctypes.byref(value))
        return value.value

    def handle(self, function: str, *before: Any) -> ctypes.c_void_p:
        value = ctypes.c_void_p()
        self.call(function, *before, ctypes.byref(value))
        return value


def attempt(refusals: list[Any], function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's value, or None with the refusal noted."""
    try:
        return function(*arguments)
    except Refused as error:
        refusals.append([error.function, error.code])
        return None


def loaded_file(name: str) -> str | None:
    """The file behind a library this process has loaded: its name carries the driver version."""
    with open("/proc/self/maps", encoding="utf-8", errors="backslashreplace") as maps:
        for line in maps:
            path = line.rstrip("\n").split(None, 5)[-1]
            if os.path.basename(path).startswith(name):
                return os.path.realpath(path)
    return None


def load(name: str) -> tuple[ctypes.CDLL | None, dict[str, Any]]:
    """(library, answer): the answer so far, with the file or with why it does not load."""
    try:
        library = ctypes.CDLL(f"{name}.so.1")
    except OSError as error:
        return None, {"error": str(error)}
    return library, {"file": loaded_file(f"{name}.so")}


def ask_libcuda() -> dict[str, Any]:
    library, answer = load("libcuda")
    entry = getattr(library, "cuDriverGetVersion", None)
    if entry is not None:
        version = ctypes.c_int()
        answer["result"] = entry(ctypes.byref(version))
        answer["version"] = version.value
    elif library is not None:
        answer["error"] = "no cuDriverGetVersion in it"
    return answer


def ask_nvml() -> dict[str, Any]:
    library, answer = load("libnvidia-ml")
    if library is None:
        return answer
    nvml = Nvml(library)
    refusals: list[Any] = []
    answer["refusals"] = refusals
    try:
        nvml.call("nvmlInit_v2")
    except Refused as error:
        answer["init"] = error.code
        return answer
    answer["init"] = 0
    answer["driver"] = attempt(refusals, nvml.text, "nvmlSystemGetDriverVersion")
    # Only _v2 asks libcuda; the first form answers a built-in number where libcuda is missing.
    answer["cuda"] = attempt(refusals, nvml.number, "nvmlSystemGetCudaDriverVersion_v2")
    count = attempt(refusals, nvml.number, "nvmlDeviceGetCount_v2")
    answer["count"] = count
    answer["devices"] = [device(nvml, index) for index in range(count or 0)]
    return answer


def device(nvml: Nvml, index: int) -> dict[str, Any]:
    refusals: list[Any] = []
    answer: dict[str, Any] = {"index": index, "refusals": refusals}
    handle = attempt(refusals, nvml.handle, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index))
    if handle is None:
        return answer
    answer["name"] = attempt(refusals, nvml.text, "nvmlDeviceGetName", handle)
    answer["uuid"] = attempt(refusals, nvml.text, "nvmlDeviceGetUUID", handle)
    answer["bus_id"] = attempt(refusals, bus_id, nvml, handle)
    answer["memory"] = attempt(refusals, memory, nvml, handle)
    answer["capability"] = attempt(refusals, capability, nvml, handle)
    answer["mig"] = attempt(refusals, mig_mode, nvml, handle)
    answer["mig_devices"] = list(mig_devices(nvml, handle)) if answer["mig"] else []
    holders = [handle, *(mig.pop("handle") for mig in answer["mig_devices"])]
    answer["processes"] = attempt(refusals, processes, nvml, holders)
    return answer


def bus_id(nvml: Nvml, handle: ctypes.c_void_p) -> str:
    info = PciInfo()
    nvml.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(info))
    return str(info.busId.decode("ascii", "backslashreplace"))


def memory(nvml: Nvml, handle: ctypes.c_void_p) -> int:
    info = Memory()
    nvml.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(info))
    return int(info.total)


def capability(nvml: Nvml, handle: ctypes.c_void_p) -> list[int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    function = "nvmlDeviceGetCudaComputeCapability"
    nvml.call(function, handle, ctypes.byref(major), ctypes.byref(minor))
    return [major.value, minor.value]


def mig_mode(nvml: Nvml, handle: ctypes.c_void_p) -> bool:
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    nvml.call("nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending))
    return bool(current.value)


def mig_devices(nvml: Nvml, parent: ctypes.c_void_p) -> Iterator[dict[str, Any]]:
    """Every MIG device of a GPU; the indexes have holes where no instance was made."""
    count = attempt([], nvml.number, "nvmlDeviceGetMaxMigDeviceCount", parent)
    for index in range(count or 0):
        function = "nvmlDeviceGetMigDeviceHandleByIndex"
        handle = attempt([], nvml.handle, function, parent, ctypes.c_uint(index))
        if handle is not None:
            yield {
                "index": index,
                "handle": handle,
                "name": attempt([], nvml.text, "nvmlDeviceGetName", handle),
                "uuid": attempt([], nvml.text, "nvmlDeviceGetUUID", handle),
                "gpu_instance": attempt([], nvml.number, "nvmlDeviceGetGpuInstanceId", handle),
                "compute_instance": attempt([], nvml.number, "nvmlDeviceGetComputeInstanceId", handle),
                "memory": attempt([], memory, nvml, handle),
            }


def processes(nvml: Nvml, handles: list[ctypes.c_void_p]) -> list[list[Any]]:
    """[pid, bytes or None, "C" or "G"] of the processes on a GPU and on its MIG devices."""
    found: dict[tuple[int, str], int | None] = {}
    for handle in handles:
        for kind, letter in (("Compute", "C"), ("Graphics", "G")):
            for pid, used in running(nvml, f"nvmlDeviceGet{kind}RunningProcesses", handle):
                found.setdefault((pid, letter), used)
    return [[pid, used, letter] for (pid, letter), used in found.items()]


def running(nvml: Nvml, function: str, handle: ctypes.c_void_p) -> list[tuple[int, int | None]]:
    for suffix, layout in PROCESS_CALLS:
        if hasattr(nvml.library, function + suffix):
            return records(nvml, function + suffix, layout, handle)
    raise Refused(function, NVML_ERROR_FUNCTION_NOT_FOUND)


def records(nvml: Nvml, function: str, layout: Any, handle: ctypes.c_void_p) -> list[tuple[int, int | None]]:
    size = 64
    while True:
        count = ctypes.c_uint(size)
        infos = (layout * (2 * size))()  # twice: room for the longer records of early 535 drivers
        try:
            nvml.call(function, handle, ctypes.byref(count), infos)
        except Refused as error:
            if error.code != NVML_ERROR_INSUFFICIENT_SIZE or size > 65536:
                raise
            size = max(count.value, size) * 2
            continue
        return [
            (info.pid, None if info.usedGpuMemory == NOT_AVAILABLE else info.usedGpuMemory)
            for info in infos[: count.value]
        ]


def main() -> None:
    for name, ask in (("libcuda", ask_libcuda), ("nvml", ask_nvml)):
        print(json.dumps({name: ask()}), flush=True)


if __name__ == "__main__":
    main()
