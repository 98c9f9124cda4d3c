"""Drop the page cache, or evict named files from it, and tell whether that helped.

``observe`` reads, ``plan`` decides (pure), ``act`` does it or ``predict`` says what it would do,
and ``result`` puts what all of them found into one shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..options import above_zero
from .drop import HELPER, DropError, drop, obstacle, target_of
from .evict import LEFT, Evicted, File, evict, find_files, measure, shown
from .holders import Holders, gpu_holders, names
from .meminfo import Memory, gib, read_memory
from .verdict import CANNOT_HELP, HELPS, Verdict, judge, limit_value

NOTHING, DROP, EVICT, REFUSE = "nothing", "drop", "evict", "refuse"

WORTH = 0.01
"""Share of all memory that a drop must free to have helped, where no ``only_below`` says how much."""


@dataclass(frozen=True)
class Request:
    """What is asked for: ``only_below`` in bytes, ``timeout`` in seconds.

    ``busy`` is refuse, warn or ignore; ``limit`` MemFree, MemAvailable, or empty for the one that
    binds here. ``paths`` are always this host's, also where ``root`` is another.
    """

    mode: str = "pagecache"
    only_below: int | None = None
    busy: str = "refuse"
    paths: tuple[str, ...] = ()
    root: str = "/"
    timeout: float = 60
    limit: str = ""
    helper: str = HELPER

    def __post_init__(self) -> None:
        above_zero("timeout", self.timeout, "seconds")


@dataclass(frozen=True)
class Observation:
    """All that is read before the decision. ``cached`` measures ``files``; ``obstacle`` is why a drop can't be."""

    memory: Memory
    holders: Holders = field(default_factory=Holders)
    files: tuple[File, ...] = ()
    cached: Evicted = field(default_factory=Evicted)
    obstacle: DropError | None = None


@dataclass(frozen=True)
class Plan:
    """``action``, with the ``reason`` for doing nothing or the ``error`` for refusing."""

    action: str
    verdict: Verdict
    reason: str = ""
    error: DropError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What is there afterwards. ``via`` is write, helper or fadvise; empty where nothing was done."""

    memory: Memory
    evicted: Evicted = field(default_factory=Evicted)
    via: str = ""
    error: DropError | None = None
    warnings: tuple[str, ...] = ()


def observe(request: Request) -> Observation:
    """Read memory, who holds the GPU, and what the request is about. Raises ArmstageError."""
    memory, holders = read_memory(request.root), gpu_holders(request.root)
    if not request.paths:
        return Observation(memory, holders, obstacle=obstacle(target_of(request.root), request.mode, request.helper))
    files, skipped = find_files(request.paths)
    cached = measure(files)
    return Observation(memory, holders, tuple(files), replace(cached, skipped=(*skipped, *cached.skipped)))


def plan(request: Request, seen: Observation) -> Plan:
    """Decide, reading and changing nothing."""
    gain = seen.cached.before if request.paths else None
    verdict = judge(seen.memory, request.only_below, request.mode, request.limit, seen.holders.busy, gain)
    if request.only_below and verdict.value >= request.only_below:
        return Plan(NOTHING, verdict, f"{verdict.limit} is {gib(verdict.value)}, not below {gib(request.only_below)}")
    if request.paths:
        cached = seen.cached.before or seen.cached.unmeasured
        return Plan(EVICT, verdict) if cached else Plan(NOTHING, verdict, _nothing_cached(seen.cached))
    if seen.holders.busy and request.busy == "refuse":
        return Plan(REFUSE, verdict, error=_busy(seen.holders))
    if seen.obstacle:
        return Plan(REFUSE, verdict, error=seen.obstacle)
    return Plan(DROP, verdict, warnings=_warnings(request, seen, verdict))


def act(request: Request, seen: Observation, planned: Plan) -> Outcome:
    """Do what was planned and read memory again. A drop that fails is in ``error``, not raised."""
    if planned.action == EVICT:
        evicted = evict(seen.files, request.timeout)
        evicted = replace(evicted, skipped=tuple(dict.fromkeys((*seen.cached.skipped, *evicted.skipped))))
        return Outcome(read_memory(request.root), evicted, "fadvise")
    if planned.action != DROP:
        return Outcome(seen.memory, seen.cached, error=planned.error)
    try:
        via, warnings = drop(target_of(request.root), request.mode, request.timeout, request.helper)
    except DropError as error:
        return Outcome(read_memory(request.root), error=error)
    return Outcome(read_memory(request.root), via=via, warnings=tuple(warnings))


def predict(request: Request, seen: Observation, planned: Plan) -> Outcome:
    """What ``act`` would leave if all that can be dropped were: an upper bound, nothing is done."""
    if planned.action not in (DROP, EVICT):
        return Outcome(seen.memory, seen.cached, error=planned.error)
    counters = dict(seen.memory.counters)
    counters["MemFree"] += planned.verdict.gain
    pages = planned.verdict.gain if request.paths else seen.memory.droppable("pagecache")
    if request.mode != "slab" or request.paths:
        counters["Cached"] = max(0, counters.get("Cached", 0) - pages)
    gone = tuple(replace(each, after=None if each.before is None else 0) for each in seen.cached.evictions)
    return Outcome(replace(seen.memory, counters=counters), replace(seen.cached, evictions=gone))


def result(request: Request, seen: Observation, planned: Plan, outcome: Outcome, check: bool) -> dict[str, object]:
    """What a module returns, in one shape whatever happened: plain JSON types, sizes in bytes."""
    before, after, error = seen.memory, outcome.memory, outcome.error
    changed = planned.action in (DROP, EVICT) and error is None
    freed = max(0, after.free - before.free) if changed else 0
    if planned.action == EVICT and not seen.cached.unmeasured:
        freed = max(0, seen.cached.before - outcome.evicted.after)
        changed = freed > 0
    unseen = seen.holders.blind_spot if planned.action != EVICT else ""
    return {
        "changed": changed,
        "action": planned.action,
        "mode": request.mode,
        "via": outcome.via,
        "before": before.as_dict(),
        "after": after.as_dict(),
        "freed_bytes": freed,
        "helped": changed and _helped(request, planned, seen, outcome, freed),
        "message": error.message if error else _message(planned, seen, outcome, freed, check),
        "hint": error.hint if error else planned.verdict.hint,
        "reason": error.reason if error else "",
        "skip_reason": planned.reason,
        "verdict": planned.verdict.as_dict(),
        "notes": [*planned.verdict.notes, *([unseen] if unseen else [])],
        "holders": [holder.as_dict() for holder in seen.holders.found],
        "unseen_processes": seen.holders.unseen,
        "evicted": outcome.evicted.as_dict(),
        "diff": {"before": _table(before), "after": _table(after)},
    }


def _helped(request: Request, planned: Plan, seen: Observation, outcome: Outcome, freed: int) -> bool:
    if planned.action == EVICT:
        return freed > 0 and outcome.evicted.after <= LEFT * seen.cached.before
    if request.only_below:
        return limit_value(outcome.memory, planned.verdict.limit) >= request.only_below
    return freed >= WORTH * seen.memory.total


def _message(planned: Plan, seen: Observation, outcome: Outcome, freed: int, check: bool) -> str:
    if planned.action == NOTHING:
        return f"Nothing to do: {planned.reason}"
    if planned.action == EVICT:
        count = len(outcome.evicted.evictions)
        text = f"{gib(freed)} of {count} file{'s' if count != 1 else ''}"
        if check:
            return f"Would evict up to {text}"
        return f"Evicted {text}, {gib(outcome.evicted.after)} stayed in memory"
    if check:
        return f"Would drop ({planned.verdict.message})"
    memory = f"MemFree {gib(seen.memory.free)} -> {gib(outcome.memory.free)} of {gib(seen.memory.total)}"
    rest = "" if planned.verdict.answer == HELPS else f" ({planned.verdict.message})"
    return f"Freed {gib(freed)}: {memory}{rest}"


def _warnings(request: Request, seen: Observation, verdict: Verdict) -> tuple[str, ...]:
    warnings = []
    if verdict.answer == CANNOT_HELP:
        warnings.append(f"Dropping {verdict.message}. {verdict.hint}")
    if seen.holders.busy and request.busy == "warn":
        warnings.append(f"The GPU is in use by {names(seen.holders.busy)}, which may now read its files again")
    return tuple(warnings)


def _nothing_cached(cached: Evicted) -> str:
    if not cached.evictions and cached.skipped:
        path, reason = cached.skipped[0]
        return f"no named file can be evicted: `{shown(path)}`: {reason}"
    return "no page of the named files is in memory"


def _busy(holders: Holders) -> DropError:
    return DropError(
        "busy",
        f"The GPU is in use by {names(holders.busy)}, so the page cache was not dropped",
        hint="Wait for it to end, or set busy: warn or busy: ignore; named files can be evicted at any time (paths)",
    )


def _table(memory: Memory) -> str:
    rows = {
        "MemFree": memory.free,
        "MemAvailable": memory.available,
        "Cached": memory.counters.get("Cached", 0),
        **{f"node {node.number} file pages": node.file_pages for node in memory.gpu_nodes},
    }
    return "".join(f"{name}: {gib(size)}\n" for name, size in rows.items())
