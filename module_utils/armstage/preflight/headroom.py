"""G3: what a CUDA program can get on a GPU that shares its memory with the CPU, and which counter decides it.

On a GB10 CUDA's free memory is MemFree, so the page cache counts as used, though MemAvailable does not
count it. The counters are read and judged by ``memory``; here the verdict becomes a check.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..memory.cgroup import Limit, memory_limit
from ..memory.meminfo import GIB, FreeBlocks, Memory, gib, read_free_blocks
from ..memory.verdict import CANNOT_HELP, HELPS, NOT_NEEDED, Verdict, judge
from .context import Context
from .model import FAIL, PASS, WARN, Fact, Finding, worst
from .thresholds import THRESHOLDS

SOURCE = "/proc/meminfo"

DROP = "`./armstage drop-cache`"


def check(context: Context) -> Finding:
    memory = context.memory
    needed = context.request.workload
    verdict = judge(memory, needed, holders=context.holders.busy)
    limit = memory_limit(context.request.root)
    problems = [
        *_floor(memory, needed),
        *(_against_workload(verdict, needed) if needed else _alone(verdict, memory)),
        *_limited(limit, memory, needed),
        *_fragmented(read_free_blocks(context.request.root), context.page_size),
    ]
    state = f"MemFree {gib(memory.free)} and MemAvailable {gib(memory.available)} of {gib(memory.total)}"
    state += f"; {verdict.limit} binds"
    state += f"; this job may use {gib(limit.size)} of it" if limit and limit.size < memory.total else ""
    enough = f", at or above the {gib(needed)} needed" if needed else ""
    counters = ("MemTotal", "MemFree", "MemAvailable", "Cached", "AnonPages", "Shmem")
    fine = Finding(
        PASS,
        "; ".join([state + enough, *verdict.notes]),
        source=SOURCE,
        facts=(
            *(Fact(name, gib(memory.counters[name]), SOURCE) for name in counters if name in memory.counters),
            Fact("in no counter", gib(memory.in_no_counter), SOURCE),
            *(Fact(f"vm.{name}", str(value), f"/proc/sys/vm/{name}") for name, value in memory.sysctls.items()),
        ),
        data={"memory": memory.as_dict(), "verdict": verdict.as_dict()},
    )
    found = worst(problems, fine)
    if found is fine:
        return fine
    detail = "; ".join([found.detail, state, *verdict.notes])
    return Finding(found.status, detail, found.hint, found.source, found.facts, found.data)


def _floor(memory: Memory, needed: int | None) -> Iterator[Finding]:
    """So little left that the whole host may hang: the driver fails and no out-of-memory killer comes."""
    threshold = THRESHOLDS["headroom_floor"]
    floor = threshold["available_gib"] * GIB
    left = memory.available - (needed or 0)
    if left < floor:
        after = f" once the {gib(needed)} needed are taken" if needed else ""
        yield Finding(
            FAIL,
            f"{gib(max(0, left))} of MemAvailable are left{after}, below the floor of {gib(floor)}: a Spark that runs"
            " out hangs as a whole",
            "Ask for less memory, or end what holds it (G6)",
            threshold["source"],
        )


def _against_workload(verdict: Verdict, needed: int) -> Iterator[Finding]:
    if verdict.answer == NOT_NEEDED:
        return
    text = verdict.message.partition(": ")[2].partition("; MemFree ")[0]
    if verdict.answer == HELPS:
        yield Finding(WARN, f"{gib(needed)} are needed: {text}", f"Drop the page cache first: {DROP}", SOURCE)
    else:
        yield Finding(
            FAIL, f"{gib(needed)} are needed, and dropping the page cache cannot help: {text}", verdict.hint, SOURCE
        )


def _alone(verdict: Verdict, memory: Memory) -> Iterator[Finding]:
    """Without a workload to hold against: worth a warning where much of the memory is out of CUDA's reach."""
    threshold = THRESHOLDS["droppable"]
    text = verdict.message.partition(": ")[2].partition("; MemFree ")[0]
    if verdict.answer == CANNOT_HELP:
        yield Finding(WARN, f"much is used where no drop reaches it: {text}", verdict.hint, SOURCE)
    elif verdict.answer == HELPS and verdict.limit == "MemFree" and verdict.gain >= threshold["share"] * memory.total:
        yield Finding(
            WARN,
            f"{gib(verdict.gain)} are page cache, which CUDA counts as used",
            f"Drop it before a program that asks for much: {DROP}",
            SOURCE,
        )


def _limited(limit: Limit | None, memory: Memory, needed: int | None) -> Iterator[Finding]:
    """Less for this job than the node has."""
    if limit is not None and limit.size < min(needed or 0, memory.total):
        does = "slows programs down" if limit.soft else "ends programs"
        yield Finding(
            WARN,
            f"{gib(needed or 0)} are needed, and this job's own memory is limited to {gib(limit.size)}: the kernel"
            f" {does} that go above it, such as one that reads its weights through the CPU",
            "Ask for more: sbatch --mem=0 gives all of the node, docker run takes --memory",
            limit.file,
        )


def _fragmented(blocks: list[FreeBlocks], page_size: int) -> Iterator[Finding]:
    threshold = THRESHOLDS["fragmentation"]
    block = 4096 << threshold["order"]
    order = (max(block // page_size, 1) - 1).bit_length()
    zones = [block for block in blocks if block.zone == threshold["zone"] and len(block.counts) > order]
    if zones and not sum(block.bytes_from(order, page_size) for block in zones):
        size = (page_size << order) // 2**20
        yield Finding(
            WARN,
            f"no free block of {size} MiB in zone {threshold['zone']}: the driver may fail with NV_ERR_NO_MEMORY with"
            " memory free, and dropping the page cache alone does not cure that",
            "Reboot before a large run, or as root: `echo 1 > /proc/sys/vm/compact_memory`",
            "/proc/buddyinfo",
        )
