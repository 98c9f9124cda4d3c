"""Everything the driver of a host says, merged into one set of facts.

Sources in the order of trust: `/sys/module/nvidia/version`, `/proc/driver/nvidia/version`, libcuda and
NVML, nvidia-smi. nvidia-smi is run only for what the others left open. The dated driver -> CUDA table
is the last: it speaks only where the host has no user side at all (a node seen through its /sys and
/proc alone). Where libcuda or nvidia-smi is there and gives no CUDA version, none is made up: CUDA
would not work either.
"""

from __future__ import annotations

import os
from typing import Any

from ..errors import ArmstageError
from ..files import read_text
from ..options import above_zero
from . import hardware, kernel, libraries, merge, smi, verdict
from .driver_table import DATED, cuda_of_branch, cuda_of_driver
from .merge import Host, Readings
from .reading import VERSION, Answer, Reading

FACTS: dict[str, Any] = {
    "status": None,
    "kernel_driver": None,
    "user_driver": None,
    "flavour": None,
    "cuda_version": None,
    "arch": None,
    "platform": None,
    "gpus": [],
    "mig_devices": [],
    "processes": [],
    "unified_memory": False,
    "memory_total_mib": None,
}
"""What each fact is where no source says anything."""


def read(
    root: str = "/",
    nvidia_smi: str = "nvidia-smi",
    timeout: float = 10,
    cuda_version: str | None = None,
    driver_version: str | None = None,
) -> dict[str, Any]:
    """The facts of the host below ``root``: the contract of `ansible_facts.cuda`.

    With a root other than `/` nothing outside of it is read or run, but for a nvidia-smi given as a
    path. Each probe may take ``timeout`` seconds. The overrides stand in for what was read; the
    status stays what was observed.

    Raises ArmstageError for an option that can't be meant, and for a file that cannot be read.
    """
    above_zero("timeout", timeout, "seconds")
    for option, value in (("cuda_version", cuda_version), ("driver_version", driver_version)):
        if value is not None and not VERSION.fullmatch(value):
            raise ArmstageError(
                f"Expected a version such as `13.0` or `580.95.05` in `{option}`, but received: `{value}`"
            )
    host = observe(os.path.normpath(root), nvidia_smi, timeout)
    return facts(host, overrides(cuda_version, driver_version))


def observe(root: str, nvidia_smi: str, timeout: float) -> Host:
    """Ask each source in turn; stop where one says that the next cannot say more."""
    host = Host(root, kernel.read(root))
    if host.live and libraries.present():
        host.answers.append(libraries.ask(timeout))
    if not any(_settled(answer) for answer in host.answers):
        program = smi.find(nvidia_smi) if host.live or os.sep in nvidia_smi else None
        if program:
            host.answers.append(smi.ask(program, timeout))
    return host


def _settled(answer: Answer) -> bool:
    """Whether nvidia-smi would add nothing, or would hang as well."""
    if answer.status == "driver-library-mismatch":
        return answer.has("library")
    return bool(answer.wedged or answer.status or (answer.has("driver") and answer.has("gpus")))


def overrides(cuda: str | None, driver: str | None) -> dict[str, Reading]:
    """Readings that stand in for what was read. A driver's CUDA is then the table's."""
    given: dict[str, Reading] = {}
    if driver is not None:
        if cuda is None and cuda_of_driver(driver) is None:
            raise ArmstageError(
                f"Expected a driver of the table (450 or newer) in `driver_version`, but received: `{driver}`",
                hint="Give its CUDA version as `cuda_version` as well",
            )
        reading = Reading(driver, "override", f"driver_version: {driver}")
        given = {"kernel_driver": reading, "user_driver": reading}
        line = f"driver {driver} -> CUDA {cuda_of_driver(driver)} by the table of {DATED}"
        given["cuda_version"] = Reading(cuda_of_driver(driver), "override", line)
    if cuda is not None:
        given["cuda_version"] = Reading(cuda, "override", f"cuda_version: {cuda}")
    return given


def facts(host: Host, given: dict[str, Reading]) -> dict[str, Any]:
    """Merge what was observed; reads no more than /proc, /sys and firmware names below the root."""
    readings = _versions(host)
    differing = merge.disagreements(host, readings)
    gpus = merge.gpus(host)
    chosen: dict[str, Reading | None] = {
        "status": _status(host, readings, bool(gpus)),
        **{name: found[0] for name, found in readings.items() if found},
        **given,
        "flavour": _flavour(host.kernel.module),
        "gpus": gpus,
        "mig_devices": merge.devices(host.reports, "mig_devices"),
    }
    known = [entry for name in ("gpus", "mig_devices") for entry in _value(chosen, name)]
    chosen["processes"] = merge.gpu_processes(host, known)
    machine = _machine(host, gpus, differing)
    chosen.update(machine, arch=_arch(host, machine["platform"]))
    values = {name: _value(chosen, name) for name in FACTS}
    status = chosen["status"] or Reading(None, "", "")
    notes = [*host.kernel.unreadable, *(note for answer in host.answers for note in answer.notes)]
    notes = [note for note in notes if note not in status.line]
    return {
        **values,
        "message": "; ".join([verdict.message(values, status.line), *notes, *_remarks(host, chosen, differing)]),
        "hint": verdict.hint(status.value, status.line),
        "disagreements": differing,
        "sources": {name: reading.provenance() for name, reading in chosen.items() if reading},
    }


def _value(chosen: dict[str, Reading | None], name: str) -> Any:
    reading = chosen.get(name)
    return FACTS[name] if reading is None else reading.value


def _versions(host: Host) -> Readings:
    """Every reading of the two driver versions and of the CUDA version.

    Where the kernel says nothing (WSL, a container), the driver that NVML or nvidia-smi names is
    the kernel side's as well: newer nvidia-smi calls it `KMD Version`. The version in libcuda's file
    name counts where NVML has none.
    """
    drivers = [report.driver for report in host.reports if report.driver]
    files = [report.library for report in host.reports if report.library]
    files = [reading for reading in files if reading.source != "libcuda"] or files
    cuda = [report.cuda for report in host.reports if report.cuda]
    kernels = host.kernel.readings or drivers[:1]
    if kernels and not host.answers:
        version = kernels[0].value
        own = cuda_of_branch(version) if host.jetson_module else cuda_of_driver(version)
        cuda = [Reading(own, f"driver table of {DATED}", f"driver {version} -> CUDA {own}")]
    return {
        "kernel_driver": kernels,
        "user_driver": drivers + files,
        "cuda_version": [reading for reading in cuda if reading.value],
    }


def _status(host: Host, readings: Readings, has_gpus: bool) -> Reading:
    """The status with who named it and the literal line, the gravest first."""
    named = {answer.status: answer for answer in reversed(host.answers) if answer.status}
    for answer in host.answers:
        if answer.wedged:
            return Reading("wedged", answer.source, answer.wedged)
    sides = merge.two_sides(host, readings)
    if sides and "driver-library-mismatch" not in named:
        return Reading("driver-library-mismatch", sides[1].source, sides[1].line)
    for status in ("driver-library-mismatch", "driver-not-loaded", "no-devices"):
        if status in named:
            return Reading(status, named[status].source, named[status].line)
    if not (host.kernel.loaded or readings["kernel_driver"] or has_gpus):
        return _unloaded(host)
    if host.kernel.gpus == [] and not has_gpus:
        return Reading("no-devices", f"/{kernel.PROC_GPUS}", f"/{kernel.PROC_GPUS} is empty")
    if readings["cuda_version"]:
        return _refused_nvml(host) or Reading("ok", *readings["cuda_version"][0][1:])
    refused = [(report.refused, report.source) for report in host.reports if report.refused]
    refused += [(answer.line, answer.source) for answer in named.values()]
    refused += [(note, answer.source) for answer in host.answers for note in answer.notes]
    refused += [(note, "kernel") for note in host.kernel.unreadable]
    line, source = (refused or [("no source names one", "all sources")])[0]
    return Reading("cuda-unreported", source, line)


def _refused_nvml(host: Host) -> Reading | None:
    """NVML that has no access, and no GPU seen by anyone: cuInit finds none either, though cuDriverGetVersion,
    which touches no device, answers (a container whose access to /dev/nvidia* is lost)."""
    refused = next((answer for answer in host.answers if answer.line and not answer.status), None)
    if refused is None or not verdict.cure(refused.line) or any(report.gpus for report in host.reports):
        return None
    return Reading("no-devices", refused.source, refused.line)


def _unloaded(host: Host) -> Reading:
    """No trace of a loaded module: is the driver installed at all?"""
    absent = f"no /{kernel.SYS_VERSION}"
    for answer in host.answers:
        return Reading("driver-not-loaded", answer.source, " ".join([answer.line, *answer.notes]).strip() or absent)
    if host.kernel.module_file:
        return Reading("driver-not-loaded", host.kernel.module_file, f"{host.kernel.module_file}, {absent}")
    return Reading("no-driver", "all sources", f"{absent}, no libcuda, no nvidia-smi")


def _flavour(module: kernel.Module | None) -> Reading | None:
    if module is None or module.flavour is None:
        return None
    return Reading(module.flavour, f"/{kernel.PROC_VERSION}", module.line)


def _arch(host: Host, platform: Reading) -> Reading:
    """The machine's architecture. A tree elsewhere says it in /proc, in the module's own line, or by
    its platform: all that are known by name are aarch64."""
    if not host.live:
        text = (read_text(os.path.join(host.root, "proc/sys/kernel/arch")) or "").strip()
        if text:
            return Reading(text, "/proc/sys/kernel/arch", text)
        module = host.kernel.module
        if module and module.arch:
            return Reading(module.arch, f"/{kernel.PROC_VERSION}", module.line)
        if platform.value != "other":
            return Reading("aarch64", *platform[1:])
    machine = os.uname().machine
    return Reading(machine, "uname", machine)


def _machine(host: Host, gpus: Reading | None, differing: list[dict[str, Any]]) -> dict[str, Reading]:
    """Platform, and whether GPU and CPU share one memory; where they do, its size is MemTotal.

    Such a GPU reports nothing (GB10) or its small carve-out (N1X: 8128 MiB of 54 GiB). A number below
    half of MemTotal is taken for a carve-out: it is left out and noted as a disagreement.
    """
    found = gpus.value if gpus else []
    platform = hardware.platform(found, host.jetson_module, host.root)
    silent = gpus is not None and bool(host.reports) and not any(gpu["memory_total_mib"] for gpu in found)
    unified = hardware.unified(platform.value) or (platform.value == "other" and silent)
    chosen = {"platform": platform, "unified_memory": Reading(unified, *platform[1:])}
    total = hardware.memory_total_mib(host.root) if unified else None
    if gpus is None or total is None:
        return {**chosen, **({"memory_total_mib": total} if total else {})}
    for gpu in found:
        size = gpu["memory_total_mib"]
        if size is not None and size < total.value // 2:
            carve_out = Reading(size, gpus.source, f"{gpu['name']}: {size} MiB")
            name = f"gpus[{gpu['index']}].memory_total_mib"
            differing.append(merge.disagreement(name, (carve_out, total)))
            gpu["memory_total_mib"] = None
    return {**chosen, "memory_total_mib": total}


def _remarks(host: Host, chosen: dict[str, Reading | None], differing: list[dict[str, Any]]) -> list[str]:
    """What a reader of the message has to know besides the status."""
    remarks = []
    cuda = chosen.get("cuda_version")
    if cuda and cuda.source == "override":
        remarks.append(f"CUDA {cuda.value} is given by an override (`{cuda.line}`)")
    elif cuda and cuda.source.startswith("driver table"):
        remarks.append(f"CUDA {cuda.value} is the {cuda.source}'s: this host has no libcuda and no nvidia-smi")
    if differing:
        remarks.append("sources disagree on " + ", ".join(entry["value"] for entry in differing))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if host.live and chosen.get("gpus") and visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        remarks.append(f"CUDA_VISIBLE_DEVICES is set to `{visible}`: CUDA programs started like this see no GPU")
    return remarks
