"""Which torch a project gets on aarch64, and from where; pure.

A project's own bounds are kept where they can be: first the versions that are staged, then the newest that the
bounds admit and an index for the nodes holds; only then are bounds widened, to what is staged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..audit.facts import CPU, FAMILY, Facts, index_tag
from ..audit.locks import Lock
from ..audit.model import Project
from ..audit.pep440 import Specifier
from ..audit.pep508 import AARCH64, Requirement
from ..audit.project import assemble, read_texts
from ..compatibility import Compatibility
from ..errors import ArmstageError
from ..stack import torch_requirements
from ..torch_index import Wanted, objections, read_node

PYPI = "pypi"
AUTO = "auto"
LOCK_FILE = "uv.lock"
PYPROJECT = "pyproject.toml"


@dataclass(frozen=True)
class Wishes:
    """``nodes``: facts of cuda_facts, one for each node. ``staged``: versions of torch, torchvision and torchcodec.
    ``index``: `auto`, `pypi`, a tag or the address of an index. ``unreachable``: address -> reason."""

    nodes: tuple[Mapping[str, Any], ...]
    staged: Mapping[str, str]
    python: str
    index: str = AUTO
    unreachable: Mapping[str, str] | None = None


def decide(texts: Mapping[str, str], wishes: Wishes, compatibility: Mapping[str, Any]) -> dict[str, Any]:
    """What the project is to have on aarch64.

    ``texts`` holds `pyproject.toml` and, where there is one, `uv.lock`. Returns ``tag``, ``cuda``, ``index``
    (``name``, ``url``; empty for the default index), ``versions``, ``ranges`` (name -> conditions, what torchcodec
    links and does not declare included), ``requirements`` (pins), ``widened`` (name -> what the project says),
    ``locked`` (name -> version that the lock installs on aarch64), ``reason``.

    Raises ArmstageError for a project without torch, and where nothing serves every node.
    """
    project = read(texts, compatibility, wishes.python)
    lock = project.locks[0] if project.locks else None
    used = [name for name in FAMILY if any(project.declared.of(name)) or (lock and lock.package(name))]
    if "torch" not in used:
        raise ArmstageError(
            "The project does not use torch: neither pyproject.toml nor uv.lock names it",
            hint="Give the folder of the project, not one above it; there is nothing to fix in one without torch",
        )
    bounds = {name: bounds_of(project, name) for name in used}
    for versions in _candidates(used, bounds, wishes, compatibility):
        for tag in _served(versions, wishes, compatibility):
            index, why = _index(tag, versions["torch"], wishes, compatibility)
            if why:
                return _target(tag, index, why, versions, bounds, lock, compatibility)
    raise _nothing(used, wishes)


def read(texts: Mapping[str, str], compatibility: Mapping[str, Any], python: str) -> Project:
    """The project of these texts, for the rules of the audit. Raises ArmstageError for what is no TOML."""
    files, unread = read_texts(texts)
    if unread:
        raise ArmstageError(
            f"Failed to read `{unread[0].file}`, line {unread[0].line}: {unread[0].reason}", hint="Correct the file"
        )
    return assemble(files, Facts(compatibility, python=python))


def bounds_of(project: Project, name: str) -> Specifier:
    """The project's conditions on a package where it may be installed on aarch64."""
    declared = next((found for found in project.declared.of(name) if _counts(found.requirement)), None)
    return project.declared.bounds(declared) if declared else Specifier()


def _counts(requirement: Requirement) -> bool:
    return requirement.applies_to(AARCH64) and not requirement.url


def _candidates(
    used: Sequence[str], bounds: Mapping[str, Specifier], wishes: Wishes, compatibility: Mapping[str, Any]
) -> Iterator[dict[str, str]]:
    """Sets of versions, the one to prefer first."""
    known = Compatibility(compatibility)
    staged = {name: str(wishes.staged[name]) for name in used}
    if all(bounds[name].admits(version) for name, version in staged.items()):
        yield staged
    for torch in known.versions("torch"):
        partners = {name: known.partners(name, torch) for name in used if name != "torch"}
        admitted = {
            name: next((version for version in versions if bounds[name].admits(version)), "")
            for name, versions in partners.items()
        }
        if bounds["torch"].admits(torch) and all(admitted.values()):
            yield {"torch": torch, **admitted}
    yield staged


def _served(versions: Mapping[str, str], wishes: Wishes, compatibility: Mapping[str, Any]) -> Iterator[str]:
    """The tags that serve every node, newest first."""
    known = Compatibility(compatibility)
    wanted = Wanted(wishes.python, **{name: versions.get(name) for name in FAMILY})  # type: ignore[arg-type]
    nodes = [read_node(facts) for facts in wishes.nodes]
    forced = wishes.index if wishes.index in compatibility["indexes"] else index_tag(wishes.index + "/")
    for tag, index in known.indexes():
        if (not forced or tag == forced) and not any(objections(index, wanted, node, known) for node in nodes):
            yield tag


def _index(tag: str, torch: str, wishes: Wishes, compatibility: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """The index to take a set from, and why it; no reason where it can't be had."""
    index = compatibility["indexes"][tag]
    bound = {"name": f"pytorch-{tag}", "url": str(index["url"])}
    same_on_pypi = compatibility["torch"].get(torch, {}).get("pypi", CPU) == tag
    if "://" in wishes.index:
        return {**bound, "url": wishes.index}, "the index that was given"
    if wishes.index == PYPI:
        return (
            {},
            f"PyPI was asked for, whose aarch64 wheel of torch {torch} is the {tag} build" if same_on_pypi else "",
        )
    reason = (wishes.unreachable or {}).get(bound["url"])
    if reason is None:
        return bound, f"CUDA {index['cuda']} is the newest that every node's driver runs and that holds them"
    if same_on_pypi:
        return (
            {},
            f"{bound['url']} can't be reached ({reason}); PyPI's aarch64 wheel of torch {torch} is the same build",
        )
    return {}, ""


def _target(
    tag: str,
    index: Mapping[str, str],
    reason: str,
    versions: Mapping[str, str],
    bounds: Mapping[str, Specifier],
    lock: Lock | None,
    compatibility: Mapping[str, Any],
) -> dict[str, Any]:
    pins = list(_requirements(versions, tag, compatibility))
    undeclared = [Requirement.parse(pin) for pin in pins[len(versions) :]]
    locked = {name: package.version for name in FAMILY if lock and (package := lock.package(name))}
    return {
        "tag": tag,
        "cuda": str(compatibility["indexes"][tag]["cuda"]),
        "index": dict(index),
        "reason": reason,
        "versions": dict(versions),
        "ranges": {
            **{name: minor_range(version) for name, version in versions.items()},
            **{requirement.name: str(requirement.specifier) for requirement in undeclared},
        },
        "requirements": pins,
        "widened": {name: str(bounds[name]) for name, version in versions.items() if not bounds[name].admits(version)},
        "locked": locked,
    }


def _requirements(versions: Mapping[str, str], tag: str, compatibility: Mapping[str, Any]) -> Iterable[str]:
    """Pins of the set, then what its torchcodec links and does not declare."""
    every = torch_requirements({**dict.fromkeys(FAMILY, ""), **versions}, compatibility, tag)
    yield from (f"{name}=={version}" for name, version in versions.items())
    if "torchcodec" in versions:
        yield from every[len(FAMILY) :]


def minor_range(version: str) -> str:
    """`>=2.11.0,<2.12` of `2.11.0`."""
    major, minor = version.split(".")[:2]
    return f">={version},<{major}.{int(minor) + 1}"


def _nothing(used: Sequence[str], wishes: Wishes) -> ArmstageError:
    names = ", ".join(used)
    if wishes.index not in (AUTO, PYPI):
        return ArmstageError(
            f"`{wishes.index}` serves {names} on none of the nodes, or not on all of them",
            hint="Leave the index to the rule: --index auto",
        )
    away = "; ".join(f"{address}: {reason}" for address, reason in (wishes.unreachable or {}).items())
    return ArmstageError(
        f"No index serves {names} on every node" + (f" (can't be reached: {away})" if away else ""),
        hint="`./armstage verify` says what each node's driver runs; --index takes the address of an index's mirror",
    )
