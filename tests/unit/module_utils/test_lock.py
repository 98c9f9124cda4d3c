"""The lock: one owner at a time, whoever dies, hangs or comes at the same moment."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging import lock as locks
from ansible.module_utils.armstage.staging.lock import Lock, Owner

MODULE_UTILS = Path(__file__).resolve().parents[3] / "module_utils"
ELSEWHERE = Owner("login2", "another-boot", "pid:[1]", 4242, "17", "2026-11-30T08:00:00Z")


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".lock"


def plant(path, owner=ELSEWHERE, age=0.0, text=None):
    """A lock as another process would have left it, last touched ``age`` seconds ago."""
    path.mkdir()
    file = path / "their-token"
    file.write_text(json.dumps(asdict(owner)) if text is None else text)
    os.utime(file, (time.time() - age,) * 2)
    return file


def holder(path):
    """A child process that holds the lock until it is killed."""
    code = (
        "import sys, time; from armstage.staging.lock import Lock\n"
        "with Lock(sys.argv[1]): print(1, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(MODULE_UTILS)},
    )
    assert child.stdout.readline() == b"1\n"
    return child


def test_is_taken_and_leaves_nothing(path):
    with Lock(path) as lock:
        assert lock.held
        assert path.is_dir()
    assert not lock.held
    assert list(path.parent.iterdir()) == []


def test_is_given_up_after_an_error(path):
    with pytest.raises(ZeroDivisionError), Lock(path):
        raise ZeroDivisionError
    assert list(path.parent.iterdir()) == []


def test_says_who_holds_it(path):
    plant(path)
    told = []
    with pytest.raises(ArmstageError) as refused, Lock(path, wait=0.3, on_wait=told.append):
        pass
    assert "host `login2`, process 4242, since 2026-11-30T08:00:00Z" in refused.value.message
    assert "Waited 0 s" in refused.value.message
    assert refused.value.hint
    assert len(told) == 1
    assert "login2" in told[0]
    assert [entry.name for entry in path.parent.iterdir()] == [".lock"], "a waiter leaves nothing"


def test_a_killed_owner_on_this_host_is_replaced_at_once(path):
    child = holder(path)
    child.kill()
    child.wait()
    started = time.monotonic()
    with Lock(path, wait=5):
        assert time.monotonic() - started < 2


def test_a_zombie_counts_as_ended(path):
    child = holder(path)
    child.kill()
    time.sleep(0.2)  # not waited for: it stays in the process table
    with Lock(path, wait=5):
        pass
    child.wait()


@pytest.mark.parametrize(("age", "stale"), [(0, False), (60, False), (119, False), (121, True), (86400, True)])
def test_an_owner_elsewhere_is_judged_by_its_heartbeat(path, age, stale):
    plant(path, age=age)
    if stale:
        with Lock(path, wait=0.3):
            pass
    else:
        with pytest.raises(ArmstageError), Lock(path, wait=0.3):
            pass


@pytest.mark.parametrize(("text", "age", "stale"), [("", 0, False), ("{}", 121, True), ("garbage", 121, True)])
def test_an_owner_file_cut_short_by_a_power_cut(path, text, age, stale):
    plant(path, age=age, text=text)
    if stale:
        with Lock(path, wait=0.3):
            pass
    else:
        with pytest.raises(ArmstageError, match="left no name"), Lock(path, wait=0.3):
            pass


def test_a_dead_owner_with_a_time_stamp_in_the_future_is_replaced_in_the_end(path, monkeypatch):
    """A clock that was set back: by its time stamps that owner would live for another year."""
    plant(path, age=-365 * 86400)
    with pytest.raises(ArmstageError), Lock(path, wait=0.3):
        pass
    monkeypatch.setattr(locks, "STALE_AFTER", 0.5)
    with Lock(path, wait=5):
        pass


@pytest.mark.parametrize(("age", "stale"), [(5, False), (500, True)])
def test_what_a_dead_nfs_client_left_in_the_lock_holds_nobody_up(path, age, stale):
    path.mkdir(parents=True, exist_ok=True)
    leftover = path / ".nfs000000000a3c000200000001"
    leftover.touch()
    os.utime(leftover, (time.time() - age,) * 2)
    if stale:
        with Lock(path, wait=1):
            pass
        assert list(path.parent.iterdir()) == []
    else:
        with pytest.raises(ArmstageError), Lock(path, wait=0.3):
            pass


GONE = 2**22 + 1
"""Above the kernel's largest process number."""


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ({}, False),
        ({"pid": GONE}, True),
        ({"start": "1"}, True),
        ({"pid": GONE, "boot": "another"}, False),
        ({"pid": GONE, "namespace": "pid:[1]"}, False),
        ({"pid": GONE, "boot": ""}, False),
    ],
    ids=["alive", "ended", "number reused", "other boot", "other container", "no boot id"],
)
def test_which_owners_this_host_knows_to_be_gone(change, gone):
    assert replace(Owner.this_process(), **change).is_gone() is gone


def test_the_heartbeat_touches_the_owner_file(path, monkeypatch):
    monkeypatch.setattr(locks, "HEARTBEAT", 0.02)
    with Lock(path):
        file = next(path.iterdir())
        os.utime(file, (1, 1))
        deadline = time.monotonic() + 5
        while file.stat().st_mtime == 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert file.stat().st_mtime > 1


def test_a_suspended_owner_learns_that_it_lost_and_harms_nobody(path):
    with Lock(path) as first:
        os.utime(next(path.iterdir()), (1, 1))  # as if it had slept
        with Lock(path, wait=1) as second:
            assert first.lost
            assert not second.lost
            first.__exit__(None, None, None)
            assert not second.lost
            assert path.is_dir()


def test_what_killed_waiters_left_is_swept(path):
    plant(path.with_name(".lock.login9-17-abc"), age=500)
    plant(path.with_name(".lock.login9-18-def"), age=1)
    with Lock(path):
        pass
    assert [entry.name for entry in path.parent.iterdir()] == [".lock.login9-18-def"]


def test_without_a_folder_to_write_in(tmp_path):
    with (
        pytest.raises(ArmstageError, match=r"Failed to take the lock .*nowhere/.lock"),
        Lock(tmp_path / "nowhere" / ".lock"),
    ):
        pass


def count_up(path, counter, rounds):
    for _ in range(rounds):
        with Lock(path, wait=30):
            value = int(counter.read_text())
            time.sleep(0.001)
            counter.write_text(str(value + 1))


@pytest.mark.parametrize("stale", [False, True])
def test_only_one_at_a_time(path, tmp_path, stale):
    """Four processes; where ``stale`` they all find, and try to break, the same dead lock first."""
    if stale:
        plant(path, age=300)
    counter = tmp_path / "counter"
    counter.write_text("0")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=count_up, args=(path, counter, 15)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert counter.read_text() == "60"
    assert not path.exists()


def test_a_waiter_gets_it_when_the_owner_ends(path):
    child = holder(path)
    threading.Timer(0.5, child.send_signal, [signal.SIGKILL]).start()
    with Lock(path, wait=10) as lock:
        assert lock.held
        assert child.wait() == -signal.SIGKILL
