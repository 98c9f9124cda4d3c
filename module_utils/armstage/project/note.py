"""What people need to know of a project's environment: why it is not what the lock says, and how to use it."""

from __future__ import annotations

from collections.abc import Mapping

from ..audit import locks
from ..audit.facts import FAMILY
from ..audit.source import Source
from ..readers import toml
from .environment import Wanted
from .target import LOCK_FILE


def commands(wanted: Wanted) -> list[str]:
    """How to run something in the environment on a node; `uv run` alone would first make it what the lock says."""
    return [
        f"cd {wanted.project}",
        f"UV_PROJECT_ENVIRONMENT={wanted.folder.name} uv run --no-sync python ...",
        f"{wanted.folder}/bin/python ...",
    ]


def text(wanted: Wanted, reason: str) -> str:
    """The note of an environment with an override."""
    lock = locks.read(Source(LOCK_FILE, LOCK_FILE, wanted.lock, toml.read(wanted.lock)[0]), wanted.python.minor)
    locked = {name: package.version for name in FAMILY if (package := lock.package(name))}
    named = {requirement.split("==")[0]: requirement.split("==")[-1] for requirement in wanted.override}
    rows = [f"| {name} | {locked.get(name, 'none')} | {named[name]} |" for name in FAMILY if name in named]
    return "\n".join(
        [
            "# Why this environment is not what uv.lock says",
            "",
            f"It is for aarch64 nodes, which can't use what `{wanted.project}/uv.lock` installs there. Torch and what",
            f"belongs to it come from elsewhere, as the {wanted.tag} build" + (f": {reason}." if reason else "."),
            "pyproject.toml and uv.lock are as they were: everyone else gets what they got before.",
            "",
            "| package | uv.lock on aarch64 | here |",
            "|---|---|---|",
            *rows,
            "",
            "Run the project in it with:",
            "",
            *(f"    {command}" for command in commands(wanted)),
            "",
            "`uv sync`, and `uv run` without `--no-sync`, put the lock's versions back. To make it again:",
            "",
            f"    ./armstage project fix {wanted.project} --lock shared",
            "",
        ]
    )


def listing(packages: Mapping[str, str]) -> str:
    return "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))
