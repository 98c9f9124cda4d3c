"""Rules on uv.lock: what it installs on aarch64."""

from __future__ import annotations

from collections.abc import Iterator

from ...versions import matches, release
from ..facts import CPU
from ..locks import Lock, Package
from ..model import ERROR, WARNING, Found, Project, Rule
from ..pep440 import Version
from ..pep508 import AARCH64
from .bounds import serves_aarch64

_HEAD = """version = 1
requires-python = ">=3.12"

[[package]]
name = "demo"
version = "0.1.0"
source = { virtual = "." }
dependencies = [{ name = "%s" }]

"""
_TORCH = """[[package]]
name = "torch"
version = "%s"
source = { registry = "https://example.org/simple" }
wheels = [
    { url = "https://example.org/torch-%s-cp312-cp312-manylinux_2_28_aarch64.whl", hash = "sha256:00" },
    { url = "https://example.org/torch-%s-cp312-cp312-manylinux_2_28_x86_64.whl", hash = "sha256:00" },
]
"""
_DECORD = """[[package]]
name = "decord"
version = "0.6.0"
source = { registry = "https://example.org/simple" }
wheels = [{ url = "https://example.org/decord-0.6.0-py3-none-%s.whl", hash = "sha256:00" }]
"""


def lock_cpu_torch(project: Project) -> Iterator[Found]:
    for lock in project.locks:
        torches = [package for package in lock.selected if package.name == "torch"]
        if any(_build(project, package) not in (CPU, None) for package in torches):
            continue  # an extra chooses between the builds
        for package in torches:
            if _build(project, package) == CPU:
                yield Found(lock.source, package.line, why=_why_cpu(package))


def _build(project: Project, package: Package) -> str | None:
    """The tag that the package is built for on aarch64: `cu130`, `cpu`, or None where that can't be told."""
    if package.tag:
        return package.tag
    known = project.facts.pypi_tag("torch", package.version)
    dependencies = list(package.dependencies((), AARCH64))
    if known is None and package.table.items_of("dependencies"):
        cuda = any(str(dependency.get("name", "")).startswith(("nvidia-", "cuda-")) for dependency in dependencies)
        return None if cuda else CPU
    return known


def _why_cpu(package: Package) -> str:
    if package.tag == CPU:
        return (
            f"On aarch64 it installs torch {package.version} from the CPU index: torch.version.cuda is None on the node"
        )
    return (
        f"On aarch64 it installs PyPI's torch {package.version}, whose aarch64 wheel is a CPU build: "
        "torch.version.cuda is None on the node"
    )


def lock_no_aarch64_wheel(project: Project) -> Iterator[Found]:
    for lock in project.locks:
        for package in lock.selected:
            if not package.wheels() or package.aarch64_wheels() or _served_by_sibling(lock, package):
                continue
            named = f"{package.name} {package.version}"
            if package.has_sdist:
                why, level = f"{named} has wheels for other platforms only: on aarch64 it is built from source", WARNING
            else:
                asked = "" if package in lock.required else " where its extra or group is asked for"
                why = f"{named} has no wheel for aarch64 and no source: `uv sync` fails on the node{asked}"
                level = WARNING if asked else ERROR
            yield Found(lock.source, package.line, why, level=level)


def _served_by_sibling(lock: Lock, package: Package) -> bool:
    """Whether another version of the package, for another extra, has an aarch64 wheel."""
    return any(other.name == package.name and other.aarch64_wheels() for other in lock.selected if other is not package)


def lock_mixed_builds(project: Project) -> Iterator[Found]:
    data = project.facts.compatibility
    for lock in project.locks:
        torch, vision, codec = (_single(lock, name) for name in ("torch", "torchvision", "torchcodec"))
        if torch is None or not serves_aarch64(project, lock, "torch"):
            continue
        known = next(
            (entry for version, entry in data["torch"].items() if release(version) == release(torch.version)), None
        )
        if (
            vision
            and known
            and _public(vision) not in known["torchvision"]
            and _public(vision) in project.facts.known("torchvision")
        ):
            yield Found(
                lock.source,
                vision.line,
                why=f"torchvision {vision.version} does not go with torch {torch.version}: "
                f"{', '.join(known['torchvision'])} does",
            )
        entry = data["torchcodec"].get(_public(codec)) if codec else None
        if codec and entry and not matches(torch.version, entry["torch"]):
            yield Found(
                lock.source,
                codec.line,
                why=f"torchcodec {codec.version} is built for torch{entry['torch']}, not for {torch.version}",
            )
        elif codec and entry:
            built, torch_tag = (
                codec.tag or entry["pypi"],
                torch.tag or str(project.facts.pypi_tag("torch", torch.version)),
            )
            if _cuda_major(built) != _cuda_major(torch_tag):
                yield Found(
                    lock.source,
                    codec.line,
                    why=f"torchcodec {codec.version} is a {built} build and torch {torch.version} a {torch_tag} build",
                )


def _single(lock: Lock, name: str) -> Package | None:
    found = [package for package in lock.selected if package.name == name and package.aarch64_wheels()]
    return found[0] if len(found) == 1 else None


def _public(package: Package) -> str:
    return ".".join(str(number) for number in Version.parse(package.version).release)


def _cuda_major(tag: str) -> str:
    return tag[:4] if tag.startswith("cu") else tag


RULES = (
    Rule(
        "lock-cpu-torch",
        "The lock installs a CPU build of torch on aarch64",
        ERROR,
        "What the lock holds for aarch64 is a CPU build: torch.version.cuda is None on the node",
        "Lock the packages concerned again with an index for aarch64: `./armstage project fix . --lock "
        "own`; or leave the lock to the others "
        "and override after the sync: `--lock shared`",
        bad={"uv.lock": _HEAD % "torch" + _TORCH % ("2.10.0", "2.10.0", "2.10.0")},
        good={"uv.lock": _HEAD % "torch" + _TORCH % ("2.11.0", "2.11.0", "2.11.0")},
        check=lock_cpu_torch,
        mended=True,
    ),
    Rule(
        "lock-no-aarch64-wheel",
        "A package of the lock has no wheel for aarch64",
        WARNING,
        "The lock installs it on aarch64, where there is no wheel of it",
        "Mark the requirement that brings it with `; platform_machine != 'aarch64'`, or take a version or "
        "another package with an aarch64 wheel",
        bad={"uv.lock": _HEAD % "decord" + _DECORD % "manylinux2010_x86_64"},
        good={"uv.lock": _HEAD % "decord" + _DECORD % "manylinux_2_28_aarch64"},
        check=lock_no_aarch64_wheel,
    ),
    Rule(
        "lock-mixed-builds",
        "torch, torchvision and torchcodec of the lock do not belong together on aarch64",
        ERROR,
        "Extensions load only with the torch they were built for: `operator torchvision::nms does not "
        "exist`, or an undefined symbol",
        "Take the versions that were released together, from one index",
        bad={
            "uv.lock": _HEAD.replace("{ name", '{ name = "torchvision" }, { name') % "torch"
            + _TORCH % ("2.12.0", "2.12.0", "2.12.0")
            + (_TORCH % ("0.26.0", "0.26.0", "0.26.0")).replace("torch", "torchvision")
        },
        good={
            "uv.lock": _HEAD.replace("{ name", '{ name = "torchvision" }, { name') % "torch"
            + _TORCH % ("2.11.0", "2.11.0", "2.11.0")
            + (_TORCH % ("0.26.0", "0.26.0", "0.26.0")).replace("torch", "torchvision")
        },
        check=lock_mixed_builds,
        mended=True,
    ),
)
