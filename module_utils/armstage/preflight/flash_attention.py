"""G2: flash-attn, where it is installed, is for this torch, CUDA and Python: as files and symbols, nothing is imported.

There is no wheel of it for aarch64 from its authors; others build some (mjun0812's prebuilt wheels
since 2025-12). torch's own attention needs none, so that its absence is no fault.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ..elf.abi import symbol_faults
from ..elf.environment import import_torch
from ..elf.loader import Process
from ..versions import release
from .context import ARCH, Context
from .model import FAIL, INFO, PASS, SKIP, Fact, Finding, worst
from .torch_build import editable

NAMES = ("flash-attn", "flash-attn-3", "flash-attn-4")

MODULE = re.compile(r"flash_attn\w*\.(?P<tag>cpython-3\d+|abi3)?.*\.so")

BUILT_FOR = {"cuda": re.compile(r"\+.*cu(\d+)"), "torch": re.compile(r"\+.*(?:torch|pt)(\d+\.\d+)")}
"""In a local version: ``2.8.3+cu130torch2.9``, ``2.8.3+cu12torch2.8cxx11abitrue``, ``2.8.3+pt2.9.cu130``."""

EXTENSIONS = {"flash-attn": "flash_attn_2_cuda", "flash-attn-3": "flash_attn_3"}
"""How the module begins without which the package does not import (2.8.3, 3.0.0b1); the fourth is Python alone."""

HINT = "Remove it, torch's own attention works without; or install one built for exactly this torch, CUDA and Python"


def check(context: Context) -> Finding:
    installed = [context.packages[name] for name in NAMES if name in context.packages]
    if not installed and not modules(context.layout.site):
        return Finding(INFO, "flash-attn is not installed; torch's own attention is used")
    sources = [each for each in installed if editable(each)]
    if sources and not modules(context.layout.site):
        each = sources[0]
        return Finding(
            SKIP, f"{each.name} {each.version} is an editable installation: its files lie elsewhere", "", each.path
        )
    torch = context.layout.torch
    if torch is None or not torch.cuda:
        return Finding(SKIP, "flash-attn is not judged without a CUDA build of torch (A3)")
    named = " and ".join(f"{each.name} {each.version}" for each in installed) or "flash-attn without its metadata"
    fault = "; ".join(dict.fromkeys([*_names(context), *_lacking(context), *_modules(context)]))
    facts = tuple(Fact(each.name, each.version, each.path) for each in installed)
    if fault and "unsloth" in context.packages:
        version = context.packages["unsloth"].version
        detail = f"{named} can't load ({fault}); unsloth {version} says that it seems to be broken and uses xformers"
        return Finding(INFO, detail, HINT, context.layout.site, facts)
    problem = [Finding(FAIL, f"{named} can't load: {fault}", HINT, context.layout.site)] if fault else []
    fine = Finding(
        PASS, f"{named} fits torch {torch.version}; no kernel was run", source=context.layout.site, facts=facts
    )
    return worst(problem, fine)


def _names(context: Context) -> Iterator[str]:
    """What the local version says it was built for."""
    torch = context.layout.torch
    assert torch is not None
    for name in NAMES:
        version = context.packages[name].version if name in context.packages else ""
        built = {what: match[1] for what, pattern in BUILT_FOR.items() if (match := pattern.search(version))}
        if "torch" in built and release(torch.version)[:2] != release(built["torch"])[:2]:
            yield f"built for torch {built['torch']}, here is {torch.version}"
        if "cuda" in built and (torch.cuda or "").partition(".")[0] != built["cuda"][:2]:
            yield f"built for CUDA {built['cuda'][:2]}, here is {torch.cuda}"


def _lacking(context: Context) -> Iterator[str]:
    """A package whose extension module is not there: built without CUDA, or removed by halves."""
    there = [os.path.relpath(path, context.layout.site) for path in modules(context.layout.site)]
    for name, module in EXTENSIONS.items():
        if name in context.packages and not any(path.startswith(module) for path in there):
            yield f"{name} is there without its extension module `{module}`"


def _modules(context: Context) -> Iterator[str]:
    """What its extension modules need, as the loader would find it after ``import torch``."""
    python = re.search(r"python3\.(\d+)", context.layout.site)
    for path in modules(context.layout.site):
        tag = re.search(r"\.cpython-3(\d+)", os.path.basename(path))
        if python and tag and tag[1] != python[1]:
            yield f"`{os.path.basename(path)}` is for Python 3.{tag[1]}, here is 3.{python[1]}"
            continue
        process = Process(context.system, ARCH)
        if context.python:
            process.start(context.python)
        import_torch(process, context.layout)
        before = len(process.missing)
        library = process.open(path)
        unmet = [missing for missing in process.missing[before:] if missing.requester or missing.reason]
        yield from (each.reason or f"`{os.path.basename(path)}` needs `{each.name}`, not found" for each in unmet)
        if library is not None:
            faults = list(symbol_faults(process, [library]))
            if faults:
                yield f"built for another torch: `{os.path.basename(path)}` lacks `{faults[0].wanted}`"


def modules(site: str) -> list[str]:
    """Its extension modules: at the top of site-packages, and in its own folders."""
    folders = [site, *(os.path.join(site, name) for name in ("flash_attn", "flash_attn_3"))]
    listed = ((folder, name) for folder in folders if os.path.isdir(folder) for name in sorted(os.listdir(folder)))
    return [
        os.path.join(folder, name)
        for folder, name in listed
        if name.endswith(".so") and (folder != site or MODULE.fullmatch(name))
    ]
