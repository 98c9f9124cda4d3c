"""The inventories that a command line names, for Ansible says little of one that is not there."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from .errors import ArmstageError


def sources(arguments: Sequence[str]) -> list[str]:
    """What is named by `-i`, in each of the ways that ansible-playbook takes it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-i", "--inventory", "--inventory-file", dest="named", action="append", default=[], nargs="?")
    return [source for source in parser.parse_known_args(arguments)[0].named if source]


def check(named: Iterable[str], known: Path) -> None:
    """Raises ArmstageError for the first that is neither there nor a list of hosts; ``known`` is the folder of ours."""
    for source in named:
        if "," in source or os.path.exists(os.path.expandvars(os.path.expanduser(source))):
            continue
        there = sorted(os.path.relpath(folder) for folder in known.iterdir() if folder.is_dir())
        raise ArmstageError(
            f"There is no inventory `{source}`",
            hint=f"Name a file, a folder such as {', '.join(there)}, or hosts with a comma: -i {Path(source).name},",
        )
