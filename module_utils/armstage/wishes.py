"""What an operator wishes, each value of the kind that is meant.

The same variable arrives as a number or as a text, as a list or as one word, by whether it was written in YAML
or behind `-e`; and roles' argument specs check that but change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .compatibility import PACKAGES
from .errors import ArmstageError

VERSIONS = (("uv", "version"), ("cpython", "version"), ("ffmpeg", "version"), *(("torch", name) for name in PACKAGES))


def as_meant(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """The ``wishes`` of plan.plan. Raises ArmstageError, naming the variable, for a value that can't be meant."""
    stack = {name: dict(part) for name, part in wishes["stack"].items()}
    for part, key in VERSIONS:
        stack[part][key] = text(f"armstage_{part if key == 'version' else key}_version", stack[part][key])
    stack["ffmpeg"]["major"] = _number("armstage_ffmpeg_major", stack["ffmpeg"]["major"])
    stack["torch"]["also"] = requirements("armstage_torch_also", stack["torch"]["also"])
    given = {name: text(f"armstage_{name}", wishes[name]) for name in ("index", "mirror")}
    return {**wishes, **given, "stack": stack}


def text(variable: str, value: Any) -> str:
    """A text, or a number as one; nothing is an empty text."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ArmstageError(
            f"Expected a text in `{variable}`, but received: `{value}`", hint=f"Give one value, in quotes: {variable}"
        )
    return str(value).strip()


def _number(variable: str, value: Any) -> int:
    found = re.fullmatch(r"(\d+)(?:\.0)?", text(variable, value), re.ASCII)
    if found is None:
        raise ArmstageError(
            f"Expected a number in `{variable}`, but received: `{value}`", hint=f"Give it as in -e {variable}=7"
        )
    return int(found[1])


def requirements(variable: str, value: Any) -> list[str]:
    """Requirements as a list, or as one text with commas or spaces between them; one with a marker stands alone."""
    if isinstance(value, str) and ";" in value:
        value = [value]
    if isinstance(value, str):
        # A comma between two specifiers, `a>=1,<2`, is followed by neither a letter nor a space and a letter.
        value = re.split(r"\s*[,\s]\s*(?=[A-Za-z])", value.strip()) if value.strip() else []
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) and each.strip() for each in value):
        raise ArmstageError(
            f"Expected a list of requirements in `{variable}`, but received: `{value}`",
            hint=f'Give it as in -e \'{{"{variable}": ["numpy==2.5.5"]}}\'',
        )
    return [each.strip() for each in value]
