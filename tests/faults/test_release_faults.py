"""Staging that is killed, crowded, out of room or without the right to write: complete or absent at any moment."""

import ctypes
import hashlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging import space, unpack
from ansible.module_utils.armstage.staging.desired import Desired, Source
from ansible.module_utils.armstage.staging.progress import Reporter
from ansible.module_utils.armstage.staging.publish import Store, manifest
from ansible.module_utils.armstage.staging.record import read_manifest, read_release
from ansible.module_utils.armstage.staging.release import act, observe, predict
from ansible.module_utils.armstage.staging.survey import what_is_wrong
from ansible.module_utils.armstage.staging.unpack import Layout

from .page_cache_host import CLONE_NEWNS, as_child, mount_read_only, needs_mounts, needs_root

CHANGES = frozenset(
    f"os.{call}" for call in ("rename", "mkdir", "rmdir", "remove", "link", "symlink", "chmod", "utime", "truncate")
)
"""Python's audit events that come before a change of the filesystem; `open` for writing is one more."""


def is_change(event, arguments):
    if event == "open":
        return isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    return event in CHANGES


@pytest.fixture
def root(tmp_path):
    """A root in memory where there is such a folder: the points in time matter here, not the disk's speed."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path / "root"
        return
    folder = tempfile.mkdtemp(prefix="armstage-test-", dir="/dev/shm")
    yield Path(folder) / "root"
    shutil.rmtree(folder)


def archive(folder, version, files=6, size=2000):
    """A release's archive on this disk; the Source that names it."""
    chance = random.Random(version)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for number in range(files):
            info = tarfile.TarInfo(f"d/lib{number % 3}/file{number}" if number else "d/tool")
            info.size = size
            tar.addfile(info, io.BytesIO(chance.randbytes(size)))
        link = tarfile.TarInfo("d/link")
        link.type, link.linkname = tarfile.SYMTYPE, "tool"
        tar.addfile(link)
    path = folder / f"{version}.tar.gz"
    path.write_bytes(buffer.getvalue())
    return Source(str(path), sha256=hashlib.sha256(buffer.getvalue()).hexdigest(), layout=Layout(strip_components=1))


def wish(root, source, version="1.0", **options):
    return Desired("tool", version, root, (source,), {"bin/tool": "tool"}, keep=0, **options)


def stage(desired):
    """A run as the module makes it."""
    done = predict(desired)
    return act(desired, done, Reporter()) if done.plan.changes else done


def require_whole(root):
    """Whatever can be seen under the root is whole: each release, and what each link leads to."""
    store = root / "store"
    for folder in store.iterdir() if store.exists() else ():
        if not folder.name.startswith("."):
            release = read_release(folder)
            assert release is not None, f"{folder} was visible without its record"
            assert what_is_wrong(release) == ""
    for link in (root / "bin").iterdir() if (root / "bin").exists() else ():
        if not link.name.startswith("."):
            assert link.is_symlink()
            assert link.exists(), f"{link} led nowhere"


def require_finished(root, desired):
    """The component is as it was wanted, and nothing is left of runs that did not end."""
    assert not predict(desired).plan.changes
    assert [release.version for release in Store(root).releases()] == [desired.version]
    left = {str(path.relative_to(root)) for path in [*root.glob("*"), *root.glob("*/*")]}
    folder = Store(root).releases()[0].path.name
    left = {path for path in left if not path.startswith("cache/") or path.endswith(".part")}
    left = {path for path in left if not path.startswith("store/.lock")}  # a dead lock waits for the next that needs it
    assert left == {"bin", "bin/tool", "cache", "manifest.json", "store", f"store/{folder}"}
    assert read_manifest(root) == manifest(root)


def let_two_minutes_pass(root):
    """Waiters that were killed before they wrote who they are can only be told by their age."""
    for folder in (root / "store").glob(".lock.*"):
        if not any(file.stat().st_size for file in folder.iterdir()):
            for path in (folder, *folder.iterdir()):
                os.utime(path, (time.time() - 121,) * 2)


# Killed.


def in_child(work):
    """Start ``work`` in a forked child; returns its process number."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def killed_before(number, work):
    """Run ``work`` in a child that is killed before its ``number``-th change; whether it got that far."""

    def count_down(event, arguments):
        nonlocal number
        if is_change(event, arguments):
            number -= 1
            if number < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def watched():
        sys.addaudithook(count_down)
        work()

    return os.WIFSIGNALED(os.waitpid(in_child(watched), 0)[1])


def fresh(root, _sources):
    shutil.rmtree(root, ignore_errors=True)


def upgrade(root, sources):
    fresh(root, sources)
    stage(wish(root, sources["0.9"], "0.9"))


def repair(root, sources):
    fresh(root, sources)
    stage(wish(root, sources["1.0"]))
    next((root / "store").glob("tool-1.0-*/lib1/*")).unlink()


@pytest.mark.parametrize("begin", [fresh, upgrade, repair])
def test_killed_before_each_change(root, tmp_path, begin):
    """Every point at which a run can stop, one after another, until it gets through."""
    sources = {version: archive(tmp_path, version) for version in ("0.9", "1.0")}
    desired = wish(root, sources["1.0"])
    number, got_through = 0, False
    while not got_through:
        begin(root, sources)
        got_through = not killed_before(number, lambda: stage(desired))
        if begin is not repair:
            require_whole(root)
        let_two_minutes_pass(root)
        stage(desired)
        require_whole(root)
        require_finished(root, desired)
        number += 1
    assert number > 40


def test_killed_at_random_moments_and_never_half_visible(root, tmp_path):
    """Kills in the middle of writes too, with somebody looking all the time."""
    desired = wish(root, archive(tmp_path, "1.0", files=60, size=200_000))
    started = time.monotonic()
    os.waitpid(in_child(lambda: stage(desired)), 0)
    whole = time.monotonic() - started
    chance = random.Random(7)
    kills = 0
    for _ in range(12):
        fresh(root, None)
        child = in_child(lambda: stage(desired))
        end = time.monotonic() + chance.uniform(0, whole)
        while time.monotonic() < end:
            require_whole(root)
        os.kill(child, signal.SIGKILL)
        kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        require_whole(root)
        stage(desired)
        require_finished(root, desired)
    assert kills > 3


# Crowded.


def test_runs_at_the_same_time_stage_it_once(root, tmp_path):
    desired = wish(root, archive(tmp_path, "1.0", files=30, size=50_000))
    told = tmp_path / "told"

    def one():
        done = stage(desired)
        with told.open("a") as file:
            file.write(f"{done.plan.publish} {done.release.path}\n")

    for child in [in_child(one) for _ in range(4)]:
        assert os.waitpid(child, 0)[1] == 0
    lines = told.read_text().split("\n")[:-1]
    assert len(lines) == 4, "every run ended well"
    assert sum(line.startswith("True") for line in lines) == 1
    assert len({line.split()[1] for line in lines}) == 1
    require_finished(root, desired)


def test_components_staged_at_the_same_time_are_all_listed(root, tmp_path):
    wishes = [
        Desired(f"part{number}", "1.0", root, (archive(tmp_path, f"{number}"),), {f"bin/part{number}": "tool"})
        for number in range(5)
    ]
    for child in [in_child(lambda desired=desired: stage(desired)) for desired in wishes]:
        os.waitpid(child, 0)
    assert [entry["name"] for entry in read_manifest(root)["releases"]] == [f"part{number}" for number in range(5)]
    assert read_manifest(root) == manifest(root)
    assert not any(predict(desired).plan.changes for desired in wishes)


# No room.


def mount_small(folder, size):
    """A filesystem of that size, for this process and its children alone."""
    assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) == 0
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder], check=True)


def failure(desired, stage=stage):
    try:
        stage(desired)
    except ArmstageError as error:
        return error.message
    return ""


@needs_mounts
@pytest.mark.parametrize("room", ["2M", "3500k"], ids=["full while downloading", "full while unpacking"])
def test_a_disk_that_fills_up_meanwhile(root, tmp_path, room):
    """The check beforehand is passed; then somebody else takes the room."""
    desired = wish(root, archive(tmp_path, "1.0", files=10, size=250_000))
    root.mkdir()

    def run():
        space.MARGIN = unpack.MARGIN = -(2**40)
        said = failure(desired)
        require_whole(root)
        left = os.listdir(root / "store") + [name for name in os.listdir(root / "cache") if name.endswith(".part")]
        subprocess.run(["mount", "-o", "remount,size=40M", root], check=True)
        stage(desired)
        require_finished(root, desired)
        return [said, left]

    said, left = as_child(run, user=0, before=lambda: mount_small(root, room))
    assert said.startswith("The disk was full in")
    assert left == []


@needs_mounts
def test_too_little_room_is_said_before_anything_is_written(root, tmp_path):
    desired = wish(root, archive(tmp_path, "1.0"))
    root.mkdir()

    def run():
        return [failure(desired, predict), failure(desired), os.listdir(root)]

    asked, said, left = as_child(run, user=0, before=lambda: mount_small(root, "1M"))
    assert asked.startswith("Not enough space in")
    assert said == asked
    assert left == []


# No right to write.


@needs_mounts
def test_a_second_run_on_a_read_only_root(root, tmp_path):
    desired = wish(root, archive(tmp_path, "1.0"))
    stage(desired)

    def run():
        with pytest.raises(OSError, match="Read-only file system"):
            (root / "probe").touch()
        done = stage(desired)
        return [done.plan.changes, done.observed.current.version]

    assert as_child(run, user=0, before=lambda: mount_read_only(root)) == [False, "1.0"]


@needs_mounts
def test_a_change_on_a_read_only_root_is_explained(root, tmp_path):
    stage(wish(root, archive(tmp_path, "0.9"), "0.9"))
    desired = wish(root, archive(tmp_path, "1.0"))
    asked, said = as_child(
        lambda: [failure(desired, predict), failure(desired)], user=0, before=lambda: mount_read_only(root)
    )
    assert asked == said == f"Failed to write in `{root}`: Read-only file system"


@needs_root
def test_a_root_of_somebody_else_is_explained(root, tmp_path):
    for folder in [root.parent, tmp_path, *tmp_path.parents][:4]:
        folder.chmod(0o755)
    root.mkdir(mode=0o755)
    desired = wish(root, archive(tmp_path, "1.0"))
    asked, said = as_child(lambda: [failure(desired, predict), failure(desired)])
    assert asked == said
    assert said.startswith(f"Failed to write in `{root}`: Permission denied for user `")


def test_a_root_that_links_to_nowhere_is_explained_before_anything_is_written(root, tmp_path):
    root.symlink_to("nowhere")
    desired = wish(root, archive(tmp_path, "1.0"))
    said = f"Failed to write in `{root}`: it is a link to `nowhere`, which is not there"
    assert failure(desired, predict) == failure(desired) == said


@needs_root
def test_anybody_may_use_and_check_what_root_staged(root, tmp_path):
    for folder in [root.parent, tmp_path, *tmp_path.parents][:4]:
        folder.chmod(0o755)
    before = os.umask(0o077)
    try:
        desired = wish(root, archive(tmp_path, "1.0"))
        stage(desired)
    finally:
        os.umask(before)
    assert as_child(lambda: [predict(desired).plan.changes, (root / "bin/tool").stat().st_size]) == [False, 2000]


def test_a_second_run_changes_no_time_stamp(root, tmp_path):
    desired = wish(root, archive(tmp_path, "1.0"))
    stage(desired)
    paths = [root, *root.rglob("*")]
    before = [(path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for path in paths]
    assert not stage(desired).plan.changes
    assert [root, *root.rglob("*")] == paths
    assert [(path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for path in paths] == before
    assert observe(desired).listed
