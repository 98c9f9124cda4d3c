"""What a stager stages for its nodes: the Python, the wheel index of each node, the sources of each component."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from . import sources, stack, torch_index, versions
from .compatibility import PACKAGES
from .errors import ArmstageError
from .wishes import as_meant

Facts = Mapping[str, Any]

PLATFORM = "linux-aarch64-gnu"
COMPONENTS = ("uv", "cpython", "ffmpeg")


def plan(wishes: Facts, nodes: Mapping[str, Facts], compatibility: Facts, probed: Facts, cpython: Facts) -> Facts:
    """The whole plan of one stager, before the first byte is fetched.

    ``wishes``: ``root``, ``uv``, ``index`` (forced, or empty), ``mirror``, ``stack`` (the stack's data with
    every override in it), ``locked`` (the versions that ``locks``, texts by tag, and ``constraints`` pin).
    ``nodes``: name -> ``{cuda: facts of cuda_facts, python: {executable, version: {major, minor}}}``.
    ``probed``: address -> ``{reachable, reason}``. ``cpython``: what staged_release predicts, of which
    ``available`` and ``skipped_sources`` are read.

    Returns ``{root, uv, python: {staged, path, version, link}, nodes: {name: choice}, seen: {name: {driver,
    cuda, index}}, left_out: {name: why}, environments: [{tag, requirements, constraints, sources}], sources,
    unreachable: {address: reason}, warnings}``. Nodes whose driver is broken are left out, and don't hold the
    others up. Raises ArmstageError where all are, where any can't be served by this stack, or where the parts
    of the stack don't belong together.
    """
    wishes = as_meant(wishes)
    wanted = wishes["stack"]
    nodes, left_out = _without_broken(nodes)
    python = python_of(wanted["cpython"]["version"], wishes["root"], nodes, cpython)
    _require_consistent(wanted, python["version"], compatibility)
    choices = _choices(nodes, wishes, python["version"], compatibility)
    tags = sorted({choice["tag"] for choice in choices.values()})
    return {
        "root": wishes["root"],
        "uv": wishes["uv"],
        "python": python,
        "nodes": choices,
        "seen": {name: _seen(nodes[name]["cuda"], choice["tag"]) for name, choice in choices.items()},
        "left_out": left_out,
        "environments": [_environment(tag, choices, wishes, compatibility) for tag in tags],
        "sources": {name: wanted[name]["sources"] for name in COMPONENTS},
        "unreachable": sources.unreachable(probed),
        "warnings": _warnings(python, wanted["cpython"]["version"], cpython, choices, left_out),
    }


def _without_broken(nodes: Mapping[str, Facts]) -> tuple[Mapping[str, Facts], dict[str, str]]:
    """The nodes whose driver answers, and why the others are left out. All of them where none does: choosing
    for them says what is wrong."""
    broken = {name: node["cuda"] for name, node in nodes.items() if node["cuda"].get("status") in torch_index.BROKEN}
    if len(broken) == len(nodes):
        return nodes, {}
    return (
        {name: node for name, node in nodes.items() if name not in broken},
        {name: _trouble(cuda) for name, cuda in broken.items()},
    )


def _trouble(cuda: Facts) -> str:
    return f"{cuda.get('message') or cuda['status']}. {cuda.get('hint') or torch_index.BROKEN[cuda['status']]}"


def _seen(cuda: Facts, tag: str) -> dict[str, str]:
    """What is put on record of a node, to tell the next run what has changed."""
    return {
        "driver": cuda.get("kernel_driver") or cuda.get("user_driver") or "",
        "cuda": cuda.get("cuda_version") or "",
        "index": tag,
    }


def staged_index(choice: Facts, cuda: str | None, staged: Collection[str]) -> Facts:
    """The index whose environment a node runs, as env.sh chooses: the newest of the ``staged`` tags that the
    driver's CUDA allows. It is another than the rule's (``instead_of``) after a rollback, or when a driver was
    upgraded and nothing staged since. The choice itself where no other will do."""
    tags = [tag for tag in staged if re.fullmatch(r"cu\d{2,}", tag)]
    fitting = [tag for tag in tags if cuda and _cuda_of(tag) <= versions.release(cuda)]
    if choice["tag"] in staged or choice.get("forced") or not fitting:
        return choice
    return {**choice, "tag": max(fitting, key=_cuda_of), "instead_of": choice["tag"]}


def _cuda_of(tag: str) -> tuple[int, ...]:
    """`cu130` is of CUDA 13.0."""
    return versions.release(f"{tag[2:-1]}.{tag[-1]}")


def python_of(version: str, root: str, nodes: Mapping[str, Facts], cpython: Facts) -> dict[str, Any]:
    """The interpreter of the environments: the staged CPython, or the one that every node has."""
    link = f"python/cpython-{version}-{PLATFORM}"
    minor = minor_of(version)
    if cpython["available"]:
        return {"staged": True, "path": f"{root}/{link}/bin/python{minor}", "version": minor, "link": link}
    found = {_python_of_node(node) for node in nodes.values()}
    if len(found) != 1:
        raise ArmstageError(
            f"CPython {version} can't be staged ({_reasons(cpython)}), "
            "and the nodes have different Pythons of their own: "
            + ", ".join(f"{name} has {_python_of_node(node)[0]}" for name, node in nodes.items()),
            hint="Give a mirror that holds CPython: -e armstage_mirror=https://mirror.example.org",
        )
    path, minor = found.pop()
    return {"staged": False, "path": path, "version": minor, "link": link}


def _reasons(cpython: Facts) -> str:
    return "; ".join(f"{source['kind']}: {source['reason']}" for source in cpython["skipped_sources"])


def _python_of_node(node: Facts) -> tuple[str, str]:
    """The node's own Python by its full name: ``/usr/bin/python3`` of 3.13 is ``/usr/bin/python3.13``."""
    version = node["python"]["version"]
    minor = f"{version['major']}.{version['minor']}"
    return re.sub(r"/python[0-9.]*$", f"/python{minor}", node["python"]["executable"]), minor


def minor_of(version: str) -> str:
    """``3.12.12`` -> ``3.12``."""
    return ".".join(version.split(".")[:2])


def _require_consistent(wanted: Facts, python: str, compatibility: Facts) -> None:
    problems = stack.problems(wanted, compatibility, python=python)
    if problems:
        raise ArmstageError(
            "; ".join(problem["message"] for problem in problems),
            hint="; ".join(problem["hint"] for problem in problems),
        )


def _choices(nodes: Mapping[str, Facts], wishes: Facts, python: str, compatibility: Facts) -> dict[str, Facts]:
    """The index of each node. Raises one error for all that can't have one, those with the same reason together."""
    choices: dict[str, Facts] = {}
    refused: dict[tuple[str, str], list[str]] = {}
    for name, node in nodes.items():
        try:
            choices[name] = _choose(node["cuda"], wishes, python, compatibility)
        except ArmstageError as error:  # noqa: PERF203
            refused.setdefault((error.message, error.hint), []).append(name)
    if refused:
        said = [f"{', '.join(names)}: {message}" for (message, _hint), names in refused.items()]
        raise ArmstageError("\n".join(said), hint=". ".join(dict.fromkeys(hint for _message, hint in refused if hint)))
    return choices


def _choose(cuda: Facts, wishes: Facts, python: str, compatibility: Facts) -> Facts:
    wanted = wishes["stack"]["torch"]
    return torch_index.choose(
        cuda,
        compatibility,
        torch=wanted["torch"],
        torchvision=wanted["torchvision"],
        torchcodec=wanted["torchcodec"],
        python=python,
        force=wishes["index"] or None,
        uv=wishes["stack"]["uv"]["version"],
    )


def _environment(tag: str, choices: Mapping[str, Facts], wishes: Facts, compatibility: Facts) -> dict[str, Any]:
    wanted = wishes["stack"]["torch"]
    locked = all(wanted[name] == wishes["locked"][name] for name in PACKAGES)
    return {
        "tag": tag,
        "requirements": stack.torch_requirements(wanted, compatibility, tag) + list(wanted["also"]),
        "constraints": wishes["constraints"] if locked else "",
        "sources": sources.torch_sources(
            tag,
            next(choice["url"] for choice in choices.values() if choice["tag"] == tag),
            lock=wishes["locks"].get(tag, "") if locked else "",
            pypi_tag=compatibility["torch"][wanted["torch"]]["pypi"],
            mirror=wishes["mirror"],
        ),
    }


def _warnings(
    python: Facts, version: str, cpython: Facts, choices: Mapping[str, Facts], left_out: Mapping[str, str]
) -> list[str]:
    found = [f"nothing is changed for {name}: {why}" for name, why in left_out.items()]
    if not python["staged"]:
        found.append(f"CPython {version} is not staged ({_reasons(cpython)}); the nodes' own {python['path']} is used")
    forced: Sequence[str] = [name for name, choice in choices.items() if choice.get("forced")]
    if forced:
        found.append(f"the wheel index of {', '.join(forced)} was forced, not chosen")
    return found
