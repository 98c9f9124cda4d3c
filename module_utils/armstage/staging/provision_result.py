"""What `python_env` says about a run: one shape, whatever happened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .environment import Desired
from .provision import Done


def result(desired: Desired, done: Done, seconds: float) -> dict[str, Any]:
    """The result, plain JSON types only."""
    before, after = _states(desired, done)
    known = done.release.extra if done.release else {}
    return {
        "changed": done.plan.changes,
        "release": _release(desired, done, seconds),
        "installed": dict(known.get("installed", {})),
        "unhashed": list(known.get("unhashed", ())),
        "origins": dict(known.get("origins", {})),
        "library_dirs": list(known.get("library_dirs", ())),
        "drift": done.observed.drift,
        "skipped_sources": [
            {"url": source.address or source.kind, "kind": source.kind, "reason": source.unusable}
            for source in done.skipped
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
    release = done.release or next(
        (release for release in done.observed.finals if release.path == done.plan.final), None
    )
    if release is None:
        return {}
    return {
        "name": release.name,
        "version": release.version,
        "path": str(done.plan.final),
        "digest": release.digest,
        "source": {"sha256": "", **release.source},
        "size": release.size,
        "files": release.files,
        "elf": dict(release.elf),
        "link": str(desired.root / desired.link),
        "seconds": round(seconds, 1),
    }


def _actions(desired: Desired, done: Done) -> list[str]:
    """What was done, or would be, in order."""
    observed, plan = done.observed, done.plan
    said = [f"skip {source}: {source.unusable}" for source in done.skipped]
    said += [f"replace {observed.target}: {observed.drift}"] if observed.drift else []
    if plan.source is not None:
        said.append(f"publish {_place(desired, plan.final)} from {plan.source}")
    if plan.relink:
        said.append(f"point {desired.link} to {plan.target}" if plan.target else f"remove the link {desired.link}")
    said += [f"remove {_place(desired, release.path)}" for release in plan.remove]
    return said + (["bring manifest.json up to date"] if plan.manifest else [])


def _states(desired: Desired, done: Done) -> tuple[str, str]:
    """The environment's part of the root before and after, a line for each release and the link."""
    observed, plan = done.observed, done.plan
    before = {_place(desired, release.path) for release in observed.releases}
    after = before - {_place(desired, release.path) for release in plan.remove}
    if plan.final is not None:
        after.add(_place(desired, plan.final))
    now = plan.target if plan.relink else observed.target
    return _text(desired, before, observed.target), _text(desired, after, now)


def _text(desired: Desired, places: set[str], target: str | None) -> str:
    lines = sorted(places) + ([f"{desired.link} -> {target}"] if target is not None else [])
    return "".join(f"{line}\n" for line in sorted(lines))


def _place(desired: Desired, path: Path | None) -> str:
    return os.path.relpath(str(path), os.path.abspath(desired.root))
