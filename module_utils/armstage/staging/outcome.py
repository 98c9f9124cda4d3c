"""What the module says about a run: one shape, whatever happened."""

from __future__ import annotations

import os
from typing import Any

from .desired import Desired
from .record import Release
from .release import Done, path_of


def result(desired: Desired, done: Done, seconds: float) -> dict[str, Any]:
    """The result of `staged_release`, plain JSON types only."""
    before, after = _states(desired, done)
    return {
        "changed": done.plan.changes,
        "available": done.plan.final is not None or done.observed.intact,
        "release": _release(desired, done, seconds),
        "skipped_sources": [
            {"url": item.url, "kind": item.kind, "reason": item.reason} for item in done.choice.skipped
        ],
        "actions": _actions(desired, done),
        "diff": {
            "before_header": str(desired.root),
            "after_header": str(desired.root),
            "before": before,
            "after": after,
        },
    }


def _release(desired: Desired, done: Done, seconds: float) -> dict[str, Any]:
    """The release there is, or would be: then without size, files and elf, which unpacking tells."""
    known = done.release or done.observed.current
    source = done.choice.source
    planned = {"kind": source.kind, "url": source.shown, "sha256": done.choice.sha256} if source else {}
    return {
        "name": desired.name,
        "version": desired.version,
        "path": str(done.plan.final or ""),
        "digest": known.digest if known else done.choice.sha256,
        "source": dict(known.source) if known else {"kind": "", "url": "", "sha256": "", **planned},
        "size": known.size if known else 0,
        "files": known.files if known else 0,
        "elf": dict(known.elf) if known else {},
        "link": next((str(desired.root / link) for link in desired.links), ""),
        "seconds": round(seconds, 1),
    }


def _actions(desired: Desired, done: Done) -> list[str]:
    """What was done, or would be, in order."""
    plan, source = done.plan, done.choice.source
    said = [f"remove {_place(desired, folder)}, left by a run that was interrupted" for folder in plan.sweep]
    said += [f"skip {item}" for item in done.choice.skipped]
    said += [f"replace: {why}" for why in done.observed.unfit.values()] if plan.publish else []
    if plan.publish and source is not None:
        said.append(f"publish {_place(desired, plan.final)} from {source}")
    for link, target in plan.links.items():
        said.append(f"remove the link {link}" if target is None else f"point {link} to {target}")
    said += [f"remove {_place(desired, release.path)}" for release in plan.remove]
    if plan.manifest:
        said.append("bring manifest.json up to date")
    return said


def _states(desired: Desired, done: Done) -> tuple[str, str]:
    """The component's part of the root before and after, a line for each release and link."""
    observed, plan = done.observed, done.plan
    before = {_place(desired, release.path): _mark(done, release) for release in observed.releases}
    after = dict(before)
    for release in plan.remove:
        del after[_place(desired, release.path)]
    if plan.final is not None:
        after[_place(desired, plan.final)] = ""
    links = {link: target for link, target in observed.links.items() if target is not None}
    moved = {link: target for link, target in {**links, **plan.links}.items() if target is not None}
    stale = {"manifest.json": " (out of date)"} if plan.manifest else {}
    left = {_place(desired, folder): "" for folder in plan.sweep}
    return _text({**before, **stale, **left}, links), _text({**after, **dict.fromkeys(stale, "")}, moved)


def _mark(done: Done, release: Release) -> str:
    return " (unfit)" if path_of(release) in done.observed.unfit else ""


def _text(places: dict[str, str], links: dict[str, str]) -> str:
    lines = [place + mark for place, mark in places.items()] + [f"{link} -> {to}" for link, to in links.items()]
    return "".join(f"{line}\n" for line in sorted(lines))


def _place(desired: Desired, path: Any) -> str:
    return os.path.relpath(str(path), os.path.abspath(desired.root))
