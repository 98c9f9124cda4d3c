"""The write to drop_caches, into stand-ins that work, refuse, hang or are missing; this host's cache stays."""

import json
import os
import shutil
import time

import pytest
from ansible.module_utils.armstage.memory import residency
from ansible.module_utils.armstage.memory.drop import DropError, drop, obstacle
from ansible.module_utils.armstage.memory.evict import find_files
from ansible.module_utils.armstage.memory.holders import gpu_holders

from .page_cache_host import (
    NOBODY,
    as_child,
    cached_file,
    in_namespace,
    mount_read_only,
    needs_mounts,
    needs_root,
    open_folder,
    real_disk,
)


@pytest.fixture
def target():
    root = open_folder()
    path = root / "proc/sys/vm/drop_caches"
    path.parent.mkdir(parents=True)
    path.write_text("0\n")
    yield path
    shutil.rmtree(root)


@pytest.fixture
def fake_sync(tmp_path, monkeypatch):
    """Put a program in the place of sync(1)."""

    def make(script):
        tool = tmp_path / "bin" / "sync"
        tool.parent.mkdir()
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")

    return make


def failure(target, mode="pagecache", timeout=5.0):
    with pytest.raises(DropError) as caught:
        drop(str(target), mode, timeout)
    return caught.value


@pytest.mark.parametrize(("mode", "digit"), [("pagecache", "1"), ("slab", "2"), ("all", "3")])
def test_exactly_one_digit_is_written(target, mode, digit):
    assert drop(str(target), mode, 10) == ("write", [])
    assert target.read_bytes() == digit.encode()


def test_sync_comes_before_the_write(target, fake_sync, tmp_path):
    fake_sync(f"echo sync saw $(cat {target}) >>{tmp_path}/log")
    drop(str(target), "pagecache", 10)
    assert (tmp_path / "log").read_text() == "sync saw 0\n"
    assert target.read_text() == "1"


def test_the_sync_is_a_real_one(target):
    """A file nobody wrote out is clean afterwards: all its pages can be evicted without another fdatasync."""
    folder = real_disk()
    path = cached_file(folder / "dirty", 16)
    drop(str(target), "pagecache", 60)
    (file,), _skipped = find_files([str(path)])
    with path.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert residency.resident_bytes(opened.fileno(), file.size) == 0
    path.unlink()
    folder.rmdir()


def test_a_sync_that_hangs_costs_its_time_limit_and_is_said(target, fake_sync):
    fake_sync("sleep 60")
    begin = time.monotonic()
    how, warnings = drop(str(target), "pagecache", 0.5)
    assert time.monotonic() - begin < 3
    assert (how, target.read_text()) == ("write", "1")
    assert warnings == ["`sync` did not end within 0.5 s: what is not yet written stays in memory"]


def test_a_write_that_hangs_is_given_up_and_said(target):
    target.unlink()
    os.mkfifo(target)
    begin = time.monotonic()
    error = failure(target, timeout=0.5)
    assert time.monotonic() - begin < 4
    assert error.reason == "hung"
    assert error.message == f"Writing `{target}` did not end within 0.5 s; the writing process was killed"
    assert "mode: pagecache" in error.hint


def test_a_missing_target(target):
    target.unlink()
    error = failure(target)
    assert (error.reason, error.message) == ("missing", f"Expected the kernel's `{target}`, but there is no such file")
    assert not target.exists()


def test_a_write_that_fails_names_the_reason(target):
    target.unlink()
    target.symlink_to("/dev/full")
    error = failure(target)
    assert (error.reason, error.message) == ("failed", f"Failed to write `{target}`: No space left on device")


def attempt(target):
    foreseen = obstacle(str(target), "pagecache")
    error = failure(target)
    return [error.reason, error.message, error.hint, foreseen.message]


@needs_root
def test_permission_denied_leads_to_root_the_role_or_eviction(target):
    target.chmod(0o200)
    reason, message, hint, foreseen = as_child(lambda: attempt(target))
    assert reason == "denied"
    assert message == foreseen == f"Failed to write `{target}`: permission denied for uid 65534"
    assert "become: true" in hint
    assert "role page_cache" in hint
    assert target.read_text() == "0\n"


@needs_mounts
@pytest.mark.parametrize("user", [0, NOBODY])
def test_a_read_only_mount_means_run_on_the_host(target, user):
    """As every container shows it, to root and to others: never `use sudo`."""
    reason, message, hint, foreseen = as_child(lambda: attempt(target), user, lambda: mount_read_only(target.parent))
    assert reason == "read-only"
    assert message == foreseen == f"Failed to write `{target}`: it is on a read-only mount, as in a container"
    assert hint.startswith("Run on the host: in a container the page cache can't be dropped")
    assert "sudo" not in hint


@needs_mounts
def test_a_process_with_a_real_device_open_is_found():
    """A device node named as NVIDIA's, in a /dev of its own, held open by a real process."""
    script = """
        mount -t tmpfs none /dev; mknod /dev/null c 1 3; mknod /dev/nvidia-uvm c 1 3
        sleep 30 </dev/nvidia-uvm >/dev/null 2>&1 & held=$!
        sleep 0.2
        "$PYTHON" -c 'import json; from armstage.memory.holders import *
print(json.dumps([holder.as_dict() for holder in gpu_holders().busy]))'
        echo $held; kill $held
    """
    found, pid = in_namespace(script).stdout.splitlines()
    (holder,) = json.loads(found)
    assert holder == {"pid": int(pid), "name": "sleep", "uid": 0, "devices": ["/dev/nvidia-uvm"], "busy": True}


@needs_root
def test_who_may_not_look_says_so():
    def look():
        holders = gpu_holders()
        return [holders.unseen, holders.hidden, holders.blind_spot]

    unseen, hidden, text = as_child(look)
    assert hidden or unseen > 0
    assert text.startswith("Other users' processes are hidden" if hidden else f"{unseen} process")


def test_what_stands_in_the_way_is_seen_before_the_write(target):
    assert obstacle(str(target), "pagecache") is None
    assert target.read_text() == "0\n"
