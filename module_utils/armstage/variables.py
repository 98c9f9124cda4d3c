"""Names of the variables that an operator gives: Ansible takes any, and says nothing of one that nobody reads."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable

from .errors import ArmstageError

NAMESPACE = "armstage"
"""The first word of every variable that an operator sets."""

OF_THE_RUN = {
    "armstage_stack": "Give `armstage_stack_name`, or one component's version as in `armstage_torch_version`",
    "armstage_compatibility": "Correct the data in vars/compatibility.yml",
    "armstage_plan": "Give `armstage_index`, or a component's version and sources",
    "armstage_nodes": "Put the nodes into group `nodes`, with `armstage_stager` where they have no stager of their own",
    "armstage_seen_by": "Give `armstage_stager`",
    "armstage_node_index": "Give `armstage_index`",
}
"""What the roles load or work out themselves -> what an operator does instead."""

DESCRIBED = "./armstage stage --help"


def check(given: Iterable[str], known: Collection[str]) -> None:
    """Raises ArmstageError for the names of ours that are not ``known``; other names are others' business."""
    wrong = sorted(name for name in set(given).difference(known) if _is_ours(name))
    if wrong:
        hints = [*(_hint(name, known) for name in wrong), f"What there is: {DESCRIBED}"]
        raise ArmstageError("\n".join(_what(name) for name in wrong), hint=". ".join(hints))


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names that may have been meant, likeliest first; three at most, for several may be about as near."""
    scores = {each: _likeness(name, each) for each in known}
    least = max(0.7, max(scores.values())[0] - 0.05)
    return [each for each in sorted(scores, key=scores.__getitem__, reverse=True) if scores[each][0] >= least][:3]


def _what(name: str) -> str:
    settled = name in OF_THE_RUN
    return f"`{name}` is settled by the run and can't be given" if settled else f"There is no variable `{name}`"


def _hint(name: str, known: Iterable[str]) -> str:
    if name in OF_THE_RUN:
        return OF_THE_RUN[name]
    meant = " or ".join(f"`{each}`" for each in nearest(name, known))
    return f"Give {meant} instead of `{name}`" if meant else f"Take `{name}` out"


def _is_ours(name: str) -> bool:
    return _alike(_words(name)[0], NAMESPACE) > 0.9


def _likeness(name: str, known: str) -> tuple[float, float]:
    """From 0 to 1, without what all names begin with: as a whole or word by word, whichever is more; and as a whole."""
    given, there = _words(name)[1:], _words(known)[1:]
    whole = _alike("_".join(given), "_".join(there))
    each = [max(_alike(word, other) for other in there) for word in given]
    return max(whole, sum(each) / max(1, len(each))), whole


def _words(name: str) -> list[str]:
    return re.split("[_-]", name.lower())


def _alike(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()
