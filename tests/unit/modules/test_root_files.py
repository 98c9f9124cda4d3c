"""root_files: texts and programs of a staged root."""

import base64
import os

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
