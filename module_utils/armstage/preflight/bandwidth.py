"""G5: how fast the GPU reads and copies its memory, measured. Only where it is asked for, and never on a busy GPU.

A figure means nothing without its kernel: a copy moves every byte twice, a read once. The buffers
are sized to what is free, so that measuring cannot be what runs a unified memory out.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..memory.holders import names
from ..memory.meminfo import GIB, gib
from ..run import run
from .context import Context
from .live import UNSET
from .model import FAIL, INFO, PASS, SKIP, WARN, Fact, Finding
from .thresholds import THRESHOLDS

LARGEST = 1 * GIB
"""Bytes of each of the two buffers at most; more makes no figure better."""

SHARE = 16
"""Each buffer takes at most this part of what is free."""

SCRIPT = """\
import json, sys, time
import torch

device, size = sys.argv[1], int(sys.argv[2])
source = torch.ones(size // 4, dtype=torch.float32, device=device)
target = torch.empty_like(source)


def seconds(action):
    best = None
    for _round in range(8):
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            action()
            end.record()
            torch.cuda.synchronize()
            taken = begin.elapsed_time(end) / 1000
        else:
            started = time.perf_counter()
            action()
            taken = time.perf_counter() - started
        best = taken if best is None or taken < best else best
    return best


copied, read = seconds(lambda: target.copy_(source)), seconds(lambda: source.sum())
print(json.dumps({"bytes": size, "copy": 2 * size / copied / 1e9, "read": size / read / 1e9}))
"""
"""Best of eight of a device-to-device copy (read and written bytes counted) and of a sum (read bytes)."""


def check(context: Context) -> Finding:
    if context.layout.torch is None or not context.layout.torch.cuda:
        return Finding(SKIP, "there is no environment with a CUDA build of torch to measure with (A3)")
    if context.holders.busy:
        return Finding(
            SKIP, f"not measured: the GPU is in use by {names(context.holders.busy)}", "Run it on an idle GPU"
        )
    size = buffer_size(context)
    if size < 64 * 2**20:
        return Finding(
            SKIP, f"not measured: only {gib(context.memory.free)} are free", "Drop the page cache first (G3)"
        )
    python = os.path.join(context.env, "bin/python")
    environ = {name: value for name, value in context.request.environ.items() if name not in UNSET}
    argv = [python, "-B", "-c", SCRIPT, "cuda", str(size)]
    completed = run(argv, context.request.timeout, environ)
    figures = _figures(completed.out)
    if completed.timed_out or not figures:
        said = (completed.err.strip().splitlines() or [f"no answer within {context.request.timeout:g} s"])[-1]
        return Finding(
            FAIL, f"measuring ended with: {said}", "See A5 with --live: whether a kernel runs at all", python
        )
    return judge(figures, context.driver["platform"], context.gpu_name)


def buffer_size(context: Context) -> int:
    """Bytes of one buffer, in whole MiB."""
    total = next((gpu["memory_total_mib"] for gpu in context.driver["gpus"] if gpu["memory_total_mib"]), None)
    free = context.memory.free if context.driver["unified_memory"] or not total else total * 2**20
    return min(LARGEST, free // SHARE) // 2**20 * 2**20


def judge(figures: dict[str, Any], platform: str, name: str) -> Finding:
    threshold = THRESHOLDS["bandwidth"]
    expected = threshold.get(platform)
    measured = (
        f"{name} reads {figures['read']:.0f} GB/s (a sum) and copies {figures['copy']:.0f} GB/s (both ways counted)"
    )
    facts = tuple(Fact(f"bandwidth, {kind}", f"{figures[kind]:.1f} GB/s", "measured") for kind in ("read", "copy"))
    data = {"bandwidth": figures}
    if not isinstance(expected, dict):
        return Finding(INFO, f"{measured}; no expectation is known for this platform", "", "measured", facts, data)
    low = [kind for kind in ("read", "copy") if figures[kind] < threshold["share"] * expected[kind][0]]
    usual = (
        f"usual are {expected['read'][0]} to {expected['read'][1]} and {expected['copy'][0]} to {expected['copy'][1]}"
    )
    if low:
        hint = "Look at G4 under load and G6: a latched power supply and a busy GPU look like this"
        return Finding(WARN, f"{measured}; {usual}", hint, threshold["source"], facts, data)
    return Finding(PASS, f"{measured}; {usual}", "", threshold["source"], facts, data)


def _figures(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) and {"bytes", "copy", "read"} <= set(found) else {}
