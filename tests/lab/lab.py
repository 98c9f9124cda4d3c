"""The lab's command line: python tests/lab/lab.py COMMAND (see `--help` and docs/lab.md)."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # this folder is the package `lab`

from lab.commands import main  # noqa: E402

sys.exit(main())
