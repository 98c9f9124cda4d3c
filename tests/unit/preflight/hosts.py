"""Hosts as recorded, planted below a folder: /proc, /sys and a nvidia-smi that prints what real ones printed."""

import shlex
from pathlib import Path

from ansible.module_utils.armstage.preflight.catalogue import CHECKS
from ansible.module_utils.armstage.preflight.context import Context
from ansible.module_utils.armstage.preflight.request import Request
from ansible.module_utils.armstage.preflight.runner import judge

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SMI = FIXTURES / "nvidia" / "smi"
MEMINFO = FIXTURES / "meminfo"

IDLE = "0, 48, 14.21, 2405, 3003, 0, 0x0000000000000001, 0, 0, 0"
UNDER_LOAD = "0, 84, 58.20, 2424, 3003, 96, 0x0000000000000000, 0, 0, 0"
STUCK = "0, 51, 15.02, 611, 3003, 95, 0x0000000000000000, 0, 0, 0"
"""csv of `sensors.COLUMNS`: a GB10 idle, serving, and with its power supply latched (2026-09-11)."""


def look(number, environ=None, **options):
    """One check's finding, made in this process."""
    check = next(check for check in CHECKS if check.id == number)
    return judge(check, Context(Request(environ=environ or {}, **options))).finding


class Host:
    """A host below ``root``; ``options`` are those that make a check look at it."""

    def __init__(self, folder, arch="aarch64"):
        self.folder = folder
        self.root = folder / "host"
        self.smi = folder / "nvidia-smi"
        self.answers = {}
        self.put("proc/sys/kernel/arch", f"{arch}\n")
        self.put("proc/meminfo", (MEMINFO / "gh200").read_text())

    @property
    def options(self):
        return {"root": str(self.root), "nvidia_smi": str(self.smi) if self.answers else "nvidia-smi"}

    def look(self, number, environ=None, **options):
        return look(number, environ, **{**self.options, **options})

    def put(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def answer(self, pattern, text):
        """What nvidia-smi prints for arguments of this shell pattern; the first that fits counts."""
        self.answers[pattern] = text
        cases = "".join(f"{key}) printf '%s\\n' {shlex.quote(value)};;\n" for key, value in self.answers.items())
        self.smi.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}*) exit 2;;\nesac\n')
        self.smi.chmod(0o755)
        return self

    def driver(self, version, banner):
        """A loaded driver, and the banner of its nvidia-smi."""
        self.put("sys/module/nvidia/version", f"{version}\n")
        return self.answer("''", (SMI / banner).read_text())

    def spark(self, meminfo="gb10-idle", sensors=IDLE, capability="12.1"):
        """A DGX Spark with driver 580.95.05."""
        self.put("proc/meminfo", (MEMINFO / meminfo).read_text())
        self.put("proc/driver/nvidia/gpus/000f:01:00.0/information", (MEMINFO / "gpu-information").read_text())
        banner = (SMI / "banner-580.95.05-gb10.txt").read_text()
        self.driver("580.95.05", "banner-580.95.05-gb10.txt")
        self.answer("''", banner[: banner.index("| Processes:")])
        self.answer("--query-gpu=index,temperature*", sensors)
        self.answer("--query-gpu*", (SMI / "csv-gb10.txt").read_text().replace("12.1", capability))
        return self.answer("--query-compute-apps*", (SMI / "apps-gb10.txt").read_text().splitlines()[0])

    def processes(self, *lines):
        """What `--query-compute-apps` prints: ``6330, 96073 MiB, sglang::scheduler`` each."""
        head, uuid = (SMI / "apps-gb10.txt").read_text().splitlines()[:2]
        listed = [f"{uuid.partition(',')[0]}, {line}" for line in lines]
        return self.answer("--query-compute-apps*", "\n".join([head, *listed]))

    def process(self, pid, name, arguments=(), devices=("/dev/nvidia-uvm",)):
        """A process with these devices open."""
        self.put(f"proc/{pid}/comm", f"{name[:15]}\n")
        self.put(f"proc/{pid}/cmdline", "\0".join([name, *arguments]))
        for number, device in enumerate(devices, 3):
            link = self.root / f"proc/{pid}/fd/{number}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(device)
        return self

    def roce(self, device, interface, up=True, mtu=9000, gids=(("fe80::1", "RoCE v1"), ("10.0.0.1", "RoCE v2"))):
        """A RoCE device and its interface, as sysfs shows them."""
        folder = f"sys/class/infiniband/{device}"
        self.put(f"{folder}/device/net/{interface}/mtu", f"{mtu}\n")
        self.put(f"{folder}/ports/1/state", "4: ACTIVE\n" if up else "1: DOWN\n")
        self.put(f"{folder}/ports/1/rate", "200 Gb/sec (4X HDR)\n")
        for index, (address, kind) in enumerate(gids):
            groups = [int(part) for part in address.split(".")] if "." in address else None
            text = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*groups) if groups else address
            self.put(f"{folder}/ports/1/gids/{index}", f"{text}\n")
            self.put(f"{folder}/ports/1/gid_attrs/types/{index}", f"{kind}\n")
        self.put(f"sys/class/net/{interface}/mtu", f"{mtu}\n")
        self.put(f"sys/class/net/{interface}/carrier", f"{int(up)}\n")
        return self
