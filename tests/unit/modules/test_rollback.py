"""rollback and stage_record through their main(), on a store with real releases."""

import json
import os
import stat

import pytest
import rollback
import stage_record
from ansible.module_utils.armstage import history
from ansible.module_utils.armstage.staging.publish import Store
from ansible.module_utils.armstage.staging.record import Release, read_manifest

from .looking import snapshot

GB01 = {"driver": "570.172.08", "cuda": "12.8", "index": "cu128"}


@pytest.fixture
def root(tmp_path):
    return tmp_path / "a root"


@pytest.fixture
def publish(root):
    """Publish a release and link it; its link and path as the staging modules return them."""

    def call(name, link, digest, version="2.11.0", linked=True):
        store = Store(root)
        with store.lock():
            with store.begin(name) as partial:
                (partial / "file").write_text(digest)
                created = f"2026-11-30T22:00:0{digest[0]}Z"
                path = store.publish(partial, Release(name, version, digest, {"kind": "test"}, created))
            target = root / link
            target.parent.mkdir(parents=True, exist_ok=True)
            if linked:
                target.unlink(missing_ok=True)
                target.symlink_to(os.path.relpath(path, target.parent))
        return {"path": str(path), "link": str(target)}

    return call


@pytest.fixture
def record(run_module, root):
    def call(check=False, nodes=None, **options):
        given = {"dest": str(root), "nodes": nodes or {"gb01": GB01}, **options}
        return run_module(stage_record, check=check, diff=True, **given)

    return call


@pytest.fixture
def back(run_module, root):
    def call(to, check=False):
        return run_module(rollback, check=check, diff=True, dest=str(root), to=to)

    return call


@pytest.fixture
def upgraded(publish, record):
    """A root on which cu128 was staged first, and cu130 after a driver upgrade."""
    publish("uv", "bin/uv-aarch64", "1" * 64, "0.10.0")
    publish("env-cu128", "envs/cu128", "2" * 64)
    record()
    publish("env-cu130", "envs/cu130", "3" * 64)
    record(nodes={"gb01": {"driver": "580.95.05", "cuda": "13.0", "index": "cu130"}})


def links(root):
    return Store(root).links()


def test_what_a_run_saw_is_noted_once(publish, record, root):
    publish("env-cu128", "envs/cu128", "2" * 64)
    result = record()
    assert result["changed"]
    assert result["since_last_run"] == [
        "gb01: new here: driver 570.172.08, CUDA 12.8, index cu128",
        "environment cu128 staged",
    ]
    assert json.loads((root / history.HISTORY).read_text())["nodes"] == {"gb01": GB01}
    assert stat.S_IMODE((root / history.HISTORY).stat().st_mode) == 0o644
    before = snapshot(root)
    again = record()
    assert (again["changed"], again["since_last_run"]) == (False, [])
    assert snapshot(root) == before


def test_check_mode_predicts_what_is_said_and_written(publish, record, root):
    publish("env-cu128", "envs/cu128", "2" * 64)
    record()
    planned = {"path": str(root / "store/env-cu130-2.11.0-333333333333"), "link": str(root / "envs/cu130")}
    nodes = {"gb01": {"driver": "580.95.05", "cuda": "13.0", "index": "cu130"}}
    before = snapshot(root)
    predicted = record(check=True, nodes=nodes, releases=[planned])
    assert snapshot(root) == before
    publish("env-cu130", "envs/cu130", "3" * 64)
    done = record(nodes=nodes, releases=[planned])
    assert done["since_last_run"] == predicted["since_last_run"]
    assert done["since_last_run"] == [
        "gb01: driver 570.172.08 -> 580.95.05, CUDA 12.8 -> 13.0, index cu128 -> cu130",
        "environment cu130 staged; environment cu128 unchanged",
    ]
    assert json.loads(done["diff"]["after"])["states"][-1]["links"] == links(root)


def test_check_mode_works_where_nothing_is_yet(record, root):
    planned = {"path": str(root / "store/env-cu128-2.11.0-222222222222"), "link": str(root / "envs/cu128")}
    assert record(check=True, releases=[planned])["since_last_run"][-1] == "environment cu128 staged"
    assert not root.exists()


@pytest.mark.usefixtures("upgraded")
def test_previous_moves_the_links_and_nothing_else(back, root):
    before, files = links(root), set(root.glob("store/*/file"))
    predicted = back("previous", check=True)
    assert links(root) == before
    result = back("previous")
    assert result["changed"]
    assert result["moves"] == predicted["moves"] == {"envs/cu130": None}
    assert predicted["diff"] == result["diff"]
    assert result["seconds"] < 1
    assert "envs/cu130" not in links(root)
    assert links(root) == read_manifest(root)["links"]
    assert set(root.glob("store/*/file")) == files
    assert back("previous")["failed"]


@pytest.mark.usefixtures("upgraded")
def test_staging_goes_forward_again_and_back_again(back, record, publish, root):
    forward = links(root)
    back("previous")
    publish("env-cu130", "envs/cu130", "3" * 64)
    assert record()["since_last_run"][-1] == "environment cu130 staged; environment cu128 and uv unchanged"
    assert links(root) == forward
    assert back("previous")["moves"] == {"envs/cu130": None}


@pytest.mark.usefixtures("upgraded")
def test_a_tag_and_its_undoing(back, root):
    before = links(root)
    assert back("cu128")["moves"] == {"envs/cu130": None}
    again = back("cu128")
    assert (again["changed"], again["moves"]) == (False, {})
    assert back("previous")["moves"] == {"envs/cu130": before["envs/cu130"]}
    assert links(root) == before


@pytest.mark.usefixtures("upgraded")
def test_a_newer_release_gives_way_to_the_one_before(back, publish, record, root):
    old = links(root)["envs/cu130"]
    publish("env-cu130", "envs/cu130", "4" * 64)
    record()
    assert back("previous")["moves"] == {"envs/cu130": old}
    assert os.readlink(root / "envs/cu130") == old


@pytest.mark.usefixtures("upgraded")
def test_a_release_that_is_gone_is_named(back, publish, record, root):
    gone = Store(root).releases("env-cu130")[0]
    publish("env-cu130", "envs/cu130", "4" * 64)
    record()
    store = Store(root)
    with store.lock():
        store.remove(gone)
    before = links(root)
    result = back("previous")
    assert result["failed"]
    assert f"`{gone.path.name}` of `envs/cu130` is no longer staged" in result["msg"]
    assert "armstage_keep" in result["hint"]
    assert links(root) == before


@pytest.mark.parametrize("to", ["previous", "cu128"])
def test_a_root_where_nothing_is_staged_is_said(back, root, to):
    result = back(to)
    assert result["failed"]
    assert "./armstage stage" in result["hint"]
    assert not root.exists()


@pytest.mark.usefixtures("upgraded")
def test_a_link_that_can_not_be_moved_is_named_in_check_mode_as_well(back, root):
    (root / "envs").rename(root / "envs-aside")
    (root / "envs").write_text("in the way")
    for check in (True, False):
        result = back("previous", check=check)
        assert result["msg"] == f"Failed to write in `{root}/envs`: Not a directory"
        assert "write" in result["hint"]


@pytest.mark.parametrize("module", [rollback, stage_record])
@pytest.mark.parametrize("dest", ["", "~nobody-of-this-name/x", "a file"])
def test_a_root_that_nobody_can_mean_is_refused(run_module, tmp_path, module, dest):
    (tmp_path / "a file").touch()
    dest = str(tmp_path / dest) if dest == "a file" else dest
    options = {"to": "previous"} if module is rollback else {"nodes": {"gb01": GB01}}
    result = run_module(module, dest=dest, **options)
    assert f"`{dest}`" in result["msg"]
    assert result["hint"]


def test_a_node_of_another_form_is_named(record):
    assert "the node `gb01`, but received: `570.172.08`" in record(nodes={"gb01": "570.172.08"})["msg"]


def test_an_environment_of_a_longer_name_is_not_taken_for_the_index(back, publish):
    publish("env-cu130-test", "envs/cu130-test", "4" * 64)
    publish("env-cu130", "envs/cu130", "5" * 64, version="py3.13", linked=False)
    publish("env-cu128", "envs/cu128", "2" * 64)
    assert back("cu130-test")["moves"] == {}
    assert back("cu130")["moves"] == {"envs/cu130": "../store/env-cu130-py3.13-555555555555"}
    assert "there are cu130-test, cu128, cu130" in back("cu126")["msg"]


@pytest.mark.usefixtures("upgraded")
def test_links_outside_the_roots_own_folders_are_never_moved(back, root):
    path = root / history.HISTORY
    content = json.loads(path.read_text())
    content["states"][0]["links"]["../../evil"] = content["states"][0]["links"]["envs/cu128"]
    path.write_text(json.dumps(content))
    assert back("previous")["moves"] == {"envs/cu130": None}
    assert not list(root.parent.parent.glob("evil"))


@pytest.mark.usefixtures("upgraded")
def test_links_of_the_operators_own_are_left_alone(back, root):
    own = {"mine": root / "tools/uv", "beside": root / "my-ffmpeg"}
    for link in own.values():
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(os.path.relpath(Store(root).releases("uv")[0].path, link.parent))
    assert back("previous")["moves"] == {"envs/cu130": None}
    assert all(link.is_symlink() for link in own.values())
