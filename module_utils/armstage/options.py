"""Numbers that an operator gives, each refused by its option's name where it can't be meant."""

from __future__ import annotations

import math
from typing import TypeVar

from .errors import ArmstageError

Number = TypeVar("Number", int, float)


def at_least(option: str, value: Number, least: int) -> Number:
    """The value as it is. Raises ArmstageError for one below, and for infinity and what is no number (nan)."""
    if not least <= value < math.inf:
        raise ArmstageError(
            f"Expected `{option}` to be at least {least}, but received: `{value}`", hint=f"Correct `{option}`"
        )
    return value


def above_zero(option: str, value: Number, unit: str) -> Number:
    """The same for a value that may be a fraction, such as seconds."""
    if not 0 < value < math.inf:
        raise ArmstageError(
            f"Expected `{option}` to be above 0, but received: `{value:g}`", hint=f"Give it in {unit}, such as 60"
        )
    return value
