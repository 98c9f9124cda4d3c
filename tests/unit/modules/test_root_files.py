"""root_files: texts and programs of a staged root."""

import base64
import os

import pytest
import root_files


def encoded(**files):
    return {path.replace("__", "/"): base64.b64encode(text.encode()).decode() for path, text in files.items()}


def test_files_are_written_once(run_module, tmp_path):
    options = {"dest": str(tmp_path / "root"), "files": encoded(a="1", b__c="2"), "programs": ["b/c"]}
    predicted = run_module(root_files, check=True, diff=True, **options)
    assert (predicted["changed"], predicted["written"]) == (True, ["a", "b/c"])
    assert not (tmp_path / "root").exists()
    assert run_module(root_files, **options)["written"] == ["a", "b/c"]
    assert [os.access(tmp_path / "root" / path, os.X_OK) for path in ("a", "b/c")] == [False, True]
    assert run_module(root_files, **options)["changed"] is False


def test_a_program_that_is_not_executable_is_put_right(run_module, tmp_path):
    options = {"dest": str(tmp_path), "files": encoded(p="1"), "programs": ["p"]}
    run_module(root_files, **options)
    (tmp_path / "p").chmod(0o644)
    assert run_module(root_files, **options)["written"] == ["p"]
    assert os.access(tmp_path / "p", os.X_OK)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dest": ""}, "Expected the path of a folder in `dest`, but received: ``"),
        ({"files": {"../a": "eA=="}}, "Expected a path that stays inside, but received: `../a`"),
        ({"files": {"/etc/a": "eA=="}}, "Expected a path that stays inside, but received: `/etc/a`"),
        ({"files": {".": "eA=="}}, "Expected the path of a file in `files`, but received: `.`"),
        ({"files": {"a": "not base64"}}, "Expected the content of `a` in base64, but received: `not base64`"),
        ({"files": {"a": None}}, "Expected the content of `a` in base64, but received: `None`"),
    ],
)
def test_what_can_not_be_meant_is_refused(run_module, tmp_path, changed, message):
    result = run_module(root_files, **{"dest": str(tmp_path / "root"), "files": {"a": "eA=="}, **changed})
    assert result["msg"] == message
    assert result["hint"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("check", [True, False])
def test_a_file_where_a_folder_belongs_is_said_in_check_mode_as_well(run_module, tmp_path, check):
    (tmp_path / "a").touch()
    result = run_module(root_files, check=check, dest=str(tmp_path), files=encoded(a__b="1"))
    assert result["msg"] == f"Failed to write in `{tmp_path}/a`: Not a directory"
