"""G4: what slows the GPU down: now, since the driver was loaded, and, sampled, under load.

An idle GPU proves nothing, and a Spark whose power supply has latched shows no reason at all: only its
clock under load tells. So the floor is that of the SM clock while the GPU is busy, not a wattage.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from .context import Context
from .model import FAIL, PASS, SKIP, WARN, Fact, Finding, worst
from .sensors import HARDWARE, THERMAL, Sample, reader, reasons_in_words
from .thresholds import THRESHOLDS

EVERY = 1.0
"""Seconds between two samples."""

MOST_POINTS = 300
"""Points of one GPU that are kept for the report's plot."""

SERIES = ("celsius", "watts", "sm_mhz", "utilisation")

COUNTED = (("sw_thermal", "software thermal slowdown"), ("hw_thermal", "hardware thermal slowdown"),
           ("hw_power_brake", "hardware power brake"))  # fmt: skip


def check(context: Context) -> Finding:
    read, source = reader(context.request.nvidia_smi, min(10.0, context.request.timeout), context.live_host)
    if read is None:
        return Finding(SKIP, "neither NVML nor nvidia-smi reports temperature or clocks here", source="cuda_facts")
    samples = sample(read, context.request.sample)
    return judge(samples, context.driver["platform"], context.request.sample, source)


def sample(read: object, seconds: float) -> list[Sample]:
    """Read once, or once a second for so many seconds."""
    assert callable(read)
    started = time.monotonic()
    samples: list[Sample] = list(read())
    while time.monotonic() - started < seconds:
        time.sleep(max(0.0, min(EVERY, started + seconds - time.monotonic())))
        at = time.monotonic() - started
        samples += [replace(each, at=round(at, 1)) for each in read()]
    return samples


def judge(samples: Sequence[Sample], platform: str, seconds: float, source: str) -> Finding:
    """One finding for the samples of every GPU."""
    gpus = sorted({each.gpu for each in samples})
    by_gpu = {gpu: [each for each in samples if each.gpu == gpu] for gpu in gpus}
    problems = [problem for each in by_gpu.values() for problem in _gpu(each, platform, seconds, source)]
    now = "; ".join(_state(each, seconds, len(gpus) > 1) for each in by_gpu.values())
    idle = [gpu for gpu, each in by_gpu.items() if not _busy(each)]
    facts = tuple(fact for each in by_gpu.values() for fact in _facts(each[-1], source))
    data = {"samples": [series(each) for each in by_gpu.values()] if seconds else [], "seconds": seconds}
    if seconds and idle and not problems:
        detail = f"{now}; not busy in {seconds:g} s, so nothing is proven: sample while a program runs"
        return Finding(
            SKIP, detail, "Run it beside the workload: `armstage-preflight --only G4 --sample 600`", source, facts, data
        )
    dumb = [gpu for gpu, each in by_gpu.items() if not any(sample.tells for sample in each) and gpu in idle]
    if dumb and not problems:
        where = f" of GPU {', '.join(map(str, dumb))}" if len(gpus) > 1 else ""
        detail = f"neither the reasons{where} for a lower clock nor the times of slowdown are reported here"
        return Finding(SKIP, "; ".join(filter(None, [detail, now])), source=source, facts=facts, data=data)
    moment = "an idle moment proves nothing about load" if idle else "one moment proves little about load"
    unproven = "" if seconds else f"; {moment}: --sample 600 beside a running program does"
    found = worst(problems, Finding(PASS, now + unproven, source=source, facts=facts, data=data))
    return found if not problems else replace(found, detail=f"{found.detail}; {now}")


def series(samples: Sequence[Sample]) -> dict[str, object]:
    """The samples of one GPU as columns, thinned out evenly to what a plot can show."""
    step = -(-len(samples) // MOST_POINTS)
    kept = samples[::step]
    columns = {name: [getattr(each, name) for each in kept] for name in SERIES}
    return {"gpu": samples[0].gpu, "at": [each.at for each in kept], **columns}


def _busy(samples: Sequence[Sample]) -> list[Sample]:
    load = THRESHOLDS["load"]["utilisation_percent"]
    return [each for each in samples if each.utilisation is not None and each.utilisation >= load]


def _gpu(samples: Sequence[Sample], platform: str, seconds: float, source: str) -> Iterator[Finding]:
    last, name = samples[-1], f"GPU {samples[-1].gpu}"
    seen = 0
    for each in samples:
        seen |= each.reasons or 0
    if seen & HARDWARE:
        words = ", ".join(reasons_in_words(seen & HARDWARE))
        hint = "Look at cooling and power supply; read nvidia-smi -q -d PERFORMANCE"
        yield Finding(FAIL, f"{name} is slowed down by its hardware: {words}", hint, source)
    elif seen & THERMAL:
        yield Finding(
            WARN, f"{name} is slowed down by its temperature", "Give it air, or cap the clock: nvidia-smi -lgc", source
        )
    limit = THRESHOLDS["thermal_slowdown"]["seconds"]
    for field, words in COUNTED:
        value = getattr(last, field)
        if value is not None and value >= limit:
            since = value - (getattr(samples[0], field) or 0.0)
            during = f", {since:.1f} s of it in these {seconds:g} s" if seconds else ""
            hint = (
                "It was too hot, or short of power, at some time since: sample it under load to see whether it still is"
            )
            yield Finding(
                WARN, f"{name} had {value:.1f} s of {words} since the driver was loaded{during}", hint, source
            )
    busy = _busy(samples)
    if platform == "spark" and len(busy) >= THRESHOLDS["load"]["least_samples"]:
        yield from _under_load(busy, name)


def _under_load(busy: Sequence[Sample], name: str) -> Iterator[Finding]:
    """The two faults of a Spark that no reason bit shows."""
    clock, power = THRESHOLDS["clock_floor"], THRESHOLDS["power_floor"]
    clocks = [each.sm_mhz for each in busy if each.sm_mhz is not None]
    watts = [each.watts for each in busy if each.watts is not None]
    if clocks and median(clocks) < clock["spark_mhz"]:
        low = f", at {median(watts):.0f} W" if watts else ""
        yield Finding(
            FAIL,
            f"{name} runs at {median(clocks):.0f} MHz under load{low}; usual are {clock['usual_mhz'][0]} to"
            f" {clock['usual_mhz'][1]} MHz, and no reason is shown",
            "Shut down and take the AC power off for a minute: the power supply has latched. Where"
            " `nvidia-smi -q -d CLOCK` shows a locked clock instead: `nvidia-smi -rgc`",
            clock["source"],
        )
    elif watts and median(watts) < power["spark_watts"]:
        yield Finding(
            WARN,
            f"{name} is {median([each.utilisation or 0 for each in busy]):.0f} % busy at {median(watts):.0f} W, usual"
            f" are {power['usual_watts'][0]} to {power['usual_watts'][1]} W: a program that waits for another looks so",
            "Look whether the program makes progress: utilisation alone says nothing",
            power["source"],
        )


def _state(samples: Sequence[Sample], seconds: float, several: bool) -> str:
    last = samples[-1]
    name = f"GPU {last.gpu}: " if several else ""
    busy = _busy(samples)
    if seconds and busy:
        hottest = max((each.celsius for each in busy if each.celsius is not None), default=None)
        clocks = [each.sm_mhz for each in busy if each.sm_mhz is not None]
        watts = [each.watts for each in busy if each.watts is not None]
        parts = [f"{len(busy)} of {len(samples)} samples in {seconds:g} s under load"]
        parts += [f"up to {hottest:.0f} C"] if hottest is not None else []
        parts += [f"SM clock {min(clocks):.0f} to {max(clocks):.0f} MHz"] if clocks else []
        parts += [f"{median(watts):.0f} W"] if watts else []
        return name + ", ".join(parts)
    values = (("{:.0f} C", last.celsius), ("{:.0f} W", last.watts), ("SM clock {:.0f} MHz", last.sm_mhz),
              ("{:.0f} % busy", last.utilisation))  # fmt: skip
    return name + ", ".join(text.format(value) for text, value in values if value is not None)


def _facts(last: Sample, source: str) -> Iterator[Fact]:
    named = {"temperature": (last.celsius, "C"), "power": (last.watts, "W"), "SM clock": (last.sm_mhz, "MHz"),
             "SM clock, highest": (last.max_sm_mhz, "MHz")}  # fmt: skip
    for name, (value, unit) in named.items():
        if value is not None:
            yield Fact(f"GPU {last.gpu} {name}", f"{value:.0f} {unit}", source)
    words = reasons_in_words(last.reasons)
    if last.reasons is not None:
        yield Fact(f"GPU {last.gpu} clock event reasons", ", ".join(words) or "none active", source)
