"""G9: container or bare host, and whose torch runs there; what has drifted from what was staged.

Both are sound, so this informs. Two things are worth a warning: packages in the staged environment
that were not staged, and a torch of one's own beside that of NVIDIA's image, which it breaks
(vllm-project/vllm#31424).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ..elf.words import listed
from ..wheels import literals
from .context import Context
from .model import INFO, WARN, Fact, Finding, worst
from .torch_build import FAMILY

MARKERS = {
    "/.dockerenv": "docker",
    "/run/.containerenv": "podman",
    "/.singularity.d": "apptainer",
    "/run/systemd/container": "systemd",
}
"""Files that a container's engine leaves (podman, docker, apptainer, systemd-nspawn; 2026-08-18)."""

VARIABLES = {"SINGULARITY_NAME": "apptainer", "APPTAINER_NAME": "apptainer", "ENROOT_ROOTFS": "enroot", "container": ""}

CGROUP = re.compile(r"/(docker|libpod|crio|kubepods|containerd|lxc|machine\.slice/libpod)[-/.]")

OVERLAY = re.compile(r"^\S+ / overlay \S*lowerdir=\S*/(docker|containerd|containers|enroot)/", re.MULTILINE)
"""The root of a container: layers in its engine's folder, where a node that was booted from an image has others."""

NGC = re.compile(r"\.nv\d\d\.\d+|a0\+[0-9a-f]{7,}")
"""In a torch version: that of NVIDIA's images, ``2.10.0a0+b558c986e8.nv25.11``."""

IMAGE_VERSION = re.compile(r"\d+\.\d+\.\d+a0\+")
"""PYTORCH_VERSION of NVIDIA's images: ``2.10.0a0+b558c98``."""

SYSTEM_SITES = ("/usr/local/lib", "/usr/lib")


def check(context: Context) -> Finding:
    engine, sign = container(context)
    place = f"in a container ({engine}, {sign})" if engine else "on the bare host"
    version = context.layout.torch.version if context.env and context.layout.torch else ""
    if not context.env:
        kind = "no environment was given"
    elif context.record:
        kind = f"the environment is {context.record.name} of armstage, staged {context.record.created[:10]}"
    elif NGC.search(version):
        kind = f"torch {version} is that of NVIDIA's image"
    else:
        kind = f"torch {version or 'none'} is of an environment that armstage did not stage"
    facts = [Fact("container", engine or "none", sign or "no marker file, variable or cgroup")]
    if context.record:
        facts.append(Fact("staged release", context.record.folder, str(context.record.path)))
    problems = [*_drift(context), *_beside_image(context, version)]
    return worst(problems, Finding(INFO, f"{place}; {kind}", source=sign or "/proc/1/cgroup", facts=tuple(facts)))


def container(context: Context) -> tuple[str, str]:
    """(engine, the sign it was told by), both empty on a bare host."""
    for path, engine in MARKERS.items():
        if os.path.exists(context.below(path)):
            return context.text(path) if engine == "systemd" and context.text(path) else engine, path
    for name, engine in VARIABLES.items():
        value = context.request.environ.get(name)
        if value:
            return engine or value, name
    match = CGROUP.search(context.text("/proc/1/cgroup") + "/")
    if match:
        return match[1].rpartition("/")[2], "/proc/1/cgroup"
    # containerd leaves no file, and of a cgroup of its own (v2) a container sees nothing but `/`.
    match = OVERLAY.search(context.text("/proc/self/mounts"))
    if match:
        return match[1], "/proc/self/mounts"
    if context.request.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes", "KUBERNETES_SERVICE_HOST"
    return "", ""


def _drift(context: Context) -> Iterator[Finding]:
    """Packages that differ from the record: torch's family is A3's, NVIDIA's libraries are G1's."""
    if context.record is None or not context.record.extra.get("installed"):
        return
    staged: dict[str, str] = _judged_here(context.record.extra["installed"])
    now = _judged_here({name: each.version for name, each in context.packages.items()})
    both = [name for name in sorted(staged) if name in now]
    parts = {
        "added": [f"{name} {now[name]}" for name in sorted(now) if name not in staged],
        "removed": [f"{name} {staged[name]}" for name in sorted(staged) if name not in now],
        "changed": [f"{name} {staged[name]} -> {now[name]}" for name in both if now[name] != staged[name]],
    }
    said = "; ".join(f"{word} {listed(names[:5])}{_more(names)}" for word, names in parts.items() if names)
    if said:
        yield Finding(
            WARN,
            f"the staged environment has drifted: {said}",
            "Install into a project's own environment; put the staged one right with `./armstage stage`",
            context.layout.site,
        )


def _judged_here(packages: dict[str, str]) -> dict[str, str]:
    return {
        name: version for name, version in packages.items() if name not in FAMILY and not name.startswith("nvidia-")
    }


def _more(names: list[str]) -> str:
    return f" and {len(names) - 5} more" if len(names) > 5 else ""


def _beside_image(context: Context, version: str) -> Iterator[Finding]:
    """NVIDIA's image with its own torch in the system's folders, and another torch in the environment."""
    image, own = _image_torch(context)
    meant = context.request.environ.get("PYTORCH_VERSION", "")
    if own and not image and IMAGE_VERSION.match(meant):
        yield Finding(
            WARN,
            f"this is NVIDIA's image with torch {meant}, and torch {own} is in its place: something, such as a"
            " `pip install vllm`, has replaced it, and what was built for the image's does not load with it",
            "Start the image anew, and install what needs another torch into an environment of its own",
            "PYTORCH_VERSION",
        )
    if image and version and not NGC.search(version) and version != image:
        yield Finding(
            WARN,
            f"this is NVIDIA's image with torch {image}, and the environment has torch {version}: what was built for"
            " the image's does not load with it",
            "Use the image's Python, or a plain container with the staged environment",
            "/usr/local/lib",
        )


def _image_torch(context: Context) -> tuple[str, str]:
    """The torch in the system's folders: (NVIDIA's, whatever is there), empty where there is none."""
    own = ""
    for folder in SYSTEM_SITES:
        for python in context.listed(folder):
            path = context.below(f"{folder}/{python}/dist-packages/torch/version.py")
            if python.startswith("python3") and os.path.isfile(path):
                found = str(literals(path).get("__version__") or "")
                if NGC.search(found):
                    return found, found
                own = own or found
    return "", own
