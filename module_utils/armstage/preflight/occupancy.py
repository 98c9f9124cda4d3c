"""G6: who else holds the GPU, and how much of it: by NVML and by who has /dev/nvidia* open, never by names.

A leftover server renames itself (`VLLM::EngineCor`), so that looking for `vllm` misses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..elf.words import listed
from .context import Context
from .model import FAIL, INFO, PASS, WARN, Fact, Finding, worst
from .thresholds import THRESHOLDS

CAPS = ("--gpu-memory-utilization", "--gpu_memory_utilization", "--mem-fraction-static", "--mem_fraction_static")
"""Options by which servers promise to use no more than a share of the memory (vLLM, SGLang; 2026-08-18)."""

GENERATIONS = 4
"""How many processes up a server's own command line is looked for."""

HINT = "Wait for it, or end it if it is a leftover (kill PID, then look again); on a Spark its memory is not yours"


@dataclass(frozen=True)
class Tenant:
    """A process on the GPU. ``mib`` and ``cap`` (a share) are None where they are not known."""

    pid: int
    name: str
    mib: int | None
    graphics: bool
    cap: float | None

    def __str__(self) -> str:
        known = [f"{self.mib} MiB"] if self.mib is not None else []
        known += [f"capped at {self.cap:.0%} by its command line"] if self.cap is not None else []
        return f"`{self.name}` (pid {self.pid}{''.join(f', {text}' for text in known)})"


def check(context: Context) -> Finding:
    tenants = find(context)
    total = memory_mib(context)
    source = context.driver["sources"].get("processes", {}).get("source", "/proc/*/fd")
    blind = "" if context.driver["processes"] and source != "/proc/*/fd" else context.holders.blind_spot
    facts = tuple(Fact(f"pid {each.pid}", str(each), source) for each in tenants)
    small = [each for each in tenants if is_small(each, total)]
    problems = list(_problems([each for each in tenants if each not in small], total, source))
    if small:
        detail = "; ".join([f"{listed(small)}: small or capped", *([blind] if blind else [])])
    elif blind:
        detail = "no other process is seen on the GPU, but " + blind[0].lower() + blind[1:]
    else:
        detail = "no other process on the GPU"
    return worst(problems, Finding(INFO if small or blind else PASS, detail, source=source, facts=facts))


def find(context: Context) -> list[Tenant]:
    """Everyone on the GPU but daemons that only keep a device open, this process and who started it."""
    own = set(_ancestors()) if context.live_host else set()
    listed_by_driver = {entry["pid"]: entry for entry in context.driver["processes"]}
    holders = {holder.pid: holder for holder in context.holders.found}
    tenants = []
    held = {pid for pid, holder in holders.items() if holder.busy or holder.display}
    for pid in sorted({*listed_by_driver, *held} - own):
        entry, holder = listed_by_driver.get(pid, {}), holders.get(pid)
        if holder and pid not in held and entry.get("type") != "C" and not entry.get("used_memory_mib"):
            continue
        name = os.path.basename(entry.get("name") or (holder.name if holder else "?"))
        graphics = entry.get("type") == "G" or bool(holder and holder.display and not entry)
        tenants.append(Tenant(pid, name, entry.get("used_memory_mib"), graphics, cap_of(command_line(context, pid))))
    return tenants


def command_line(context: Context, pid: int) -> list[str]:
    """The words that a process was started with. One that has given itself a name in their place
    (`VLLM::EngineCore`, `sglang::scheduler`) was started by a process that still has them."""
    for _generation in range(GENERATIONS):
        words = [word for word in context.text(f"/proc/{pid}/cmdline").split("\0") if word]
        parent = re.search(r"^PPid:\s+(\d+)$", context.text(f"/proc/{pid}/status"), re.MULTILINE)
        if len(words) > 1 or parent is None or int(parent[1]) <= 1:
            return words
        pid = int(parent[1])
    return words


def cap_of(arguments: Sequence[str]) -> float | None:
    """The share of the memory that a command line promises not to exceed: of an option given twice the last counts."""
    cap = None
    for position, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if option in CAPS:
            text = value if equals else next(iter(arguments[position + 1 :]), "")
            cap = float(text) if re.fullmatch(r"0?\.\d+|1(\.0+)?", text) else None
    return cap


def memory_mib(context: Context) -> int:
    """The memory that the GPUs have, or share with the CPU; 0 where it is not known."""
    own = sum(gpu["memory_total_mib"] or 0 for gpu in context.driver["gpus"])
    return int(context.driver["memory_total_mib"] or own)


def is_small(tenant: Tenant, total: int) -> bool:
    """A display, or a program that has promised, or is seen to use, no more than a small share."""
    limit = THRESHOLDS["other_processes"]["small_share"]
    share = tenant.mib / total if tenant.mib is not None and total else None
    if tenant.graphics:
        return share is None or share < limit
    return tenant.cap is not None and tenant.cap <= limit and (share is None or share <= tenant.cap * 1.1)


def _problems(tenants: Sequence[Tenant], total: int, source: str) -> Iterator[Finding]:
    limit = THRESHOLDS["other_processes"]["large_share"]
    for tenant in tenants:
        share = tenant.mib / total if tenant.mib is not None and total else None
        promised = tenant.cap if share is None else max(share, tenant.cap or 0)
        if promised is not None and promised >= limit:
            much = f"{share:.0%} of the memory" if share is not None else "most of the memory"
            yield Finding(FAIL, f"{tenant} holds the GPU with {much}", HINT, source)
        else:
            yield Finding(WARN, f"{tenant} is on the GPU", HINT, source)


def _ancestors() -> Iterator[int]:
    """This process and those that started it."""
    pid = os.getpid()
    while pid > 1:
        yield pid
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
