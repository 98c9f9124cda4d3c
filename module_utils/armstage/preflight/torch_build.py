"""A3: the torch that is installed is a CUDA build, of one piece with what goes with it, and right for the driver."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ..elf.environment import Build
from ..elf.words import listed
from ..files import read_text
from ..versions import matches
from ..wheels import Distribution, literals, normalise
from .context import Context
from .model import FAIL, PASS, SKIP, WARN, Fact, Finding, worst
from .thresholds import WHEEL_ARCHITECTURES

FAMILY = ("torch", "torchvision", "torchcodec", "torchaudio")

STAGE_AGAIN = "Stage again: `./armstage stage`; and install into a project's own environment, not into the staged one"

CPU_HINT = (
    "Install a CUDA build: `./armstage stage`, or from the index that fits the driver, such as"
    " `--index-url https://download.pytorch.org/whl/cu130`"
)


def check(context: Context) -> Finding:
    torch = context.layout.torch
    if torch is None:
        return next(_removed(context), Finding(SKIP, absent(context)))
    if not torch.version:
        detail = f"`{context.layout.site}/torch` is no whole torch: its version.py is not there, or says no version"
        return Finding(
            FAIL, detail, "Remove that folder, and install torch again: `./armstage stage`", torch_file(context)
        )
    versions = family(context)
    source = torch_file(context)
    facts = [Fact(name, version, f"{context.layout.site}/{name}") for name, version in versions.items()]
    facts += [Fact("torch CUDA", torch.cuda or "none", source), context.driver_fact("cuda_version")]
    replaced = [*_removed(context), *_replaced(context, versions)]
    problems = [*_cpu(torch, source, replaced), *([] if context.cpu_torch else replaced)]
    if torch.cuda:
        problems += [
            *_twice(context),
            *_tags(versions),
            *_wants(context),
            *_driver(context, torch.cuda),
            *_kernels(context, versions),
        ]
    others = listed(f"{name} {version}" for name, version in versions.items() if name != "torch")
    fine = Finding(
        PASS,
        f"torch {torch.version} with CUDA {torch.cuda}" + (f", {others}" if others else "") + f"; {_against(context)}",
        source=source,
        facts=tuple(facts),
    )
    return worst(problems, fine)


def family(context: Context) -> dict[str, str]:
    """torch and what goes with it, each in the version that its own version.py says: ``2.11.0+cu130``."""
    found = {}
    for name in FAMILY:
        own = literals(os.path.join(context.layout.site, name, "version.py")).get("__version__")
        distribution = context.packages.get(name)
        if own or distribution:
            found[name] = str(own or (distribution.version if distribution else ""))
    return found


def tag(version: str) -> str:
    """``cu130`` of ``2.11.0+cu130``; empty for a version without such a tag, as NVIDIA's own builds have none."""
    match = re.search(r"\+(cu\d+|cpu)\b", version)
    return match[1] if match else ""


def _cpu(torch: Build, source: str, replaced: list[Finding]) -> Iterator[Finding]:
    if not torch.cuda:
        since = "; ".join(problem.detail for problem in replaced)
        detail = f"torch {torch.version} is a CPU build: torch.version.cuda is None" + (f" ({since})" if since else "")
        yield Finding(FAIL, detail, CPU_HINT, source)


def _removed(context: Context) -> Iterator[Finding]:
    """A torch that was staged, or that its metadata say is installed, and whose files are not there."""
    if context.layout.torch is not None:
        return
    installed = context.packages.get("torch")
    if installed and editable(installed):
        yield Finding(
            WARN,
            f"torch {installed.version} is an editable installation: its files lie elsewhere, and were not looked at",
            "Install a wheel of it, so that it can be judged; `armstage-preflight --live` imports it as it is",
            installed.path,
        )
    elif context.record and "torch" in context.record.extra.get("installed", {}):
        version = context.record.extra["installed"]["torch"]
        yield Finding(FAIL, f"torch {version} was staged here and is gone", STAGE_AGAIN, context.layout.site)
    elif installed:
        detail = f"`{installed.path}` says that torch {installed.version} is installed, and there is no torch beside it"
        yield Finding(FAIL, detail, "Install it again: `uv pip install --reinstall torch`", installed.path)


def absent(context: Context) -> str:
    """How to say that there is no torch whose files could be looked at."""
    installed = context.packages.get("torch")
    if installed and editable(installed):
        return f"torch {installed.version} is an editable installation, whose files are not in `{context.env}`"
    return f"torch is not installed in `{context.env}`"


def editable(distribution: Distribution) -> bool:
    """Whether a distribution is a folder of sources (PEP 610, direct_url.json)."""
    text = read_text(os.path.join(distribution.path, "direct_url.json")) or ""
    return bool(re.search(r'"editable"\s*:\s*true', text))


def torch_file(context: Context) -> str:
    return os.path.join(context.layout.site, "torch/version.py")


def _twice(context: Context) -> Iterator[Finding]:
    """One installed over another that was not removed: pip, uv and torch then see either of both."""
    for name in FAMILY:
        distribution = context.packages.get(name)
        if distribution and distribution.duplicates:
            folders = listed(f"`{os.path.basename(path)}`" for path in (*distribution.duplicates, distribution.path))
            yield Finding(
                WARN,
                f"{name} is installed more than once: {folders}",
                f"Remove all of it, then install it again: `uv pip uninstall {name}`, until nothing is left",
                context.layout.site,
            )


def _replaced(context: Context, versions: dict[str, str]) -> Iterator[Finding]:
    """A wheel that something has replaced since it was staged: it is other than was recorded."""
    if context.record is None:
        return
    staged, builds = context.record.extra.get("installed", {}), context.record.extra.get("builds", {})
    for name, version in versions.items():
        if name not in staged:
            continue
        before = staged[name].partition("+")[0] + (f"+{builds[name]}" if builds.get(name) else "")
        same = version.partition("+")[0] == staged[name].partition("+")[0]
        if not same or (tag(version) and tag(before) and tag(version) != tag(before)):
            detail = f"{name} was staged as {before} and is {version} now: something has replaced the wheel"
            yield Finding(FAIL, detail, STAGE_AGAIN, os.path.join(context.layout.site, name))


def _tags(versions: dict[str, str]) -> Iterator[Finding]:
    """Builds of different CUDA versions. torchcodec needs no more than torch's CUDA major, which its sonames carry."""
    torch = tag(versions["torch"])
    for name, version in versions.items():
        other = tag(version)
        if name == "torch" or not torch or not other or other == torch:
            continue
        if name == "torchcodec" and other != "cpu" and other[:-1] == torch[:-1]:
            continue
        yield Finding(
            FAIL,
            f"torch {versions['torch']} and {name} {version} are of different CUDA builds",
            "Install both from one index; torchvision of another build fails with `operator torchvision::nms does not"
            " exist`",
        )


def _wants(context: Context) -> Iterator[Finding]:
    """What torchvision and torchaudio say in their metadata about the torch they need."""
    torch = context.packages.get("torch")
    # Of two the one that is imported counts, which may not be the one whose metadata is read.
    there = family(context)["torch"] if torch is None or torch.duplicates else torch.version
    for name in FAMILY[1:]:
        distribution = context.packages.get(name)
        if torch is None or distribution is None:
            continue
        for condition in torch_conditions(read_text(os.path.join(distribution.path, "METADATA")) or ""):
            if not matches(there, condition):
                yield Finding(
                    FAIL,
                    f"{name} {distribution.version} needs torch {condition}, and torch {there} is installed",
                    f"Install the {name} that goes with torch {there}",
                    distribution.path,
                )


def torch_conditions(metadata: str) -> list[str]:
    """The conditions on torch in the text of a METADATA file: ``==2.11.0``; none behind a marker or in prose."""
    conditions = []
    for line in metadata.partition("\n\n")[0].splitlines():
        match = re.fullmatch(r"Requires-Dist:\s*([\w.-]+)\s*\(?([^;()\[\]]*)\)?\s*", line)
        if match and normalise(match[1]) == "torch" and re.fullmatch(r"[\s\d.,<>=!]+", match[2]):
            conditions.append(match[2].strip())
    return conditions


def _driver(context: Context, cuda: str) -> Iterator[Finding]:
    """A driver that can't be used at all, or is older than the CUDA that torch was built with."""
    facts = context.driver
    if facts["status"] == "no-devices":
        yield Finding(WARN, facts["message"], facts["hint"], "cuda_facts")
    elif facts["status"] not in ("ok", "no-driver"):
        yield Finding(FAIL, f"torch {cuda} can't use this driver: {facts['message']}", facts["hint"], "cuda_facts")
    elif facts["cuda_version"]:
        wanted, offered = _pair(cuda), _pair(facts["cuda_version"])
        driver = f"driver {facts['kernel_driver'] or facts['user_driver']} offers CUDA {facts['cuda_version']}"
        if wanted[0] > offered[0]:
            hint = "Install torch from an index of the driver's CUDA: `./armstage stage`; or upgrade the driver"
            yield Finding(FAIL, f"torch is built with CUDA {cuda}, and {driver}", hint, "cuda_facts")
        elif wanted > offered:
            yield Finding(
                WARN,
                f"torch is built with CUDA {cuda}, and {driver}: what is compiled on the node (Triton, PTX) may fail"
                " with cudaErrorUnsupportedPtxVersion",
                f"Use an index of CUDA {facts['cuda_version']} or older, or upgrade the driver",
                "NVIDIA/nvbandwidth#61",
            )


def _kernels(context: Context, versions: dict[str, str]) -> Iterator[Finding]:
    """A GPU for which the build has neither machine code nor PTX."""
    capabilities = dict.fromkeys(gpu["compute_capability"] for gpu in context.driver["gpus"])
    if not capabilities:
        return
    from ..torch_index import runs_on

    index = WHEEL_ARCHITECTURES.get(tag(versions["torch"]))
    for capability in capabilities:
        if index and capability and not runs_on(index, capability):
            yield Finding(
                FAIL,
                f"torch {versions['torch']} has kernels for {', '.join(index['architectures'])} only, and"
                f" {context.gpu_name} is of compute capability {capability}: no kernel image is available",
                "Install torch from an index built for this GPU: `./armstage stage` chooses it",
                "vars/compatibility.yml, indexes",
            )


def _against(context: Context) -> str:
    facts = context.driver
    if facts["cuda_version"]:
        return f"driver CUDA {facts['cuda_version']}"
    return "not held against a driver, there is none here"


def _pair(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
