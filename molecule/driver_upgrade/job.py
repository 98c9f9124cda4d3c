"""A job that runs while links move: it has a library of its environment open, and imports from it when told to go on.

python job.py FOLDER      writes FOLDER/started, waits for FOLDER/go, then writes what it imported to FOLDER/done
"""

import sys
import time
from pathlib import Path

import torch

folder = Path(sys.argv[1])
with (Path(torch.__file__).parent / "lib/torch.so").open("rb"):
    (folder / "started").write_text(torch.__file__)
    deadline = time.monotonic() + 600
    while not (folder / "go").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    import torch.late
(folder / "done").write_text(f"{torch.late.BUILD} {torch.late.__file__}")
