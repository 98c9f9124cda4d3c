"""Temperature, power, clocks and slowdowns of the GPUs: through NVML, else through nvidia-smi's csv.

NVML costs milliseconds, nvidia-smi about a second. Structures and numbers are those of nvml.h
(CUDA 13.0); whatever a GPU or a driver does not know is None.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..nvidia import libraries, smi
from ..nvidia.probe import Nvml, Refused, attempt, load
from ..run import run

REASONS = {
    0x001: "idle",
    0x002: "application clocks",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clocks",
}
"""nvmlClocksEventReason*: the bits of why a clock is not higher."""

THERMAL, HARDWARE = 0x020 | 0x040, 0x008 | 0x040 | 0x080

COUNTERS = {251: "sw_thermal", 252: "hw_thermal", 253: "hw_power_brake"}
"""NVML_FI_DEV_CLOCKS_EVENT_REASON_*: nanoseconds since the driver was loaded."""

COLUMNS = (
    "index",
    "temperature.gpu",
    "power.draw",
    "clocks.sm",
    "clocks.max.sm",
    "utilization.gpu",
    "clocks_event_reasons.active",
    "clocks_event_reasons_counters.sw_thermal_slowdown",
    "clocks_event_reasons_counters.hw_thermal_slowdown",
    "clocks_event_reasons_counters.hw_power_brake_slowdown",
)
OLD_COLUMNS = (*COLUMNS[:6], "clocks_throttle_reasons.active")
"""What a nvidia-smi before 535 knows of them."""


NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+)|(-?\d+(?:\.\d+)?)(?:\s*[A-Za-z%]+)?", re.ASCII)
"""Some versions print units although ``nounits`` was asked for."""


@dataclass(frozen=True)
class Sample:
    """One reading of one GPU. ``at`` is seconds since the first; counters are seconds since the driver was loaded."""

    gpu: int
    at: float = 0.0
    celsius: float | None = None
    watts: float | None = None
    sm_mhz: float | None = None
    max_sm_mhz: float | None = None
    utilisation: float | None = None
    reasons: int | None = None
    sw_thermal: float | None = None
    hw_thermal: float | None = None
    hw_power_brake: float | None = None

    @property
    def tells(self) -> bool:
        """Whether it says anything about what slows the GPU down."""
        return any(value is not None for value in (self.reasons, self.sw_thermal, self.hw_thermal, self.hw_power_brake))


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Value(ctypes.Union):
    _fields_ = [("number", ctypes.c_ulonglong), ("real", ctypes.c_double)]


class _FieldValue(ctypes.Structure):
    _fields_ = [
        ("fieldId", ctypes.c_uint),
        ("scopeId", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latencyUsec", ctypes.c_longlong),
        ("valueType", ctypes.c_uint),
        ("nvmlReturn", ctypes.c_uint),
        ("value", _Value),
    ]


def reader(program: str, timeout: float, live: bool) -> tuple[Callable[[], list[Sample]] | None, str]:
    """What reads every GPU once, and its name; None where neither NVML nor nvidia-smi says anything.

    NVML is asked in this process: the caller is one that may be ended when it hangs. ``live`` is
    False for a recorded host, whose nvidia-smi must be given as a path.
    """
    if live and libraries.present():
        library, _answer = load("libnvidia-ml")
        if library is not None:
            nvml = Nvml(library)
            if attempt([], _started, nvml) and any(_is_of_use(sample) for sample in read_nvml(nvml)):
                return lambda: read_nvml(nvml), "NVML"
    found = smi.find(program) if live or os.sep in program else None
    if found and read_smi(found, timeout):
        return lambda: read_smi(found, timeout), "nvidia-smi"
    return None, ""


def _started(nvml: Nvml) -> bool:
    nvml.call("nvmlInit_v2")
    return True


def _is_of_use(sample: Sample) -> bool:
    return sample.celsius is not None or sample.sm_mhz is not None


def read_nvml(nvml: Nvml) -> list[Sample]:
    count = attempt([], nvml.number, "nvmlDeviceGetCount_v2") or 0
    handles = [
        attempt([], nvml.handle, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index)) for index in range(count)
    ]
    return [_device(nvml, index, handle) for index, handle in enumerate(handles) if handle is not None]


def _device(nvml: Nvml, index: int, handle: ctypes.c_void_p) -> Sample:
    def number(function: str, *before: Any, unit: float = 1) -> float | None:
        value = attempt([], nvml.number, function, handle, *before)
        return None if value is None else value / unit

    return Sample(
        index,
        celsius=number("nvmlDeviceGetTemperature", ctypes.c_int(0)),
        watts=number("nvmlDeviceGetPowerUsage", unit=1000),
        sm_mhz=number("nvmlDeviceGetClockInfo", ctypes.c_int(1)),
        max_sm_mhz=number("nvmlDeviceGetMaxClockInfo", ctypes.c_int(1)),
        utilisation=attempt([], _utilisation, nvml, handle),
        reasons=attempt([], _reasons, nvml, handle),
        **_counters(nvml, handle),
    )


def _utilisation(nvml: Nvml, handle: ctypes.c_void_p) -> float:
    rates = _Utilisation()
    nvml.call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(rates))
    return float(rates.gpu)


def _reasons(nvml: Nvml, handle: ctypes.c_void_p) -> int:
    value = ctypes.c_ulonglong()
    try:
        nvml.call("nvmlDeviceGetCurrentClocksEventReasons", handle, ctypes.byref(value))
    except Refused:
        nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", handle, ctypes.byref(value))
    return value.value


def _counters(nvml: Nvml, handle: ctypes.c_void_p) -> dict[str, float]:
    values = (_FieldValue * len(COUNTERS))(*(_FieldValue(fieldId=number) for number in COUNTERS))
    try:
        nvml.call("nvmlDeviceGetFieldValues", handle, ctypes.c_int(len(values)), values)
    except Refused:
        return {}
    return {COUNTERS[value.fieldId]: value.value.number / 1e9 for value in values if not value.nvmlReturn}


def read_smi(program: str, timeout: float) -> list[Sample]:
    """One run of nvidia-smi, or two where it is too old to know every column."""
    for columns in (COLUMNS, OLD_COLUMNS):
        query = [program, f"--query-gpu={','.join(columns)}", "--format=csv,noheader,nounits"]
        try:
            completed = run(query, timeout, {**os.environ, "LC_ALL": "C"})
        except OSError:
            return []
        samples = parse_smi(completed.out, columns) if completed.ok else []
        if samples:
            return samples
    return []


def parse_smi(text: str, columns: tuple[str, ...] = COLUMNS) -> list[Sample]:
    """Lines of csv without units: ``0, 67, 16.12, 2405, 3003, 0, 0x0000000000000001, 173453251, 0, 0``."""
    rows = ([cell.strip() for cell in line.split(",")] for line in text.splitlines())
    return [_sample(row) for row in rows if len(row) == len(columns) and row[0].isdigit()]


def _sample(row: list[str]) -> Sample:
    index, celsius, watts, clock, highest, busy, reasons, *counters = map(_number, row)
    microseconds = [None if counter is None else counter / 1e6 for counter in counters] or [None] * 3
    bits = None if reasons is None else int(reasons)
    return Sample(int(index or 0), 0.0, celsius, watts, clock, highest, busy, bits, *microseconds)


def _number(cell: str) -> float | None:
    """A cell's number, with or without its unit; None for ``[N/A]``, ``[Not Supported]`` and the like."""
    match = NUMBER.fullmatch(cell)
    if match is None:
        return None
    return float(int(match[1], 16)) if match[1] else float(match[2])


def reasons_in_words(bits: int | None) -> list[str]:
    return [name for bit, name in REASONS.items() if bits and bits & bit]
