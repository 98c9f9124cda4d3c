"""How every verb and program answers a command line that it does not understand."""

from __future__ import annotations

import argparse
from typing import NoReturn

USAGE = 3
"""Exit status of a run that could not begin; 1 and 2 stand for what was found, or for hosts that failed."""


class Parser(argparse.ArgumentParser):
    """argparse's, with the message, the hint and the exit status of every other error."""

    def error(self, message: str) -> NoReturn:
        program = self.prog.removeprefix("./").partition(" ")[0]
        self.exit(USAGE, f"{program}: {message}\nhint: {self.prog} --help\n")
