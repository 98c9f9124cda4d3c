"""What earlier runs of a root left on record: the driver each node had, and what the root's links named.

    {"schema": 1,
     "nodes": {"gb01": {"driver": "570.172.08", "cuda": "12.8", "index": "cu128"}},
     "states": [{"created": "2026-11-30T22:00:00Z", "links": {"envs/cu128": "../store/env-cu128-2.11.0-..."}}]}

``states`` is a stack, the newest last: a run that moves links pushes one, going back to one drops those
above it. Everything here is pure but for ``read``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ArmstageError
from .files import read_text

HISTORY = "share/armstage/history.json"
SCHEMA = 1

KEPT = 10
"""States on record; what they name is there for as long as ``keep`` keeps it."""

FOLDERS = ("", "bin", "envs", "python")
"""Folders of the root in which the roles keep links; links elsewhere are the operator's own."""

WORDS = {"cpython": "CPython", "ffmpeg": "FFmpeg"}
"""Components by what people call them."""

FOLDER = re.compile(r"(?P<name>.+?)-(?P<version>n?\d.*)-[0-9a-f]{12}")
"""A release's folder in the store, as ``staging.record.folder_name`` makes it."""

Links = Mapping[str, str]
Node = Mapping[str, str]


@dataclass(frozen=True)
class State:
    """The links of a root, as path from the root -> target, and when they came to be so (ISO, UTC)."""

    created: str
    links: Links


@dataclass(frozen=True)
class History:
    """``nodes``: name -> ``driver`` (empty without one), ``cuda`` and ``index``. ``states``: oldest first."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    states: tuple[State, ...] = ()

    @property
    def links(self) -> Links:
        """What the last state's links named."""
        return self.states[-1].links if self.states else {}

    def text(self) -> str:
        """The file's content."""
        states = [{"created": state.created, "links": dict(state.links)} for state in self.states]
        content = {"schema": SCHEMA, "nodes": {name: dict(node) for name, node in self.nodes.items()}, "states": states}
        return json.dumps(content, indent=2, sort_keys=True) + "\n"


def read(root: str | Path) -> History:
    """The history of a root; an empty one where there is none, or where it is not what was written."""
    try:
        content = json.loads(read_text(Path(root) / HISTORY, limit=16 * 1024 * 1024) or "{}")
        states = tuple(State(state["created"], of_roles(state["links"])) for state in content.get("states", ()))
        nodes = content.get("nodes", {})
        maps = [*(state.links for state in states), *nodes.values()]
        texts = [*(state.created for state in states), *(text for each in maps for text in each.values())]
        return History(nodes, states) if all(isinstance(text, str) for text in texts) else History()
    except (ValueError, TypeError, KeyError, AttributeError):
        return History()


def noted(history: History, nodes: Mapping[str, Node], links: Links, now: str) -> History:
    """The history with what a run has seen and done. Nodes that it did not see keep what was known of them."""
    pushed = () if links == history.links else (State(now, links),)
    return History({**history.nodes, **nodes}, (history.states + pushed)[-KEPT:])


def since(history: History, nodes: Mapping[str, Node], links: Links) -> list[str]:
    """What is different from the last run, in sentences; empty when nothing is."""
    changed = [sentence for name, node in nodes.items() if (sentence := _node(name, history.nodes.get(name), node))]
    if not changed and links == history.links:
        return []
    return [*changed, _components(_by_component(history.links), _by_component(links))]


def of_roles(links: Links) -> dict[str, str]:
    """Those of a root's links that the roles keep."""
    return {link: target for link, target in links.items() if os.path.dirname(link) in FOLDERS}


def expected_links(links: Links, root: str, releases: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The links as they are once each of ``releases`` (``link`` and ``path``, absolute) is linked.

    After staging they are so already; in check mode a component's links are those it has, led to the new release.
    """
    expected = dict(links)
    for release in releases:
        if not (release.get("path") and release.get("link")):
            continue
        link, folder = os.path.relpath(release["link"], root), os.path.basename(release["path"])
        old = release_of(links.get(link, ""))
        expected.setdefault(link, os.path.relpath(release["path"], os.path.dirname(release["link"])))
        for other, target in expected.items():
            if old and release_of(target) == old:
                expected[other] = target.replace(f"store/{old}", f"store/{folder}")
    return expected


def release_of(target: str) -> str:
    """The folder of the store that a link's target names: of `../store/uv-0.10.0-eb95d28590ed/uv` the second part."""
    return target.partition("store/")[2].partition("/")[0]


def _node(name: str, before: Node | None, after: Node) -> str:
    if before is None:
        return f"{name}: new here: driver {_shown(after, 'driver')}, CUDA {after['cuda']}, index {after['index']}"
    if before == after:
        return ""
    moved = [
        f"{word} {_shown(before, key)} -> {_shown(after, key)}"
        for word, key in (("driver", "driver"), ("CUDA", "cuda"), ("index", "index"))
        if before.get(key) != after.get(key)
    ]
    same = [f"index {after['index']} unchanged"] if before.get("index") == after["index"] else []
    return f"{name}: {', '.join(moved + same)}"


def _shown(node: Node, key: str) -> str:
    return node.get(key) or "none"


def _components(before: Links, after: Links) -> str:
    """`environment cu130 staged; FFmpeg n7.1 -> n7.2; uv unchanged`, of component -> folder of its release."""
    said: dict[str, list[str]] = {}
    for component in sorted({**before, **after}, key=lambda name: (not name.startswith("environment"), name.lower())):
        old, new = before.get(component, ""), after.get(component, "")
        said.setdefault(_fate(old, new), []).append(component)
    ordered = sorted(said.items(), key=lambda entry: entry[0] == "unchanged")
    return "; ".join(f"{_listed(components)} {fate}" for fate, components in ordered)


def _fate(old: str, new: str) -> str:
    if old == new:
        return "unchanged"
    if not old:
        return "staged"
    if not new:
        return "no longer linked"
    versions = _version(old), _version(new)
    return "rebuilt" if versions[0] == versions[1] else f"{versions[0]} -> {versions[1]}"


def _by_component(links: Links) -> dict[str, str]:
    return {_component(link, release_of(target)): release_of(target) for link, target in links.items()}


def _component(link: str, folder: str) -> str:
    if link.startswith("envs/"):
        return f"environment {link[len('envs/') :]}"
    named = FOLDER.fullmatch(folder)
    name = named["name"] if named else folder
    return WORDS.get(name, name)


def _version(folder: str) -> str:
    """`2.11.0` of `env-cu130-2.11.0-9f8e7d6c5b4a`: what stands between the last digest and the name."""
    named = FOLDER.fullmatch(re.sub(r"^env-[^-]+-", "env-", folder))
    return named["version"] if named else folder


def _listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def as_nodes(given: Mapping[str, Mapping[str, Any]]) -> dict[str, Node]:
    """Nodes as they are put on record, every value a text."""
    odd = next((name for name, node in given.items() if not isinstance(node, Mapping)), None)
    if odd is not None:
        raise ArmstageError(
            f"Expected `driver`, `cuda` and `index` of the node `{odd}`, but received: `{given[odd]}`",
            hint="Give a dictionary for each node under `nodes`",
        )
    return {
        name: {key: str(node.get(key) or "") for key in ("driver", "cuda", "index")} for name, node in given.items()
    }
