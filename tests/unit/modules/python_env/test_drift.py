"""What was changed in place is rebuilt beside it; an environment that is removed."""

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


def test_an_environment_is_removed(run, root):
    run()
    run(tag="other")
    predicted = run(state="absent", check=True, python=None, requirements=None)
    result = run(state="absent", python=None, requirements=None)
    assert result["actions"] == predicted["actions"] != []
    assert os.listdir(root / "envs") == ["other"]
    assert [name.startswith("env-other-") for name in store(root)] == [True]
    assert not run(state="absent", python=None, requirements=None)["changed"]
