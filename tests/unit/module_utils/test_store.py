"""The store: what is published, what is noticed, what may go, and what manifest.json says of it."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.files import point_link
from ansible.module_utils.armstage.staging.in_use import open_folders
from ansible.module_utils.armstage.staging.publish import (
    Store,
    manifest,
    read_manifest,
    relative_target,
    write_manifest,
)
from ansible.module_utils.armstage.staging.record import RECORD, Release, read_release
from ansible.module_utils.armstage.staging.survey import survey, what_is_wrong
from hypothesis import given
from hypothesis import strategies as st


def a_release(version="1.0", name="uv", day=1, **changes):
    return replace(
        Release(
            name=name,
            version=version,
            digest=version.encode().hex().ljust(64, "0"),
            source={"kind": "pypi", "url": f"pypi:{name}", "sha256": "ab" * 32},
            created=f"2026-11-{day:02}T00:00:00Z",
            run="run-7",
            elf={"aarch64": 1},
        ),
        **changes,
    )


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "root")


def put(store, release=None, content=b"program"):
    """Publish a release that holds bin/tool and a link to it."""
    release = release or a_release()
    with store.lock(), store.begin(release.name) as partial:
        (partial / "bin").mkdir()
        (partial / "bin" / "tool").write_bytes(content)
        (partial / "bin" / "tool").chmod(0o755)
        (partial / "tool").symlink_to("bin/tool")
        return store.publish(partial, release)


def link(store, where, target):
    path = store.root / where
    path.parent.mkdir(parents=True, exist_ok=True)
    with store.lock():
        point_link(path, relative_target(path, target))


def fail_inside(store):
    with store.begin("uv") as partial:
        (partial / "half").write_text("half")
        raise ZeroDivisionError


def names(store):
    return sorted(entry.name for entry in store.store.iterdir())


def test_an_empty_root_reads_as_empty(store):
    assert store.releases("uv") == []
    assert manifest(store.root) == {"schema": 1, "releases": [], "links": {}}
    assert not store.root.exists()


def test_a_release_is_what_was_published(store):
    path = put(store)
    assert path == store.release_path("uv", "1.0", a_release().digest)
    assert path.name == "uv-1.0-312e30000000"
    (found,) = store.releases("uv")
    assert found == a_release(size=7, files=2, tree=found.tree, path=path)
    assert what_is_wrong(found) == ""
    assert names(store) == [path.name]


def test_releases_come_newest_first_and_by_name(store):
    for version, day in (("1.0", 3), ("2.0", 1), ("3.0", 2)):
        put(store, a_release(version, day=day))
    put(store, a_release("9.9", name="uv-extras"))
    assert [release.version for release in store.releases("uv")] == ["1.0", "3.0", "2.0"]


@pytest.mark.parametrize("text", ["", "{", "[]", '"text"', "{}", '{"name": "uv"}', "null"])
def test_a_folder_without_a_whole_record_is_no_release(store, text):
    path = put(store)
    (path / RECORD).write_text(text)
    assert store.releases("uv") == []


def test_records_of_later_versions_can_be_read(store):
    path = put(store)
    content = json.loads((path / RECORD).read_text())
    (path / RECORD).write_text(json.dumps({**content, "added_later": 1}))
    assert store.releases("uv")[0].version == "1.0"


def test_how_long_it_took_is_on_record_where_it_is_known(store):
    known, unknown = put(store, a_release("1.0", seconds=74.2)), put(store, a_release("2.0"))
    assert [release.seconds for release in store.releases("uv")] == [None, 74.2]
    assert "seconds" not in json.loads((unknown / RECORD).read_text())
    listed = {entry["version"]: entry.get("seconds", "none") for entry in read_manifest(store.root)["releases"]}
    assert listed == {"1.0": 74.2, "2.0": "none"}
    assert not write_manifest(store.root)
    (known / RECORD).write_text((known / RECORD).read_text().replace("74.2", '"a minute"'))
    assert [release.version for release in store.releases("uv")] == ["2.0"]


def test_a_failed_making_leaves_nothing(store):
    with store.lock():
        with pytest.raises(ZeroDivisionError):
            fail_inside(store)
        assert not [name for name in names(store) if name != ".lock"]
    assert not (store.root / "manifest.json").exists()


def test_what_dead_processes_left_is_swept(store):
    put(store)
    for leftover in (".partial-uv-login1-77-ab12cd34", ".removed-uv-0.9-00aa"):
        (store.store / leftover / "deep").mkdir(parents=True)
        (store.store / leftover / "deep" / "file").write_text("x")
        (store.store / leftover / "deep").chmod(0o500)
    with store.lock(), store.begin("uv"):
        pass
    assert names(store) == ["uv-1.0-312e30000000"]


def test_only_the_holder_of_the_lock_changes_the_store(store):
    path = put(store)
    for change in (lambda: store.begin("uv").__enter__(), lambda: store.remove(read_release(path))):
        with pytest.raises(RuntimeError, match="lock"):
            change()
    with store.lock() as lock:
        shutil.rmtree(lock.path)
        with pytest.raises(ArmstageError, match="taken over while this run was suspended"):
            store.remove(read_release(path))
    assert path.is_dir()


def test_the_same_release_already_there_wins(store):
    path = put(store)
    inode = (path / "bin/tool").stat().st_ino
    assert put(store, a_release(day=9)) == path
    assert (path / "bin/tool").stat().st_ino == inode
    assert store.releases("uv")[0].created == "2026-11-01T00:00:00Z"


@pytest.mark.parametrize("harm", ["no record", "file gone", "other options"])
def test_what_is_not_that_release_is_replaced(store, harm):
    path = put(store)
    release = a_release()
    if harm == "no record":
        (path / RECORD).unlink()
    elif harm == "file gone":
        (path / "bin/tool").unlink()
    else:
        release = a_release(extra={"recipe": 2})
    assert put(store, release) == path
    assert what_is_wrong(store.releases("uv")[0]) == ""
    assert store.releases("uv")[0].extra == release.extra
    assert names(store) == [path.name]


def test_everyone_can_read_it_whatever_the_umask(store):
    before = os.umask(0o077)
    try:
        path = put(store)
    finally:
        os.umask(before)
    for folder in (store.root, store.store, path):
        assert folder.stat().st_mode & 0o755 == 0o755
    for file in (path / RECORD, store.root / "manifest.json"):
        assert file.stat().st_mode & 0o444 == 0o444


# What a survey notices.

HARMS = {
    "file gone": lambda path: (path / "bin/tool").unlink(),
    "file cut short": lambda path: os.truncate(path / "bin/tool", 3),
    "file added": lambda path: (path / "bin/extra").write_text(""),
    "not executable": lambda path: (path / "bin/tool").chmod(0o644),
    "link turned": lambda path: (path / "tool").unlink() or (path / "tool").symlink_to("bin"),
    "link became a file": lambda path: (path / "tool").unlink() or (path / "tool").write_text("x"),
    "folder gone": lambda path: shutil.rmtree(path / "bin"),
    "renamed": lambda path: (path / "bin/tool").rename(path / "bin/tools"),
}

HARMLESS = {
    "bytecode": lambda path: (path / "bin/__pycache__").mkdir() or (path / "bin/__pycache__/a.pyc").write_text("x"),
    "group may write": lambda path: (path / "bin/tool").chmod(0o775),
    "touched": lambda path: os.utime(path / "bin/tool", (1, 1)),
    "NFS keeps a deleted file": lambda path: (path / "bin/.nfs000000001").write_text("x"),
    "empty folder": lambda path: (path / "empty").mkdir(),
}


@pytest.mark.parametrize("harm", HARMS)
def test_damage_is_noticed(store, harm):
    path = put(store)
    HARMS[harm](path)
    assert str(path) in what_is_wrong(store.releases("uv")[0])


@pytest.mark.parametrize("change", HARMLESS)
def test_what_running_it_changes_is_no_damage(store, change):
    path = put(store)
    HARMLESS[change](path)
    assert what_is_wrong(store.releases("uv")[0]) == ""


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..", "__pycache__", RECORD) and not name.startswith(".nfs")
)


@given(st.dictionaries(NAMES, st.integers(0, 4096), min_size=1, max_size=5), st.data())
def test_any_file_missing_or_of_another_size_changes_the_survey(tmp_path_factory, files, data):
    folder = tmp_path_factory.mktemp("any")
    for name, size in files.items():
        (folder / name).write_bytes(bytes(size))
    before = survey(folder)
    assert (before.files, before.size) == (len(files), sum(files.values()))
    victim = folder / data.draw(st.sampled_from(sorted(files)))
    if data.draw(st.booleans()):
        victim.unlink()
    else:
        os.truncate(victim, files[victim.name] + 1)
    assert survey(folder).tree != before.tree


# Which releases may go.


THREE = pytest.mark.usefixtures("three")


@pytest.fixture
def three(store):
    """Releases 1.0, 2.0, 3.0, the last the newest and linked."""
    for day, version in enumerate(("1.0", "2.0", "3.0"), 1):
        newest = put(store, a_release(version, day=day))
    link(store, "bin/uv-aarch64", newest / "bin" / "tool")
    return {release.version: release.path for release in store.releases("uv")}


def pruned(store, keep, protected=()):
    with store.lock():
        return [release.version for release in store.prune("uv", keep, protected)]


@pytest.mark.parametrize(("keep", "gone"), [(0, ["2.0", "1.0"]), (1, ["1.0"]), (2, []), (9, [])])
def test_keeps_the_newest_of_what_nothing_needs(store, three, keep, gone):
    assert pruned(store, keep) == gone
    assert sorted(set(three) - set(gone)) == sorted(release.version for release in store.releases("uv"))
    assert [entry["version"] for entry in read_manifest(store.root)["releases"]] == sorted(set(three) - set(gone))


@pytest.mark.parametrize("where", ["old", "bin/old", "envs/old", "python/old"])
def test_never_one_that_a_link_names(store, three, where):
    link(store, where, three["1.0"] / "bin")
    assert pruned(store, 0) == ["2.0"]


def test_never_one_that_another_release_links_to(store, three):
    environment = put(store, a_release(name="env"))
    (environment / "bin" / "python").symlink_to(f"../../{three['1.0'].name}/bin/tool")
    assert pruned(store, 0) == ["2.0"]


def test_never_one_that_is_protected(store, three):
    assert pruned(store, 0, [three["1.0"]]) == ["2.0"]


@THREE
def test_a_link_that_leads_out_of_the_store_protects_nothing(store):
    (store.root / "bin" / "sh").symlink_to("/bin/sh")
    (store.root / "bin" / "dangling").symlink_to("nowhere")
    assert pruned(store, 0) == ["2.0", "1.0"]


def open_file(path):
    return {"args": ["sh", "-c", 'exec sleep 60 < "$0"', path / "bin" / "tool"]}


def work_in(path):
    return {"args": ["sleep", "60"], "cwd": path / "bin"}


def run_from(path):
    shutil.copy("/bin/sleep", path / "bin" / "sleep")
    return {"args": [path / "bin" / "sleep", "60"]}


def map_file(path):
    code = (
        "import mmap, sys, time; file = open(sys.argv[1], 'rb');"
        "held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); file.close(); time.sleep(60)"
    )
    return {"args": [sys.executable, "-c", code, path / "bin" / "tool"]}


@pytest.mark.parametrize("use", [open_file, work_in, run_from, map_file])
def test_never_one_that_a_process_has_open(store, three, use):
    options = use(three["1.0"])
    child = subprocess.Popen(options.pop("args"), **options)
    try:
        deadline = time.monotonic() + 10
        while three["1.0"].name not in open_folders(store.store) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert pruned(store, 0) == ["2.0"]
    finally:
        child.kill()
        child.wait()
    assert pruned(store, 0) == ["1.0"]


# Links and manifest.json.


@THREE
def test_links_stay_right_when_the_root_is_mounted_elsewhere(store, tmp_path):
    moved = tmp_path / "mounted" / "elsewhere"
    moved.parent.mkdir()
    store.root.rename(moved)
    assert (moved / "bin/uv-aarch64").read_bytes() == b"program"
    assert manifest(moved) == read_manifest(moved)


def test_the_manifest_is_true_after_every_change(store):
    assert not (store.root / "manifest.json").exists()
    with store.lock(), store.begin("uv") as partial:
        (partial / "file").write_text("x")
        path = store.publish(partial, a_release())
        (store.root / "bin").mkdir()
        point_link(store.root / "bin/uv-aarch64", f"../store/{path.name}/file")
    assert read_manifest(store.root) == {
        "schema": 1,
        "links": {"bin/uv-aarch64": "../store/uv-1.0-312e30000000/file"},
        "releases": [{**store.releases()[0].record(), "path": "store/uv-1.0-312e30000000"}],
    }
    with store.lock():
        store.remove(store.releases()[0])
        (store.root / "bin/uv-aarch64").unlink()
    assert read_manifest(store.root) == {"schema": 1, "releases": [], "links": {}}


@THREE
def test_the_manifest_is_written_only_when_it_changes(store):
    file = store.root / "manifest.json"
    os.utime(file, (1, 1))
    with store.lock():
        pass
    assert file.stat().st_mtime == 1
    assert not write_manifest(store.root)
    file.write_text("{ not json")
    assert write_manifest(store.root)
    assert read_manifest(store.root) == manifest(store.root)
