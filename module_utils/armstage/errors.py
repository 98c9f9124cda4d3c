"""The one exception that carries a remedy."""

from __future__ import annotations


class ArmstageError(Exception):
    """What failed, on which literal input and what was expected; ``hint`` says what to do.

    Modules pass both on as ``msg`` and ``hint``; plugins and the command line print ``text``. Names that
    are not UTF-8 come out with ``\\udcNN`` for their odd bytes: a result that held them could not be read.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = _plain(message)
        self.hint = _plain(hint)
        super().__init__(self.message)

    @property
    def text(self) -> str:
        """The message and, where there is one, the hint on a line of its own."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
