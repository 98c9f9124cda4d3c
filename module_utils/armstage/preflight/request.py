"""What is asked of a preflight: the options of the module and of the command line, in one shape."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ArmstageError
from ..options import above_zero, at_least

NUMBERS = tuple([f"A{number}" for number in range(1, 6)] + [f"G{number}" for number in range(1, 11)])

UNITS = {"": 2**30, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "M": 2**20, "G": 2**30, "T": 2**40}
UNITS.update({"MB": 10**6, "GB": 10**9, "TB": 10**12})
"""Bytes of a unit of memory; a bare number is GiB."""

MEMORY_KEYS = ("memory_gib", "memory")


@dataclass(frozen=True)
class Request:
    """``root`` is the folder below which proc/ and sys/ are read, ``env`` an environment or empty to find one.

    ``staged`` is the staged root or empty; ``checks`` the numbers to run, empty for all; ``skip``
    those switched off. ``workload`` is the memory that the run will need, in bytes. ``timeout`` holds
    for each check, ``sample`` is how long G4 samples, both in seconds. ``live`` imports torch,
    ``online`` lets G8 ask its checkout's origin. ``configs`` are files and folders for G10,
    ``playbooks`` is a checkout for G8. ``environ`` is the environment of the job.
    """

    root: str = "/"
    env: str = ""
    staged: str = ""
    nvidia_smi: str = "nvidia-smi"
    checks: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    workload: int | None = None
    timeout: float = 30.0
    sample: float = 0.0
    live: bool = False
    online: bool = False
    configs: tuple[str, ...] = ()
    playbooks: str = ""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def __post_init__(self) -> None:
        for option, numbers in (("checks", self.checks), ("skip", self.skip)):
            unknown = [number for number in numbers if number not in NUMBERS]
            if unknown:
                raise ArmstageError(
                    f"Expected numbers of checks in `{option}`, A1 to A5 or G1 to G10, but received: `{unknown[0]}`",
                    hint=f"Write them as in {option}: G1,G3",
                )
        if not any(map(self.wants, NUMBERS)):
            raise ArmstageError(
                f"Expected a check to be left to run, but `skip` names all of them: `{','.join(self.skip)}`",
                hint="Leave one out of `skip`: nothing checked is nothing proven",
            )
        above_zero("timeout", self.timeout, "seconds")
        at_least("sample", self.sample, 0)

    def require_root(self) -> None:
        """Raises ArmstageError where there is no host to look at, which would look like one without a driver."""
        if not os.path.isdir(self.root):
            raise ArmstageError(
                f"Expected `root` to be the folder that holds proc/ and sys/, but there is no folder `{self.root}`",
                hint="Give `/` for this host, or the folder that a host was recorded in",
            )

    def wants(self, number: str) -> bool:
        """Whether a check is to be run."""
        return number not in self.skip and (not self.checks or number in self.checks)


def numbers(texts: Sequence[str]) -> tuple[str, ...]:
    """``["g1,G3", "a1"]`` as ``("G1", "G3", "A1")``."""
    return tuple(word.upper() for text in texts for word in re.split(r"[,\s]+", text) if word)


def workload(value: Any) -> int | None:
    """Bytes of ``90``, ``90GiB``, ``96 GB`` or ``{"memory_gib": 90}``; None for nothing, and for an empty text.

    Raises ArmstageError for anything else.
    """
    if isinstance(value, Mapping):
        unknown = [key for key in value if key not in MEMORY_KEYS]
        if unknown:
            raise ArmstageError(
                f"Expected `memory_gib` in `workload`, but received: `{unknown[0]}`", hint="workload: {memory_gib: 90}"
            )
        value = next((value[key] for key in MEMORY_KEYS if key in value), None)
    if value is None or value == "":
        return None
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z]*)\s*", str(value), re.ASCII)
    if match is None or match[2].upper() not in UNITS or not float(match[1]):
        raise ArmstageError(
            f"Expected the memory a run needs, such as `90` or `90GiB`, in `workload`, but received: `{value}`",
            hint="A bare number is GiB; M, G, T, MiB, GB and the like are units",
        )
    return int(float(match[1]) * UNITS[match[2].upper()])
