"""G7: whether FP4 kernels can be built and run here: the GPU, the torch build, and Triton's own assembler.

Triton compiles for exactly the GPU it sees, with the assembler in its wheel. One that does not know
the architecture fails at the first kernel (triton-lang/triton#8539), so it is run, on an empty program.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator

from ..run import Completed, run
from ..torch_index import runs_on
from .context import Context
from .model import FAIL, PASS, SKIP, WARN, Fact, Finding, worst
from .thresholds import WHEEL_ARCHITECTURES
from .torch_build import absent, family, tag

FP4_SINCE = (10, 0)
"""The first compute capability with FP4 tensor cores: Blackwell (CUDA C++ Programming Guide, 2026-08-18)."""

TOOLS = {True: ("ptxas-blackwell", "TRITON_PTXAS_BLACKWELL_PATH"), False: ("ptxas", "TRITON_PTXAS_PATH")}
"""Triton's assembler for compute capability 10 and newer, and before; and what overrides each (triton 3.6.0)."""

PROGRAM = ".version 8.7\n.target {target}\n.address_size 64\n"


def check(context: Context) -> Finding:
    capabilities = [gpu["compute_capability"] for gpu in context.driver["gpus"] if gpu["compute_capability"]]
    if not capabilities:
        return Finding(SKIP, "the GPU's compute capability is not known", source="cuda_facts")
    capability = capabilities[0]
    if _pair(capability) < FP4_SINCE:
        return Finding(SKIP, f"{context.gpu_name} ({capability}) has no FP4: that came with 10.0", source="cuda_facts")
    facts = [context.driver_fact("gpus")]
    if context.layout.torch is None or not context.layout.torch.version:
        return Finding(SKIP, f"{absent(context)}: whether it has kernels for FP4 is not known", source="cuda_facts")
    problems = [*_build(context, capability)]
    index = tag(family(context).get("torch", ""))
    kernels = "this torch has kernels for it"
    if index not in WHEEL_ARCHITECTURES:
        kernels = f"which kernels torch {context.layout.torch.version} has is not known, it is of no wheel index"
    tool, origin = assembler(context)
    said = "triton is not installed, so that no kernel is compiled on the node"
    if tool:
        target = f"sm_{capability.replace('.', '')}a"
        problems += _assembler(context, tool, target, facts)
        said = f"`{os.path.basename(tool)}` of {origin} knows {target}"
    fine = Finding(
        PASS,
        f"{context.gpu_name} ({capability}) has FP4, {kernels}, and {said}",
        source=tool or context.layout.site,
        facts=tuple(facts),
    )
    return worst(problems, fine)


def assembler(context: Context) -> tuple[str, str]:
    """Triton's assembler for a Blackwell GPU, and what names it; empty without Triton."""
    folder = os.path.join(context.layout.site, "triton/backends/nvidia/bin")
    name, override = TOOLS[True]
    if not os.path.exists(os.path.join(folder, name)):
        name, override = TOOLS[False]  # Triton before 3.5 has one for all
    given = context.request.environ.get(override)
    if given:
        return given, override
    path = os.path.join(folder, name)
    return (path, "triton") if os.path.exists(path) else ("", "")


def _build(context: Context, capability: str) -> Iterator[Finding]:
    versions = family(context)
    index = WHEEL_ARCHITECTURES.get(tag(versions.get("torch", "")))
    if index and not runs_on(index, capability):
        yield Finding(
            FAIL,
            f"torch {versions['torch']} has kernels for {', '.join(index['architectures'])}, not for {capability}",
            "Install torch from an index built for this GPU: `./armstage stage` chooses it",
            "vars/compatibility.yml, indexes",
        )


def _assembler(context: Context, tool: str, target: str, facts: list[Fact]) -> Iterator[Finding]:
    """Run the assembler on an empty program for the target."""
    hint = "export {}=/usr/local/cuda/bin/ptxas, of a CUDA toolkit that knows it (CUDA 12.9 for sm_121a)"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "empty.ptx")
        with open(path, "w", encoding="ascii") as file:
            file.write(PROGRAM.format(target=target))
        try:
            completed = run([tool, "--gpu-name", target, "-o", os.devnull, path], min(10.0, context.request.timeout))
        except OSError as error:
            yield Finding(WARN, f"`{tool}` does not start: {error.strerror}", "See A1: which machine it is for", tool)
            return
    facts.append(Fact(f"{os.path.basename(tool)} --gpu-name {target}", _said(completed), tool))
    if not completed.ok:
        override = TOOLS["blackwell" in os.path.basename(tool)][1]
        yield Finding(
            WARN, f"Triton's assembler can't build for {target}: {_said(completed)}", hint.format(override), tool
        )


def _said(completed: Completed) -> str:
    lines = [line.strip() for line in (completed.out + "\n" + completed.err).splitlines() if line.strip()]
    return re.sub(r"\s+", " ", lines[-1]) if lines else f"exit status {completed.rc}"


def _pair(capability: str) -> tuple[int, int]:
    major, _, minor = capability.partition(".")
    return int(major), int(minor)
