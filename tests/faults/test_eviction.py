"""Eviction of real files from the real page cache, as a user without rights."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.memory import residency
from ansible.module_utils.armstage.memory.evict import evict, find_files, measure

from .page_cache_host import NOBODY, as_child, cached_file, needs_root, real_disk

MIB = 1024 * 1024


@pytest.fixture
def disk():
    folder = real_disk()
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def resident(path):
    with path.open("rb") as file:
        return residency.resident_bytes(file.fileno(), path.stat().st_size)


def evicted(*paths):
    files, skipped = find_files([str(path) for path in paths])
    return {**evict(files, 60).as_dict(), "not_found": skipped}


def test_a_dirty_file_leaves_the_cache_and_its_neighbour_stays(disk):
    """256 MiB that no one has written out yet, evicted by their owner without a right to anything else."""
    model, neighbour = cached_file(disk / "model.safetensors", 256), cached_file(disk / "other", 16, synced=True)
    if os.geteuid() == 0:
        os.chown(model, NOBODY, NOBODY)
        os.chown(disk, NOBODY, NOBODY)
        result = as_child(lambda: evicted(model))
    else:
        result = evicted(model)
    assert result["resident_before_bytes"] == 256 * MIB
    assert result["resident_after_bytes"] < 0.05 * 256 * MIB
    assert resident(model) < 0.05 * 256 * MIB
    assert resident(neighbour) == 16 * MIB
    assert result["left"] == []


def test_what_is_evicted_can_be_read_again_unharmed(disk):
    path = cached_file(disk / "file", 4)
    content = path.read_bytes()
    evicted(path)
    assert resident(path) == 0
    assert path.read_bytes() == content


def test_measuring_changes_nothing(disk):
    path = cached_file(disk / "file", 8)
    files, _skipped = find_files([str(path)])
    for _time in range(2):
        assert measure(files).before == measure(files).after == 8 * MIB


def test_residency_is_counted_page_by_page_and_over_windows(disk, monkeypatch):
    path = cached_file(disk / "file", 8)
    os.truncate(path, 8 * MIB - 100)
    whole = resident(path)
    assert whole == 8 * MIB
    monkeypatch.setattr(residency, "WINDOW", MIB)
    assert resident(path) == whole
    evicted(path)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), residency.PAGE, 3 * MIB)
        assert residency.PAGE <= resident(path) < whole / 2


def test_pages_that_a_process_has_mapped_stay_and_the_process_is_named(disk):
    path = cached_file(disk / "weights", 8)
    hold = f"import mmap,time; f=open({str(path)!r},'rb'); m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ); "
    hold += f"sum(m[::{mmap.PAGESIZE}]); print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        (left,) = evicted(path)["left"]
    finally:
        holder.kill()
        holder.wait()
    assert left["resident_bytes"] == 8 * MIB
    assert left["reason"].startswith("mapped by `")
    assert f"(pid {holder.pid})" in left["reason"]
    assert evicted(path)["resident_after_bytes"] == 0


def test_memory_that_is_the_only_copy_is_said_to_be():
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK):
        pytest.skip("/dev/shm is not there")
    path = cached_file(shm / f"armstage-test-{os.getpid()}", 2)
    try:
        result = evicted(path)
    finally:
        path.unlink()
    assert result["files"] == 0
    assert result["not_found"] == [(str(path), "its filesystem is tmpfs: memory is the only copy")]


@needs_root
def test_a_strangers_file_is_evicted_but_not_measured(disk):
    """mincore claims every page of it resident, so its word is not taken."""
    path = cached_file(disk / "theirs", 4, synced=True)
    result = as_child(lambda: evicted(path))
    assert (result["files"], result["unmeasured_files"], result["resident_before_bytes"]) == (1, 1, 0)
    assert resident(path) == 0


@needs_root
def test_a_file_that_may_not_be_read_is_named(disk):
    path = cached_file(disk / "secret", 1, synced=True)
    path.chmod(0o600)
    result = as_child(lambda: evicted(path))
    assert result["skipped"] == [{"path": str(path), "reason": "Permission denied"}]
    assert resident(path) == MIB


@needs_root
def test_a_folder_that_may_not_be_read_is_named(disk):
    (disk / "closed").mkdir(mode=0o700)
    result = as_child(lambda: evicted(disk))
    assert result["not_found"] == [[str(disk / "closed"), "Permission denied"]]


def test_a_folder_is_walked_each_file_once_and_nothing_but_files_opened(disk):
    """A model cache: names that link to blobs, a hard link, a pipe that would hang, a link to nowhere."""
    blobs, snapshot = disk / "blobs", disk / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    blob = cached_file(blobs / "abc", 2)
    (snapshot / "model").symlink_to(blob)
    os.link(blob, snapshot / "again")
    os.mkfifo(snapshot / "pipe")
    (snapshot / "gone").symlink_to("/nonexistent")
    (snapshot / "empty").touch()
    begin = time.monotonic()
    result = evicted(disk / "snapshots")
    assert time.monotonic() - begin < 5
    assert (result["files"], result["resident_before_bytes"], result["resident_after_bytes"]) == (1, 2 * MIB, 0)
    reasons = {os.path.basename(path): reason for path, reason in result["not_found"]}
    assert reasons == {"pipe": "not a regular file", "gone": "No such file or directory"}


def test_a_name_that_is_not_text_survives_json(disk):
    path = os.fsencode(disk) + b"/caf\xe9"
    with open(path, "wb") as file:
        file.write(b"x" * 8192)
    os.mkfifo(os.fsencode(disk) + b"/\xff")
    files, skipped = find_files([str(disk)])
    assert len(files) == 1
    result = evict(files, -1).as_dict()
    assert result["skipped"] == [{"path": f"{disk}/caf\\xe9", "reason": "the time limit was reached before it"}]
    assert len(skipped) == 1


def test_a_path_that_is_not_there_is_an_error(disk):
    with pytest.raises(ArmstageError, match=r"^Failed to find .* `.*/typo`: No such file or directory$"):
        find_files([str(disk / "typo")])
