"""The status of the driver in words: what was found, on which literal line, and what to do."""

from __future__ import annotations

from typing import Any

HINTS = {
    "ok": "",
    "no-driver": (
        "On a GPU node install the NVIDIA driver; to choose for other nodes from this host give"
        " `cuda_version` or `driver_version`"
    ),
    "driver-not-loaded": (
        "Load it (modprobe nvidia) and read `dmesg | grep -i nvidia`; after a kernel upgrade the module"
        " has to be built for the running kernel first (dkms autoinstall)"
    ),
    "no-devices": (
        "Inside a job ask for GPUs (--gres=gpu); else read `dmesg | grep NVRM`: missing GSP firmware"
        " and a GPU that has fallen off the bus look like this"
    ),
    "driver-library-mismatch": (
        "Reboot, or end every GPU process and reload the module (modprobe -r nvidia_uvm nvidia_drm"
        " nvidia_modeset nvidia && modprobe nvidia). Running jobs are not evidence: they keep working"
        " while every new one fails"
    ),
    "cuda-unreported": (
        "Install the libcuda package of the same driver version (libcuda1, libnvidia-compute,"
        " nvidia-driver-cuda-libs) and run ldconfig"
    ),
    "wedged": (
        "Reboot this node: a process that hangs in the driver cannot be killed, and every new one will hang as well"
    ),
}

CAUSES = (
    (
        ("unable to determine the device handle", "gpu is lost", "gpu_is_lost"),
        "A GPU has fallen off the bus: read `dmesg | grep -i xid`, reset it (nvidia-smi --gpu-reset) or reboot",
    ),
    (
        ("insufficient permissions", "no_permission"),
        "Look at the rights of /dev/nvidia*: this user, or the job it runs in, may not open them",
    ),
    (
        ("blocked by the operating system", "operating_system"),
        "Give the container its GPUs (--gpus all); on WSL update the Windows driver and run `wsl --shutdown`",
    ),
    (
        ("does not start", "ended with status -", "names no driver and no gpu", "wrote more than"),
        "It is this nvidia-smi that fails: run it by hand, and install that of the driver's version, or name the right"
        " one (`nvidia_smi`, `--nvidia-smi`)",
    ),
    (
        ("nvml: unknown error", "error_unknown"),
        "In a container: start it again, its access to /dev/nvidia* is lost (`systemctl daemon-reload` on the host"
        " takes it away); on a host read `dmesg | grep NVRM`",
    ),
)
"""What the literal line names, in lower case, and what to do about that instead of what the status asks for.

The lost access: NVIDIA/nvidia-container-toolkit#48 (2023-02-07). The others: nvidia-smi's and NVML's own words.
"""

CAUSED = ("no-devices", "cuda-unreported", "driver-not-loaded")
"""The statuses that a cause of its own may stand behind."""

MESSAGES = {
    "ok": "Driver {driver}, CUDA {cuda}, {gpus}",
    "no-driver": "No NVIDIA driver: neither a kernel module nor libcuda, NVML or nvidia-smi",
    "driver-not-loaded": "The NVIDIA driver is installed, but its kernel module does not answer: {line}",
    "no-devices": "Driver {driver} is loaded, but it has no GPU: {line}",
    "driver-library-mismatch": (
        "The loaded kernel module is {kernel}, the libraries are {user}: the driver was upgraded under a"
        " loaded module ({line})"
    ),
    "cuda-unreported": "Driver {driver} is there, but not its CUDA version: libcuda not usable ({line})",
    "wedged": "The driver is wedged: {line}",
}


def hint(status: str, line: str) -> str:
    """What to do: about the cause that the literal ``line`` names, else about the status."""
    return (cure(line) if status in CAUSED else None) or HINTS[status]


def cure(line: str) -> str | None:
    """What to do about a cause of its own that the line names; None where it names none."""
    told = line.lower()
    return next((text for words, text in CAUSES if any(word in told for word in words)), None)


def message(facts: dict[str, Any], line: str) -> str:
    """One sentence for the facts' status; ``line`` is the literal text behind it."""
    names = [gpu["name"] or "GPU without a name" for gpu in facts["gpus"]]
    counted = [f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    kernel, user = facts["kernel_driver"], facts["user_driver"]
    return MESSAGES[facts["status"]].format(
        driver=kernel or user or "of unknown version",
        kernel=kernel or "of unknown version",
        user=user or "of another version",
        cuda=facts["cuda_version"],
        gpus=", ".join(counted) or "GPUs not listed",
        line=line if "`" in line or facts["status"] == "wedged" else f"`{line}`",
    )
