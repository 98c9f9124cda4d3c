"""Moving the links of a root back: to what the last run found there, or to the environments of an older wheel index.

Only links move. Jobs that run keep what they run from, since env.sh follows the links once, at job start.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import history
from .errors import ArmstageError
from .files import point_link, write_files
from .history import HISTORY, History, Links, State, release_of
from .staging.folders import require_writable, staged_root
from .staging.publish import Store

PREVIOUS = "previous"

ENVIRONMENT = re.compile(r"env-(?P<tag>.+)-(?:py)?\d[^-]*-[0-9a-f]{12}")
"""The folder of an environment's release: its version is torch's, or Python's."""


@dataclass(frozen=True)
class Observed:
    """``links`` as they are, ``releases`` as folders of the store -> when they were published, newest first."""

    history: History
    links: Links
    releases: Mapping[str, str]
    root: str


@dataclass(frozen=True)
class Plan:
    """``moves``: link -> its new target, None where it goes. ``history``: as it is afterwards."""

    moves: Mapping[str, str | None]
    history: History
    message: str


def observe(dest: str) -> Observed:
    """What the root at ``dest`` holds. Raises ArmstageError where there can be none."""
    root = str(staged_root(dest))
    store = Store(root)
    releases = {str(release.path).rpartition("/")[2]: release.created for release in store.releases()}
    return Observed(history.read(root), history.of_roles(store.links()), releases, root)


def make_plan(to: str, observed: Observed, now: str) -> Plan:
    """What has to move; of links that the state to go to does not have, those of environments go. Pure.

    Raises ArmstageError where there is nothing to go back to.
    """
    wanted, after, message = _to_previous(observed) if to == PREVIOUS else _to_tag(to, observed, now)
    gone = {link: release_of(target) for link, target in wanted.items() if release_of(target) not in observed.releases}
    if gone:
        named = ", ".join(f"`{folder}` of `{link}`" for link, folder in gone.items())
        raise ArmstageError(
            f"Can't go back: {named} is no longer staged",
            hint="Nothing was moved. Set armstage_keep=2 or more to keep more releases from now on; to get an older "
            "version back, stage it: ./armstage stage -e armstage_stack_name=NAME",
        )
    moves: dict[str, str | None] = {
        link: target for link, target in wanted.items() if observed.links.get(link) != target
    }
    moves.update(dict.fromkeys(sorted(_environments(observed.links) - _environments(wanted))))
    return Plan(moves, after if moves else observed.history, message if moves else f"Already there: {message}")


def _to_previous(observed: Observed) -> tuple[Links, History, str]:
    """The state below the one that the links are in; the top one where they are in none that was completed."""
    states = observed.history.states
    if not states:
        raise ArmstageError(
            f"There is no record of an earlier run: `{Path(observed.root, HISTORY)}` is missing or holds none",
            hint="Stage once: ./armstage stage; or name another root with -e armstage_root=FOLDER",
        )
    left = states[:-1] if _are_at(states[-1], observed.links) else states
    if not left:
        raise ArmstageError(
            f"There is nothing before the run of {states[-1].created}: it was the first",
            hint="Name the wheel index to go to: ./armstage rollback --to cu128",
        )
    after = History(observed.history.nodes, left)
    return left[-1].links, after, f"back to what was linked by the run of {left[-1].created}"


def _are_at(state: State, links: Links) -> bool:
    """Whether the links are in this state. Only of environments a link too many makes a difference."""
    return state.links.items() <= links.items() and _environments(links) <= _environments(state.links)


def _environments(links: Links) -> set[str]:
    return {link for link in links if link.startswith("envs/")}


def _to_tag(tag: str, observed: Observed, now: str) -> tuple[Links, History, str]:
    """The environment of ``tag``, and none for a newer CUDA: env.sh then chooses no newer one on any node."""
    staged = f"envs/{tag}"
    links = {link: target for link, target in observed.links.items() if not _is_newer(link, tag)}
    if staged not in links:
        newest = next((folder for folder in observed.releases if _tag_of(folder) == tag), None)
        if newest is None:
            raise ArmstageError(
                f"No environment `{tag}` is staged; there are {', '.join(_tags(observed)) or 'none'}",
                hint="Give one of them, or `previous`; or stage it: "
                f"./armstage stage -e armstage_index={tag}, for as long as you want it",
            )
        links[staged] = f"../store/{newest}"
    states = (*observed.history.states, State(now, links))[-history.KEPT :]
    message = f"no environment newer than {tag} is linked"
    if not _cuda(tag):
        message = f"{staged} is linked, and the others stay: its name says no CUDA version"
    return links, History(observed.history.nodes, states), message


def _is_newer(link: str, tag: str) -> bool:
    folder, _slash, other = link.partition("/")
    return folder == "envs" and _cuda(other) > _cuda(tag) > 0


def _cuda(tag: str) -> int:
    """`cu130` -> 130; 0 for what is not of an index."""
    return int(tag[2:]) if tag.startswith("cu") and tag[2:].isdigit() else 0


def _tag_of(folder: str) -> str:
    """`cu130` of `env-cu130-2.11.0-9f8e7d6c5b4a`, `cu130-test` of one of that name; empty for what is none."""
    named = ENVIRONMENT.fullmatch(folder)
    return named["tag"] if named else ""


def _tags(observed: Observed) -> Collection[str]:
    linked = {link.partition("/")[2] for link in _environments(observed.links)}
    unlinked = set(filter(None, map(_tag_of, observed.releases)))
    return sorted(linked | unlinked, key=_cuda)


def predict(root: str, to: str) -> Plan:
    """What ``act`` would do; writes nothing."""
    plan = make_plan(to, observe(root), _now())
    if plan.moves:
        store = Store(root)
        written = [store.root / path for path in (HISTORY, *plan.moves)]
        require_writable([store.store, *(path.parent for path in written)])
    return plan


def act(root: str, to: str) -> Plan:
    """Make it so, under the store's lock. The history goes first: a run that is cut short and repeated
    with `previous` then ends in the same place."""
    store = Store(root)
    with store.lock():
        plan = make_plan(to, observe(root), _now())
        if plan.moves:
            write_files(root, {HISTORY: plan.history.text().encode()})
        for link, target in plan.moves.items():
            _move(store.root / link, target)
    return plan


def _move(link: Path, target: str | None) -> None:
    try:
        if target is None:
            link.unlink()
        else:
            point_link(link, target)
    except OSError as error:
        raise ArmstageError(
            f"Failed to move the link `{link}`: {error.strerror or error}",
            hint=f"This user must be able to write in `{link.parent}`; then run again with `previous`",
        ) from error


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
