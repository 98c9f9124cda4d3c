"""Upgrades, old releases, and removal."""

import os

import pytest
from ansible.module_utils.armstage.staging.record import read_manifest

from .looking import same, store


def test_upgrades_move_the_link_and_keep_what_was_asked_for(stage, source, program, root):
    sources = {version: source(program(version), f"/{version}.tar.gz") for version in ("1.0", "2.0", "3.0")}
    for version, given in sources.items():
        predicted = stage(given, version=version, check=True)
        done = stage(given, version=version)
        assert same(predicted, done)
        assert done["release"]["version"] == version
        assert sources[version]["sha256"][:12] in os.readlink(root / "bin/uv-aarch64")
    assert done["actions"][-1] == f"remove store/uv-1.0-{sources['1.0']['sha256'][:12]}"
    assert [name.split("-")[1] for name in store(root)] == ["2.0", "3.0"]
    back = stage(sources["2.0"], version="2.0")
    assert back["actions"] == [f"point bin/uv-aarch64 to ../store/uv-2.0-{sources['2.0']['sha256'][:12]}/uv"]
    assert not stage(sources["2.0"], version="2.0")["changed"]


def test_a_version_with_its_own_link_is_never_pruned(stage, source, program, root):
    for version in ("3.11", "3.12", "3.13"):
        given = source(program(version), f"/{version}.tar.gz")
        stage(given, name="cpython", version=version, link=f"python/cpython-{version}", link_target=".", keep=0)
    assert len(store(root)) == 3


def test_components_do_not_touch_each_other(stage, source, program, root):
    for name in ("uv", "uv-extras"):
        for version in ("1.0", "2.0"):
            given = source(program(name + version), f"/{name}{version}.tar.gz")
            stage(given, name=name, version=version, link=f"bin/{name}", keep=0)
    assert [name.rsplit("-", 1)[0] for name in store(root)] == ["uv-2.0", "uv-extras-2.0"]


def test_a_version_is_removed_with_its_links(stage, staged, root):
    _given, folder = staged
    predicted = stage(state="absent", check=True)
    assert predicted["actions"] == ["remove the link bin/uv-aarch64", f"remove store/{folder.name}"]
    assert predicted["diff"]["after"] == ""
    assert folder.exists()
    assert same(predicted, stage(state="absent"))
    assert store(root) == []
    assert not (root / "bin/uv-aarch64").is_symlink()
    assert read_manifest(root)["releases"] == []
    assert not stage(state="absent")["changed"]


def test_removing_what_was_never_there(stage, root):
    assert not stage(state="absent")["changed"]
    assert not root.exists()


@pytest.mark.usefixtures("staged")
def test_another_version_keeps_its_link(stage, source, program, root):
    stage(source(program("2.0"), "/2.tar.gz"), version="2.0")
    assert stage(state="absent")["changed"]
    assert (root / "bin/uv-aarch64").exists()


@pytest.mark.parametrize("where", ["bin/other", "envs/cu130"])
def test_a_version_that_another_link_names_is_not_removed(stage, staged, root, where):
    _given, folder = staged
    (root / where).parent.mkdir(exist_ok=True)
    (root / where).symlink_to(f"../store/{folder.name}")
    result = stage(state="absent")
    assert f"the link `{root}/{where}` names it" in result["msg"]
    assert folder.exists()


def test_a_version_that_is_open_is_not_removed(stage, staged):
    _given, folder = staged
    with (folder / "README").open():
        result = stage(state="absent")
    assert "has files of it open" in result["msg"]
    assert folder.exists()
    assert stage(state="absent")["changed"]
