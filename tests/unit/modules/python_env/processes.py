"""Programs that stand for uv, and the module in a process of its own."""

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]

WAITING = """\
import os, sys, time
if sys.argv[2] == %(step)r:
    open(%(mark)r + ".new", "w").write(str(os.getpid()))
    os.rename(%(mark)r + ".new", %(mark)r)
    time.sleep(60)
os.execv(%(uv)r, sys.argv)
"""

AS_A_PROCESS = """\
import json, sys
import ansible.module_utils
from ansible.module_utils.testing import patch_module_args
ansible.module_utils.__path__.append(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import python_env
with open(sys.argv[3]) as file, patch_module_args(json.load(file)):
    python_env.main()
"""


def program(path, body):
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return str(path)


def waiting(tmp_path, uv, step):
    """A uv that writes its process id to a file and waits, once it comes to this step: (program, file)."""
    mark = tmp_path / "started"
    return program(tmp_path / "uv", WAITING % {"step": step, "mark": str(mark), "uv": uv}), mark


def module_process(tmp_path, options):
    """Start the module; its JSON comes on standard output."""
    arguments = tmp_path / "arguments.json"
    arguments.write_text(json.dumps(options))
    return subprocess.Popen(
        [sys.executable, "-c", AS_A_PROCESS, str(ROOT / "module_utils"), str(ROOT / "library"), str(arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(path, seconds=20):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)
