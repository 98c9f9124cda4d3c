"""The choice of a PyTorch wheel index for a node; pure, over the data of ``vars/compatibility.yml``.

The rule: the newest index whose CUDA is not above the driver's, that holds aarch64 wheels of this
torch, torchvision and torchcodec for this Python, built for the GPU's architecture. Never a CPU wheel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .compatibility import PACKAGES, Compatibility, Data
from .errors import ArmstageError
from .nvidia.reading import VERSION
from .versions import minor, release

OVERRIDE = (
    "Give the CUDA version its driver will have: armstage_cuda_version=13.0 (option `cuda_version` of cuda_facts)"
)

TRUSTED = {
    "ok": OVERRIDE,
    "no-driver": OVERRIDE,
    "no-devices": OVERRIDE,
    "cuda-unreported": f"Install the driver's own libcuda on the node (libcuda1 or nvidia-driver-cuda). {OVERRIDE}",
}
"""States of a node in which its CUDA version holds, read or given; and what to do where there is none."""

BROKEN = {
    "driver-not-loaded": "Load the nvidia module (sudo modprobe nvidia) or reboot the node, then run again",
    "driver-library-mismatch": "Reboot the node or reload its nvidia module, then run again",
    "wedged": "Reboot the node: its driver does not answer",
}
"""States in which nothing is chosen, and what to do."""


PARTS = ("indexes", "torch", "torchcodec", "driver_cuda", "gpu_architectures", "uv_auto")
"""What the choice reads of the compatibility data."""

TEGRA = frozenset({"5.3", "6.2", "7.2", "8.7", "10.1"})
"""GPUs of Jetsons (Nano, TX2, Xavier, Orin, Thor under CUDA 12): they run only machine code of their own architecture.

2026-09-06: CUDA C++ Programming Guide, "Binary Compatibility"; sm_80 on an Orin is `no kernel image is available`
(jax-ml/jax#40492), and torch 2.11 excludes 8.7 from what its 8.0 serves (nvidia-holoscan/holohub#1687).
"""


@dataclass(frozen=True)
class Node:
    """What the choice needs of a node: its driver's CUDA, or None, and its GPUs' compute capabilities.

    ``unknown`` says that some GPU's capability could not be read, or that no GPU was seen.
    """

    cuda: str | None
    capabilities: tuple[str, ...]
    unknown: bool


@dataclass(frozen=True)
class Wanted:
    """The versions that an index must hold; None where the environment does without the package."""

    python: str
    torch: str
    torchvision: str | None = None
    torchcodec: str | None = None

    @property
    def packages(self) -> dict[str, str]:
        named = {name: getattr(self, name) for name in PACKAGES}
        return {name: version for name, version in named.items() if version}

    def __str__(self) -> str:
        return _listed([f"{name} {version}" for name, version in self.packages.items()])


def choose(
    facts: Any,
    compatibility: Data,
    torch: str,
    python: str = "3.12",
    torchvision: str | None = None,
    torchcodec: str | None = None,
    force: str | None = None,
    uv: str | None = None,
) -> dict[str, Any]:
    """The wheel index for a node, and why not the next one.

    ``facts`` is ``ansible_facts.cuda``; of it ``status``, ``arch``, ``cuda_version`` and ``gpus`` are read.
    ``force`` is an index to use whatever the rule says; ``uv`` the version whose own choice is compared.

    Returns ``tag, url, cuda, reason``; ``rejected``: [``tag, reason``] for each newer index; ``forced``;
    ``rule_tag``: what the rule chose, or None where it found nothing; ``uv_auto``: where
    ``uv --torch-backend=auto`` starts elsewhere, ``tag, pinned_tag, reason``, else None.

    Raises ArmstageError when nothing fits, when the node's state forbids a choice, and for a version
    or an index that the data doesn't know.
    """
    lacking = [f"`{part}`" for part in PARTS if not (isinstance(compatibility, Mapping) and compatibility.get(part))]
    if lacking:
        raise ArmstageError(
            f"Expected the value of `armstage_compatibility`, but found no {_listed(lacking)}",
            hint="Pass on what stands below that key in vars/compatibility.yml, whole",
        )
    known = Compatibility(compatibility)
    indexes = compatibility["indexes"]
    if force and str(force) not in indexes:
        raise ArmstageError(
            f"There is no PyTorch wheel index `{force}` with CUDA builds for aarch64",
            hint=f"Force one of {', '.join(indexes)}, or none and leave the choice to the rule",
        )
    node = read_node(facts, cuda_needed=not force)
    wanted = Wanted(minor(python), str(torch), _text(torchvision), _text(torchcodec))
    for name, version in {"torch": wanted.torch, **wanted.packages}.items():
        problem = known.unknown(name, version) or known.unpaired(name, version, wanted.torch)
        if problem:
            raise problem

    against = {tag: objections(index, wanted, node, known) for tag, index in known.indexes()}
    ruled = next((tag for tag, reasons in against.items() if not reasons), None)
    tag = force or ruled
    if tag is None:
        raise _nothing_fits(wanted, node, against, known)
    chosen = indexes[tag]
    if force:
        reason = "; ".join([f"forced; the rule would have chosen {ruled or 'none'}", *against[tag]])
    else:
        reason = _why(chosen, wanted, node)
    return {
        "tag": tag,
        "url": chosen["url"],
        "cuda": chosen["cuda"],
        "reason": reason,
        "rejected": [
            {"tag": newer, "reason": "; ".join(reasons)}
            for newer, reasons in against.items()
            if reasons and release(indexes[newer]["cuda"]) > release(chosen["cuda"])
        ],
        "forced": bool(force),
        "rule_tag": ruled,
        "uv_auto": uv_auto(tag, wanted.torch, node, known.data, uv),
    }


def read_node(facts: Any, cuda_needed: bool = True) -> Node:
    """What the facts say that the choice needs.

    Raises ArmstageError when they are no facts of ``cuda_facts``, when the node is not aarch64, and
    when its state leaves no CUDA version to go by.
    """
    if not isinstance(facts, Mapping) or not (facts.get("status") and facts.get("arch")):
        given = ", ".join(sorted(map(str, facts))) if isinstance(facts, Mapping) and facts else facts
        raise ArmstageError(
            f"Expected the facts of cuda_facts, with `status` and `arch`, but received: `{given}`",
            hint="Run cuda_facts on the node, and pass on its ansible_facts.cuda",
        )
    status, cuda = facts["status"], _text(facts.get("cuda_version"))
    if facts["arch"] != "aarch64":
        raise ArmstageError(
            f"Expected the facts of an aarch64 node, but these are of an `{facts['arch']}` host",
            hint="Wheels are chosen for the node that runs them, not for the host that stages them: "
            "put aarch64 hosts into group `nodes`",
        )
    remedies = {**TRUSTED, **BROKEN}
    if str(status) not in remedies:
        raise ArmstageError(f"Expected a status of cuda_facts ({', '.join(remedies)}), but received: `{status}`")
    if status in BROKEN or (cuda is None and cuda_needed):
        trouble = "can't be relied on" if cuda else "is not known"
        said = f": {facts['message']}" if facts.get("message") else ""
        raise ArmstageError(
            f"The CUDA version of the node's driver {trouble} (`{status}`){said}",
            hint=_text(facts.get("hint")) or remedies[status],
        )
    if cuda is not None and not VERSION.fullmatch(cuda):
        raise ArmstageError(
            f"Expected a CUDA version such as `13.0` as `cuda_version` of the node, but received: `{cuda}`",
            hint=OVERRIDE,
        )
    gpus = facts.get("gpus") or []
    if not isinstance(gpus, Sequence) or not all(isinstance(gpu, Mapping) for gpu in gpus):
        raise ArmstageError(
            f"Expected a list with one dictionary for each GPU as `gpus` of the node, but received: `{gpus}`",
            hint="Run cuda_facts on the node, and pass on its ansible_facts.cuda",
        )
    capabilities = [_text(gpu.get("compute_capability")) for gpu in gpus]
    read = {text for text in capabilities if text and re.fullmatch(r"\d+\.\d+", text)}
    return Node(
        cuda=minor(cuda) if cuda else None,
        capabilities=tuple(sorted(read, key=_numbers)),
        unknown=not capabilities or not read.issuperset(capabilities),
    )


def objections(index: Data, wanted: Wanted, node: Node, known: Compatibility) -> list[str]:
    """Why this index doesn't serve this node; empty when it does."""
    reasons = []
    if node.cuda is None:
        reasons.append("the driver's CUDA version is not known")
    elif release(index["cuda"]) > release(node.cuda):
        reasons.append(f"CUDA {index['cuda']} is newer than the driver's {node.cuda}")
    lacking = []
    for name, version in wanted.packages.items():
        if version not in index[name]:
            lacking.append(f"{name} {version}")
        elif not known.has_wheel(name, version, wanted.python):
            lacking.append(f"{name} {version} for Python {wanted.python}")
    if lacking:
        reasons.append(f"no aarch64 CUDA wheel of {_listed(lacking)}")
    unserved = [capability for capability in node.capabilities if not runs_on(index, capability)]
    if unserved:
        built_for = ", ".join(index["architectures"])
        reasons.append(f"no kernels for compute capability {_listed(unserved)}, only for {built_for}")
    return reasons


def runs_on(index: Data, capability: str) -> bool:
    """True when the index's builds run on a GPU: machine code of its major version, or PTX not newer than it.

    Those of TEGRA need machine code of exactly their own."""
    gpu = _numbers(capability)
    if index["ptx"] and _numbers(index["ptx"]) <= gpu:
        return True
    built = [_numbers(architecture) for architecture in index["architectures"]]
    return any(code == gpu or (code[0] == gpu[0] and code < gpu and capability not in TEGRA) for code in built)


def uv_auto(tag: str, torch: str, node: Node, data: Data, uv: str | None = None) -> dict[str, Any] | None:
    """Where ``uv --torch-backend=auto`` starts on this node's driver; None when that is ``tag``, or no driver is known.

    It goes by the driver alone, newest index first, and takes the first index that holds any version it may
    take: ``pinned_tag`` is where it ends when torch is pinned, None for no CUDA build at all.
    """
    if node.cuda is None:
        return None
    drivers, indexes = data["driver_cuda"], data["indexes"]
    tried = [
        entry
        for entry in data["uv_auto"]
        if (uv is None or release(uv) >= release(entry.get("since", "0")))
        and release(node.cuda) >= release(drivers[entry["driver"].split(".")[0]]["cuda"])
    ]
    if not tried or tried[0]["tag"] == tag:
        return None
    first = tried[0]
    pinned = next((entry["tag"] for entry in tried if torch in indexes[entry["tag"]]["torch"]), None)
    end = f"ends at {pinned}" if pinned else "finds no CUDA build"
    return {
        "tag": first["tag"],
        "pinned_tag": pinned,
        "reason": f"uv's --torch-backend=auto tries {first['tag']} first on every driver from {first['driver']} on, "
        f"whatever its CUDA and GPU; with torch {torch} pinned it {end}",
    }


def _why(index: Data, wanted: Wanted, node: Node) -> str:
    """Why the rule's choice is right, with what it could not check."""
    reason = f"CUDA {index['cuda']} is the newest not above the driver's {node.cuda}"
    reason += f" with aarch64 wheels of {wanted} for Python {wanted.python}"
    if node.capabilities:
        reason += f", built for compute capability {_listed(node.capabilities)}"
    if node.unknown:
        reason += f"; GPU unknown: not checked against the index's {', '.join(index['architectures'])}"
    return reason


def _nothing_fits(wanted: Wanted, node: Node, against: Data, known: Compatibility) -> ArmstageError:
    gpu = f" and compute capability {_listed(node.capabilities)}" if node.capabilities else ""
    reasons = "; ".join(f"{tag}: {', '.join(reasons)}" for tag, reasons in against.items())
    ways = "; or ".join([*_other_versions(wanted, node, known), *_newer_driver(wanted, node, known)])
    return ArmstageError(
        f"No PyTorch wheel index serves {wanted} for Python {wanted.python}"
        f" on a driver of CUDA {node.cuda}{gpu} ({reasons})",
        hint=ways[:1].upper() + ways[1:]
        or "Nothing known runs there; `./armstage indexes --refresh` shows what has come since",
    )


def _newer_driver(wanted: Wanted, node: Node, known: Compatibility) -> Iterator[str]:
    """The oldest driver branch on which an index serves what is wanted, if a newer driver is all it takes."""
    for branch, driver in sorted(known.data["driver_cuda"].items(), key=lambda entry: release(entry[0])):
        then = replace(node, cuda=driver["cuda"])
        for tag, index in known.indexes():
            if not objections(index, wanted, then, known):
                yield f"upgrade the driver to {branch} or newer (CUDA {driver['cuda']}), for which {tag} holds {wanted}"
                return


def _other_versions(wanted: Wanted, node: Node, known: Compatibility) -> Iterator[str]:
    """The newest torch for this driver: for the node's GPUs or, where they are unknown, for each kind there is."""
    if node.capabilities:
        kinds = {node.capabilities: ""}
    else:
        kinds = {(capability,): gpu["name"] for capability, gpu in known.data["gpu_architectures"].items()}
    found: dict[str, list[str]] = {}
    for capabilities, name in kinds.items():
        text = _newest_torch(wanted, replace(node, capabilities=capabilities), known)
        if text and name not in found.setdefault(text, []):
            found[text].append(name)
    for text, names in found.items():
        yield f"stage {text}, the newest for CUDA {node.cuda}" + (f" on {_listed(names)}" if any(names) else "")


def _newest_torch(wanted: Wanted, node: Node, known: Compatibility) -> str | None:
    """The newest torch, with what goes with it, that an index holds for the node."""
    for torch in known.versions("torch"):
        for tag, index in known.indexes():
            alternative = _held_set(torch, wanted, index, known)
            if alternative and not objections(index, alternative, node, known):
                return f"{alternative} from {tag}"
    return None


def _held_set(torch: str, wanted: Wanted, index: Data, known: Compatibility) -> Wanted | None:
    """A torch with what goes with it, as far as it is wanted, where an index holds all of it."""
    held: dict[str, str] = {}
    for name in wanted.packages:
        versions = [torch] if name == "torch" else known.partners(name, torch)
        found = next((version for version in versions if version in index[name]), None)
        if found is None:
            return None
        held[name] = found
    return Wanted(wanted.python, **held)


def _numbers(capability: str) -> tuple[int, int]:
    major, _, below = capability.partition(".")
    return int(major), int(below)


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
