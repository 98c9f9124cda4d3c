"""What is damaged, missing, left over or made with other options is put right."""

import json
import shutil

import pytest
from ansible.module_utils.armstage.staging.publish import Store, manifest
from ansible.module_utils.armstage.staging.record import read_manifest

from .looking import same, store


def test_a_release_with_a_file_missing_is_staged_again(stage, staged, root):
    given, folder = staged
    (folder / "lib/libx.so.1").unlink()
    predicted = stage(given, check=True)
    assert not (folder / "lib/libx.so.1").exists()
    assert predicted["diff"]["before"] == f"bin/uv-aarch64 -> ../store/{folder.name}/uv\nstore/{folder.name} (unfit)\n"
    assert predicted["diff"]["after"] == f"bin/uv-aarch64 -> ../store/{folder.name}/uv\nstore/{folder.name}\n"
    assert "held 3 files" in predicted["actions"][0]
    assert same(predicted, stage(given))
    assert (folder / "lib/libx.so.1").exists()
    assert store(root) == [folder.name]
    assert not stage(given)["changed"]


def test_a_folder_without_a_record_is_replaced(stage, staged, root):
    given, folder = staged
    shutil.rmtree(folder)
    (folder / "lib").mkdir(parents=True)
    assert stage(given)["changed"]
    assert (folder / "uv").exists()
    assert store(root) == [folder.name]


@pytest.mark.parametrize("kind", ["file", "link", "link to a folder", "dangling link"])
def test_what_is_no_folder_in_a_release_s_place_is_replaced(stage, staged, root, kind, tmp_path):
    given, release = staged
    shutil.rmtree(release)
    (tmp_path / "elsewhere").mkdir()
    targets = {"link": "/etc/passwd", "link to a folder": tmp_path / "elsewhere", "dangling link": "/no/such"}
    release.write_text("x") if kind == "file" else release.symlink_to(targets[kind])
    assert stage(given)["changed"]
    assert (root / "bin/uv-aarch64").read_bytes().startswith(b"\x7fELF")
    assert not stage(given)["changed"]
    assert store(root) == [release.name]
    assert (tmp_path / "elsewhere").is_dir()


@pytest.mark.parametrize("change", [{"source": None}, {"extra": []}, {"elf": "x"}, {"size": "1"}, {"version": 1}])
def test_a_record_edited_into_something_else_is_none(stage, staged, change):
    given, release = staged
    record = release / ".armstage.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}))
    assert "publish" in stage(given)["actions"][0]
    assert not stage(given)["changed"]


def test_a_damaged_release_is_replaced_from_another_source(stage, staged, source, program, root):
    given, folder = staged
    (folder / "uv").unlink()
    (root / "cache" / given["sha256"]).unlink()
    other = source(program("b"), "/b.tar.gz", kind="pypi")
    unreachable = {given["url"]: "offline"}
    predicted = stage(given, other, unreachable=unreachable, check=True)
    done = stage(given, other, unreachable=unreachable)
    assert same(predicted, done)
    assert store(root) == [f"uv-1.0-{other['sha256'][:12]}"]
    assert not stage(given, other)["changed"]


@pytest.mark.parametrize("change", ["link turned", "link gone", "link to nowhere"])
def test_links_are_put_right_without_any_source(stage, staged, root, server, change):
    given, folder = staged
    link = root / "bin/uv-aarch64"
    link.unlink()
    if change != "link gone":
        link.symlink_to("/bin/sh" if change == "link turned" else "nowhere")
    server.requests.clear()
    predicted = stage(given, check=True)
    assert predicted["actions"] == [f"point bin/uv-aarch64 to ../store/{folder.name}/uv"]
    assert same(predicted, stage(given))
    assert link.exists()
    assert server.requests == []
    assert read_manifest(root) == manifest(root)


@pytest.mark.parametrize(
    "content", [None, "{", '{"schema": 1, "releases": [], "links": {}}', '{"releases": null}', '{"links": []}']
)
def test_the_manifest_is_brought_up_to_date(stage, staged, root, content):
    given, _folder = staged
    (root / "manifest.json").unlink()
    if content is not None:
        (root / "manifest.json").write_text(content)
    predicted = stage(given, check=True)
    assert predicted["actions"] == ["bring manifest.json up to date"]
    assert same(predicted, stage(given))
    assert read_manifest(root) == manifest(root)
    assert not stage(given)["changed"]


@pytest.mark.parametrize("leftover", [".partial-uv-login1-77-ab12cd34", ".removed-uv-0.9-00aa"])
def test_what_an_interrupted_run_left_is_removed(stage, staged, root, leftover):
    given, _folder = staged
    (root / "store" / leftover / "half").mkdir(parents=True)
    predicted = stage(given, check=True)
    assert predicted["actions"] == [f"remove store/{leftover}, left by a run that was interrupted"]
    assert f"store/{leftover}\n" in predicted["diff"]["before"]
    assert f"store/{leftover}\n" not in predicted["diff"]["after"]
    assert same(predicted, stage(given))
    assert not (root / "store" / leftover).exists()
    assert not stage(given)["changed"]


def test_what_another_run_is_making_is_left_alone(stage, staged, root):
    given, _folder = staged
    with Store(root).lock():
        (root / "store" / ".partial-env-vm-1-ab12cd34").mkdir()
        assert not stage(given)["changed"]
    assert (root / "store" / ".partial-env-vm-1-ab12cd34").exists()


def test_other_options_make_another_release_of_the_same_archive(stage, staged, root):
    given, folder = staged
    changed = {**given, "into": "opt"}
    predicted = stage(changed, link_target="opt/uv", check=True)
    assert "was made with other options" in predicted["actions"][0]
    assert same(predicted, stage(changed, link_target="opt/uv"))
    assert (folder / "opt/uv").exists()
    assert store(root) == [folder.name]
    assert not stage(changed, link_target="opt/uv")["changed"]
