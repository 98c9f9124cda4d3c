"""The one exception that carries a remedy."""

from __future__ import annotations


class ArmstageError(Exception):
    """What failed, on which literal input and what was expected; ``hint`` says what to do.

    Modules pass both on as ``msg`` and ``hint``; the command line prints them on two lines.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
