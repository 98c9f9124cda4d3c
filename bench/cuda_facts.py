"""Reading the driver through libcuda and NVML against running nvidia-smi twice, as scripts do.

The libraries are the stand-ins of tests/lab/stubs, built for this host; nvidia-smi is a script that
takes the second that the real one takes to start. Best of three, both in one run.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "module_utils"))

from armstage.nvidia import driver  # noqa: E402

ANSWERS = """driver 580.95.05
cuda 13000
gpu NVIDIA GB10|GPU-6f1e5ab9-2c39-8c1f-7fb7-0d6d92a5fb5a|0000000F:01:00.0|-|12.1|-
"""


def seconds(action, times=3):
    """The shortest of some runs."""
    taken = []
    for _run in range(times):
        before = time.perf_counter()
        action()
        taken.append(time.perf_counter() - before)
    return min(taken)


def through_libraries():
    facts = driver.read()
    assert (facts["cuda_version"], facts["sources"]["gpus"]["source"]) == ("13.0", "NVML"), facts["message"]


def through_nvidia_smi(program):
    for arguments in ((), ("--query-gpu=driver_version", "--format=csv,noheader")):
        subprocess.run([program, *arguments], check=True, stdout=subprocess.DEVNULL)


def main():
    with tempfile.TemporaryDirectory() as folder:
        build = runpy.run_path(str(ROOT / "tests/lab/stubs/build.py"))["build"]
        stubs = build(Path(folder, "lib"), compiler="gcc")
        Path(folder, "answers").write_text(ANSWERS)
        program = Path(folder, "nvidia-smi")
        program.write_text("#!/bin/sh\nsleep 1\necho 580.95.05\n")
        program.chmod(0o755)
        os.environ.update(LD_LIBRARY_PATH=str(stubs), ARMSTAGE_STUB=f"{folder}/answers")
        ours = seconds(through_libraries)
        theirs = seconds(lambda: through_nvidia_smi(str(program)))
    print(f"cuda_facts: {ours:.3f} s, nvidia-smi twice: {theirs:.3f} s, ratio {theirs / ours:.1f}")


if __name__ == "__main__":
    main()
