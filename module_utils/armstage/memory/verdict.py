"""Whether dropping the page cache can help: a pure judgement of one reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .holders import Holder, names
from .meminfo import Memory, gib

HELPS, CANNOT_HELP, NOT_NEEDED = "helps", "cannot help", "not needed"

NOTICEABLE = 0.05
"""Share of a pool below which dropping is not worth the reads that follow."""

MUCH = 0.25
"""Share of all memory from which what dropping can't reach is the finding. Of a Spark's 121.7 GiB,
30 GiB: the smallest leftover process seen held 36."""

HELD_BACK = 0.02
"""Share of all memory that the kernel's watermarks hold back before it is worth a line; by default 0.3 %."""

HOLDING = ("min_free_kbytes", "watermark_scale_factor")
"""The sysctls that these watermarks are worked out from."""


@dataclass(frozen=True)
class Verdict:
    """``limit`` is MemFree or MemAvailable: the counter that the next program will run into.

    ``reach`` is what ``limit`` can become by dropping, ``gain`` what a drop frees at most;
    ``notes`` are further sentences, each true whether or not the cache is dropped.
    """

    answer: str
    message: str
    hint: str
    limit: str
    value: int
    gain: int
    reach: int
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {
            "answer": self.answer,
            "message": self.message,
            "hint": self.hint,
            "limit": self.limit,
            "limit_bytes": self.value,
            "gain_bytes": self.gain,
            "reach_bytes": self.reach,
        }


def binding_limit(memory: Memory) -> str:
    """MemFree on a unified-memory GPU, whose free memory in CUDA is exactly that; else MemAvailable."""
    return "MemFree" if memory.unified_gpu else "MemAvailable"


def limit_value(memory: Memory, limit: str) -> int:
    return memory.free if limit == "MemFree" else memory.available


def judge(
    memory: Memory,
    needed: int | None = None,
    mode: str = "pagecache",
    limit: str = "",
    holders: Sequence[Holder] = (),
    gain: int | None = None,
) -> Verdict:
    """Judge a reading, against ``needed`` bytes where they are known.

    ``limit`` overrides which counter binds, ``gain`` how much can be dropped (for named files).
    """
    limit = limit or binding_limit(memory)
    gain = memory.droppable(mode) if gain is None else gain
    value = limit_value(memory, limit)
    reach = max(value, memory.free + gain)
    answer, reason = _against(memory, needed, limit, value, gain, reach) if needed else _alone(memory, gain)
    message = f"{answer}: {reason}; {_state(memory, limit)}"
    return Verdict(answer, message, _hint(answer, memory, holders), limit, value, gain, reach, _notes(memory))


def _against(memory: Memory, needed: int, limit: str, value: int, gain: int, reach: int) -> tuple[str, str]:
    if value >= needed:
        return NOT_NEEDED, f"{limit} is {gib(value)}, at or above the {gib(needed)} asked for"
    if reach >= needed:
        return HELPS, f"dropping up to {gib(gain)} lifts {limit} from {gib(value)} to as much as {gib(reach)}"
    size, place = max(_out_of_reach(memory) + _programs(memory))
    return CANNOT_HELP, f"{gib(size)} {place}; dropping reaches {gib(reach)} of the {gib(needed)} asked for"


def _alone(memory: Memory, gain: int) -> tuple[str, str]:
    size, place = max(_out_of_reach(memory))
    if size >= MUCH * memory.total and size > gain:
        return CANNOT_HELP, f"{gib(size)} {place}; dropping frees at most {gib(gain)}"
    if gain >= NOTICEABLE * memory.total:
        return HELPS, f"up to {gib(gain)} can be freed"
    for node in memory.gpu_nodes:
        if node.file_pages >= NOTICEABLE * node.counters["MemTotal"]:
            return HELPS, f"{gib(node.file_pages)} of file pages sit in GPU memory (node {node.number})"
    return NOT_NEEDED, f"only {gib(gain)} can be dropped"


def _out_of_reach(memory: Memory) -> list[tuple[int, str]]:
    return [
        (memory.in_no_counter, "in no counter"),
        (memory.arc or 0, "in the ZFS ARC"),
        (memory.hugepages, "set aside as huge pages"),
    ]


def _programs(memory: Memory) -> list[tuple[int, str]]:
    return [
        (memory.counters.get("AnonPages", 0), "in programs' own memory"),
        (memory.counters.get("Shmem", 0), "in shared memory and tmpfs"),
        (memory.counters.get("Mapped", 0), "in files that programs have mapped"),
    ]


def _state(memory: Memory, limit: str) -> str:
    why = f", since CUDA on `{memory.unified_gpu}` follows it" if memory.unified_gpu and limit == "MemFree" else ""
    counters = f"MemFree {gib(memory.free)}, MemAvailable {gib(memory.available)} of {gib(memory.total)}"
    return f"{counters}: {limit} binds{why}"


def _hint(answer: str, memory: Memory, holders: Sequence[Holder]) -> str:
    if answer != CANNOT_HELP:
        return ""
    size, place = max(_out_of_reach(memory))
    if size < NOTICEABLE * memory.total:
        return "End what holds the memory (ps -eo pid,rss,comm --sort=-rss | head), or ask for less"
    if place == "in the ZFS ARC":
        return "Limit the ARC: set the zfs module's zfs_arc_max, then export and import the pool or reboot"
    if place == "set aside as huge pages":
        return "Give huge pages back: sysctl vm.nr_hugepages=0"
    if holders:
        return f"The GPU is held by {names(holders)}; end it if it is a leftover"
    return (
        "Find what holds the GPU as root (fuser -v /dev/nvidia*). If nothing does, the driver may have kept pages of a"
        " program that ended: the next CUDA program may get them; if it does not, reload the driver or reboot"
    )


def _notes(memory: Memory) -> tuple[str, ...]:
    """What does not change by dropping and yet explains the numbers."""
    total = memory.total
    holding = [f"vm.{name}={memory.sysctls[name]}" for name in HOLDING if name in memory.sysctls]
    gpu_file_pages = [(node.number, node.file_pages) for node in memory.gpu_nodes if node.file_pages]
    notes = [
        (
            not memory.unified_gpu and not memory.gpu_nodes,
            "MemAvailable already counts the page cache: what gains is a program that looks at MemFree, as CUDA does"
            " on a GB10",
        ),
        (
            memory.held_back > HELD_BACK * total,
            f"{' and '.join(holding)} hold{'' if len(holding) > 1 else 's'} at least"
            f" {gib(memory.held_back)} back from MemAvailable",
        ),
        (
            memory.arc is not None,
            f"The ZFS ARC holds {gib(memory.arc or 0)}, which is not page cache and not in MemAvailable",
        ),
        (memory.hugepages > 0, f"{gib(memory.hugepages)} are set aside as huge pages, which dropping can't free"),
        (
            memory.counters.get("Mapped", 0) > NOTICEABLE * total,
            f"{gib(memory.counters.get('Mapped', 0))} of files are mapped by programs and stay",
        ),
        (
            bool(gpu_file_pages),
            "File pages in GPU memory: " + ", ".join(f"node {number} {gib(size)}" for number, size in gpu_file_pages),
        ),
    ]
    return tuple(text for true, text in notes if true)
