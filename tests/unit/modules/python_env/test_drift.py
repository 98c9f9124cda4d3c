"""What was changed in place is rebuilt beside it; an environment that is removed."""

import json
import os
import shutil
from pathlib import Path

import pytest

from .looking import env, site, store


def replace_torch(root):
    """What pip does that installs another torch over the one that is there."""
    shutil.rmtree(site(root) / "torch-2.11.0.dist-info")
    info = site(root) / "torch-2.10.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.10.0\n")


def add_package(root):
    info = site(root) / "tqdm-4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tqdm\nVersion: 4\n")


def cut_short(root):
    path = site(root) / "torch/version.py"
    path.unlink()
    path.write_text("")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (replace_torch, "torch was 2.11.0 and is 2.10.0"),
        (add_package, "tqdm was absent and is 4"),
        (cut_short, "bytes when it was published"),
        (lambda root: (site(root) / "torch/lib/libtorch.so").unlink(), "files with"),
        (lambda root: shutil.rmtree(site(root)), "Failed to list"),
        (lambda root: shutil.rmtree(site(root) / "tool-1.0.dist-info"), "tool was 1.0 and is absent"),
        (lambda root: (env(root) / "bin/python").unlink(), "files with"),
    ],
)
def test_what_was_changed_in_place_is_rebuilt_beside_it(run, root, change, words):
    first = run()
    change(root)
    predicted = run(check=True)
    result = run()
    assert result["changed"]
    assert words in result["drift"]
    assert predicted["actions"] == result["actions"]
    assert result["actions"][0].startswith(f"replace ../store/{Path(first['release']['path']).name}: ")
    assert result["release"]["path"] != first["release"]["path"]
    assert Path(first["release"]["path"]).exists()
    assert env(root).resolve() == Path(result["release"]["path"]).resolve()
    assert not run()["changed"]


@pytest.fixture
def own_cache(tmp_path):
    """A cache of this test alone, which it spoils."""
    return str(tmp_path / "cache")


def test_an_edit_that_went_through_to_uv_s_cache_is_not_staged_again(run, root, own_cache):
    """The file is linked from there: whoever writes into it, here or in an environment of his own, writes into both."""
    run(cache_dir=own_cache)
    good = (site(root) / "torch/version.py").read_text()
    with open(site(root) / "torch/version.py", "a") as file:
        file.write("# patched by hand\n")
    result = run(cache_dir=own_cache)
    assert result["changed"]
    assert (site(root) / "torch/version.py").read_text() == good
    assert not run(cache_dir=own_cache)["changed"]


def test_an_edit_elsewhere_that_went_through_to_uv_s_cache_is_not_staged(run, root, own_cache):
    run(cache_dir=own_cache, tag="other")
    with open(site(root, tag="other") / "tool.py", "a") as file:
        file.write("# patched by hand\n")
    run(cache_dir=own_cache)
    assert "patched" not in (site(root) / "tool.py").read_text()


def test_an_edit_in_uv_s_cache_is_said_without_network(run, root, own_cache):
    run(cache_dir=own_cache)
    with open(site(root) / "torch/version.py", "a") as file:
        file.write("# patched by hand\n")
    result = run(cache_dir=own_cache, offline=True)
    assert result["msg"].startswith("uv's cache holds a file that was edited in place: `torch/version.py` of torch has")
    assert "uv cache clean torch" in result["hint"]
    assert store(root) == [Path(os.readlink(env(root))).name]


@pytest.mark.parametrize(
    "change", [{"installed": None}, {"installed": ["torch"]}, {"unhashed": None}, {"origins": [1]}, {"library_dirs": 5}]
)
def test_a_record_edited_into_something_else_is_none(run, change):
    first = run()
    record = Path(first["release"]["path"]) / ".armstage.json"
    content = json.loads(record.read_text())
    record.write_text(json.dumps({**content, "extra": {**content["extra"], **change}}))
    predicted, result = run(check=True), run()
    assert predicted["actions"] == result["actions"] != []
    assert not run()["changed"]


@pytest.mark.parametrize("lost", ["link", "manifest"])
def test_what_lies_beside_an_environment_is_put_right_without_uv(run, root, lost):
    run()
    (env(root) if lost == "link" else root / "manifest.json").unlink()
    assert run(uv="/no/such/uv")["changed"]
    assert not run()["changed"]


def test_a_folder_where_the_link_belongs_is_not_touched(run, root):
    (root / "envs/cu130").mkdir(parents=True)
    result = run(check=True)
    assert result["msg"] == f"Expected a symbolic link or nothing at `{root}/envs/cu130`, but found a file or folder"
    assert run()["msg"] == result["msg"]
    assert os.listdir(root) == ["envs"]


@pytest.mark.parametrize("check", [True, False])
def test_a_file_where_the_folder_of_the_link_belongs_is_said_before_anything_is_done(run, root, check):
    root.mkdir()
    (root / "envs").write_text("x")
    assert run(check=check)["msg"] == f"Expected a folder or nothing at `{root}/envs`, but found a file"
    assert os.listdir(root) == ["envs"]


def test_an_environment_is_removed(run, root):
    run()
    run(tag="other")
    predicted = run(state="absent", check=True, python=None, requirements=None)
    result = run(state="absent", python=None, requirements=None)
    assert result["actions"] == predicted["actions"] != []
    assert os.listdir(root / "envs") == ["other"]
    assert [name.startswith("env-other-") for name in store(root)] == [True]
    assert not run(state="absent", python=None, requirements=None)["changed"]
