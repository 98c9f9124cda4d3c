"""A second run, a prediction, and other requirements than before."""

import json
from pathlib import Path

from ..looking import snapshot
from .looking import site, store


def test_a_second_run_writes_nothing_and_needs_neither_uv_nor_wheels(run, root):
    first = run()
    before = snapshot(root)
    result = run(uv="/no/such/uv", mirror="/no/such/wheels", cache_dir="/no/such/cache")
    assert (result["changed"], result["actions"]) == (False, [])
    assert snapshot(root) == before
    keep = ("name", "version", "path", "digest", "source", "size", "files", "elf", "link")
    assert {key: result["release"][key] for key in keep} == {key: first["release"][key] for key in keep}
    assert result["installed"] == first["installed"]
    assert result["diff"]["before"] == result["diff"]["after"] == first["diff"]["after"]


def test_a_root_from_before_seconds_were_kept_is_right_as_it_is(run, root):
    run()
    (record,) = (root / "store").glob("*/.armstage.json")
    forget_seconds(record, root / "manifest.json")
    before = snapshot(root)
    assert not run()["changed"]
    assert snapshot(root) == before


def forget_seconds(*files):
    for file in files:
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if '"seconds"' not in line))


def test_bytecode_that_python_leaves_behind_is_no_change(run, root):
    run()
    (site(root) / "torch/__pycache__").mkdir()
    (site(root) / "torch/__pycache__/version.cpython-313.pyc").write_bytes(b"x")
    assert not run()["changed"]


def test_check_mode_predicts_what_a_run_does_and_writes_nothing(run, root):
    predicted = run(check=True, diff=True)
    assert not root.exists()
    done = run(diff=True)
    assert predicted["changed"]
    assert predicted["actions"] == done["actions"]
    assert predicted["diff"] == done["diff"]
    assert predicted["release"]["path"] == done["release"]["path"]
    assert done["diff"]["before"] == ""
    assert "envs/cu130 -> ../store/env-cu130-2.11.0-" in done["diff"]["after"]
    assert not run(check=True)["changed"]


def test_check_mode_needs_no_uv(run, root):
    assert run(check=True, uv="/no/such/uv")["changed"]
    assert not root.exists()


def test_another_requirement_stages_beside_and_the_old_one_is_there_to_go_back_to(run, root):
    first = run()
    second = run(requirements=["torch==2.11.0", "tool"])
    assert second["release"]["path"] != first["release"]["path"]
    assert len(store(root)) == 2
    before = snapshot(root / "store")
    back = run(uv="/no/such/uv")
    assert back["actions"] == [f"point envs/cu130 to ../store/{Path(first['release']['path']).name}"]
    assert {path: seen for path, seen in snapshot(root / "store").items() if "/env-" in path} == {
        path: seen for path, seen in before.items() if "/env-" in path
    }


def grow_older(root):
    """Let every release have been made a day before."""
    for record in (root / "store").glob("*/.armstage.json"):
        content = json.loads(record.read_text())
        content["created"] = f"2001-01-{int(content['created'][8:10]) - 1:02}T00:00:00Z"
        record.write_text(json.dumps(content))


def test_old_environments_of_the_same_tag_go_and_those_of_another_stay(run, root):
    other = run(tag="other")["release"]["path"]
    paths = []
    for requirements in (["torch"], ["torch", "tool"], ["torch==2.11.0"]):
        last = run(requirements=requirements, keep=1)
        paths.append(last["release"]["path"])
        grow_older(root)
    assert last["actions"][-1] == f"remove store/{Path(paths[0]).name}"
    assert store(root) == sorted(Path(path).name for path in (other, *paths[1:]))
    assert run(keep=0)["actions"][0] == f"remove store/{Path(paths[1]).name}"
    assert store(root) == sorted(Path(path).name for path in (other, paths[2]))
