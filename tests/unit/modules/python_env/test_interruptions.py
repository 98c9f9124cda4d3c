"""Kills, time-outs and two runs at once."""

import contextlib
import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from .looking import nothing_published, store
from .processes import module_process, program, wait_for, waiting


@pytest.mark.parametrize("step", ["compile", "install"])
def test_after_a_kill_the_next_run_finishes(run, root, tmp_path, uv, options, step):
    slow, mark = waiting(tmp_path, uv, step)
    module = module_process(tmp_path, {**options, "uv": slow})
    wait_for(mark)
    module.send_signal(signal.SIGKILL)
    module.wait()
    assert [name for name in os.listdir(root / "store") if name.startswith(".partial-env-cu130-")]
    assert not (root / "envs").exists()
    assert run()["changed"]
    assert all(name.startswith("env-cu130-") for name in os.listdir(root / "store"))
    assert not run()["changed"]
    os.kill(int(mark.read_text()), signal.SIGKILL)


def test_uv_that_is_killed_is_said(run, root, tmp_path):
    uv = program(tmp_path / "uv", "import os\nos.kill(os.getpid(), 9)\n")
    assert run(uv=uv)["msg"] == "uv was ended by signal 9"
    assert nothing_published(root)


def test_uv_that_does_not_end_is_ended_and_was_watched_until_then(run, root, wheels, tmp_path, uv):
    """The progress file is gone afterwards: a folder that is watched shows that it was there."""
    slow, mark = waiting(tmp_path, uv, "install")
    progress = tmp_path / "progress"
    seen = []

    def watch():
        while not seen:
            with contextlib.suppress(FileNotFoundError):
                seen.append(progress.read_text())
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    result = run(uv=slow, timeout=1.5, progress=str(progress), expected_size=4096)
    watcher.join()
    assert result["msg"] == f"uv had not finished after 2 s; it was fetching from the mirror `{wheels}`"
    assert re.fullmatch(r"\d+ 4096 env-cu130, resolving\n", seen[0])
    assert not progress.exists()
    assert nothing_published(root)
    assert not Path("/proc", mark.read_text()).exists()


def test_two_runs_at_once_stage_once(run, root, tmp_path, options):
    modules = []
    for number in ("one", "two"):
        (tmp_path / number).mkdir()
        modules.append(module_process(tmp_path / number, options))
    results = [json.loads(module.communicate(timeout=60)[0]) for module in modules]
    assert [result.get("msg") for result in results] == [None, None]
    assert len(store(root)) == 1
    assert not run()["changed"]
