"""The fifteen checks in their order. The numbers are an interface: other tools match on them.

A check's module is imported when it is run: most checks do not apply to most hosts, and a program that
starts in every job should not load them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .context import Context
from .model import SKIP, Finding

if TYPE_CHECKING:  # read by Ansible too, which sends a node what is imported by name
    from . import (  # noqa: F401
        architecture,
        bandwidth,
        codec,
        container,
        cuda_abi,
        flash_attention,
        headroom,
        leakage,
        live,
        nvfp4,
        occupancy,
        parallelism,
        playbooks,
        thermal,
        torch_build,
    )


def _environment(context: Context) -> Finding | None:
    if context.env:
        return None
    return Finding(SKIP, "no environment was given to look into", "Source env.sh first, or name one: --env PATH")


def _gpu(context: Context) -> Finding | None:
    return None if context.has_gpu else Finding(SKIP, context.without_gpu(), source="cuda_facts")


def _unified_memory(context: Context) -> Finding | None:
    if context.driver["unified_memory"]:
        return None
    reason = context.without_gpu() or f"{context.gpu_name} has memory of its own"
    return Finding(SKIP, f"no unified memory: {reason}", source="cuda_facts")


def _spark(context: Context) -> Finding | None:
    platform = context.driver["platform"]
    if platform == "spark":
        return None
    return Finding(SKIP, f"not a Spark ({platform}): its links are of another kind", source="cuda_facts")


def _named(context: Context) -> Finding | None:
    if "G5" in context.request.checks:
        return None
    return Finding(SKIP, "only measured where it is asked for, since it loads the GPU: --only G5")


Need = Callable[[Context], "Finding | None"]
"""What must be there for a check to have something to look at: the SKIP with the reason where it is not."""


class Check(NamedTuple):
    """One check: its number, what people call it, the module that looks, and what it needs to look at.

    One that runs ``beside`` the others takes long, and reads only files: it neither sees what they do nor disturbs it.
    """

    id: str
    name: str
    module: str
    needs: tuple[Need, ...] = ()
    beside: bool = False

    def run(self, context: Context) -> Finding:
        for need in self.needs:
            lacking = need(context)
            if lacking:
                return lacking
        found: Finding = importlib.import_module(f".{self.module}", __package__).check(context)
        return found


CHECKS = (
    Check("A1", "architecture", "architecture"),
    Check("A2", "environment leakage", "leakage"),
    Check("A3", "torch CUDA", "torch_build", (_environment,)),
    Check("A4", "FFmpeg and torchcodec", "codec", (_environment,), beside=True),
    Check("A5", "live line", "live", (_environment,)),
    Check("G1", "CUDA 12/13 ABI", "cuda_abi", (_environment,)),
    Check("G2", "flash-attn", "flash_attention", (_environment,)),
    Check("G3", "unified-memory headroom", "headroom", (_unified_memory,)),
    Check("G4", "thermal and power", "thermal", (_gpu,)),
    Check("G5", "memory bandwidth", "bandwidth", (_named, _gpu, _environment)),
    Check("G6", "other GPU processes", "occupancy", (_gpu,)),
    Check("G7", "NVFP4", "nvfp4", (_gpu, _environment)),
    Check("G8", "playbook freshness", "playbooks"),
    Check("G9", "container or bare", "container"),
    Check("G10", "two-Spark parallelism", "parallelism", (_spark,)),
)
