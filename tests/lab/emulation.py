"""arm64 programs on a machine of another architecture: qemu's user emulation, registered with the kernel.

On an arm64 machine nothing here is needed (`Host.emulates`).
"""

from __future__ import annotations

import os
from pathlib import Path

from armstage.elf import reader
from armstage.errors import ArmstageError
from armstage.run import run

from .alone import alone
from .command import output_of
from .host import Host, cache_folder

BINFMT = Path("/proc/sys/fs/binfmt_misc")
ENTRY = "armstage-aarch64"
# An arm64 ELF file: 64-bit, little-endian, e_type EXEC or DYN, e_machine 183 (elf(5)); any OS ABI.
MAGIC = bytes.fromhex("7f454c460201010000000000000000000200b700")
MASK = bytes.fromhex("ffffffffffffff00fffffffffffffffffeffffff")
# P keeps argv[0]; F opens the emulator now, so that it is found inside a container; C takes the program's own
# set-user-id bits, without which sudo refuses to work (Documentation/admin-guide/binfmt-misc.rst).
NEEDED_FLAGS = frozenset("CF")
FLAGS = "PCF"
EMULATORS = tuple(Path("/usr/bin", name) for name in ("qemu-aarch64-static", "qemu-aarch64"))
# Without pointer authentication, which qemu computes in slow software for its default model: measured 6.7 times
# as fast on `python3 -m compileall`.
CPU_MODELS = ("neoverse-n1", "cortex-a72")
# What a Neoverse N1 says in its main ID register.
MIDR = "0x00000000413fd0c1"


def parse_entry(text: str) -> dict[str, str]:
    """One file of binfmt_misc: `enabled` or `disabled` (key `state`), then lines of a key and a value."""
    entry = {"state": text.partition("\n")[0].strip()}
    for line in text.splitlines()[1:]:
        key, _, value = line.partition(" ")
        entry[key.rstrip(":")] = value.strip()
    return entry


def serves(entry: dict[str, str]) -> bool:
    """Whether this entry runs arm64 programs, in a container and with set-user-id."""
    return (
        entry["state"] == "enabled"
        and entry.get("magic", "") == MAGIC.hex()
        and set(entry.get("flags", "")) >= NEEDED_FLAGS
    )


def registration(emulator: Path) -> str:
    """The line for binfmt_misc's `register` file."""
    magic, mask = ("".join(f"\\x{byte:02x}" for byte in data) for data in (MAGIC, MASK))
    return f":{ENTRY}:M::{magic}:{mask}:{emulator}:{FLAGS}"


def is_registered(folder: Path = BINFMT) -> bool:
    files = [path for path in folder.glob("*") if path.name not in ("register", "status")]
    return any(serves(parse_entry(path.read_text())) for path in files)


def register(host: Host) -> bool:
    """Make the kernel run arm64 programs. True when something had to be done; it holds until the machine restarts."""
    if not host.emulates or is_registered():
        return False
    emulator = find_emulator()
    if not host.root:
        mount = f"mount -t binfmt_misc binfmt_misc {BINFMT}"
        raise ArmstageError(
            "Expected the kernel to run arm64 programs with flags C and F, but it does not",
            hint=f"As root: {mount}; printf '%s' '{registration(emulator)}' > {BINFMT}/register",
        )
    with alone():
        if not (BINFMT / "register").exists():
            output_of(["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)], timeout=30)
        if not is_registered():
            if (BINFMT / ENTRY).exists():
                (BINFMT / ENTRY).write_text("-1")
            (BINFMT / "register").write_bytes(registration(emulator).encode())
    return True


def find_emulator() -> Path:
    """qemu's static arm64 emulator; one that needs shared libraries would not find them inside a container."""
    for path in EMULATORS:
        if path.exists() and is_static(path):
            return path
    names = " or ".join(f"`{path}`" for path in EMULATORS)
    raise ArmstageError(f"Expected a static emulator for arm64 at {names}", hint="Run: python tests/lab/lab.py prepare")


def is_static(path: Path) -> bool:
    """Whether a program names no interpreter, which is to say no dynamic loader."""
    return reader.read(str(path)).interpreter == ""


def cpu_model() -> str | None:
    """The quickest CPU model that the emulator here knows, or None: its own default."""
    # qemu ends with status 1 after its list.
    known = run([str(find_emulator()), "-cpu", "help"], timeout=30).out.split()
    return next((model for model in CPU_MODELS if model in known), None)


def environment(host: Host) -> dict[str, str]:
    """The variables that an emulated program is started with."""
    model = cpu_model() if host.emulates else None
    return {"QEMU_CPU": model} if model else {}


def processor_folder() -> Path:
    """A stand-in for /sys/devices/system/cpu, which on this machine describes another architecture.

    torch 2.13 and newer read `regs/identification/midr_el1` of each processor at import, and crash where there is none.
    """
    folder = cache_folder() / "processors"
    count = os.cpu_count() or 1
    for index in range(count):
        register = folder / f"cpu{index}/regs/identification/midr_el1"
        register.parent.mkdir(parents=True, exist_ok=True)
        register.write_text(MIDR + "\n")
        topology = folder / f"cpu{index}/topology"
        topology.mkdir(exist_ok=True)
        for name, value in {"core_id": index, "physical_package_id": 0, "thread_siblings_list": index}.items():
            (topology / name).write_text(f"{value}\n")
    for name in ("online", "possible", "present"):
        (folder / name).write_text(f"0-{count - 1}\n" if count > 1 else "0\n")
    return folder
