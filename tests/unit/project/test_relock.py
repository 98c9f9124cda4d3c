"""A lock made again: what is edited changes for aarch64, and nothing for the others."""

import os
import subprocess

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.project import relock

EDITED = """\
    "torch==2.10.0; platform_machine != 'aarch64'",  # what the others use
    "torch>=2.11.0,<2.12; platform_machine == 'aarch64'",
"""


def edited(project):
    return (project / "pyproject.toml").read_text().replace('    "torch==2.10.0",  # what the others use\n', EDITED)


def test_only_what_concerns_aarch64_changes(project, uv):
    before = {path.name: path.read_text() for path in project.iterdir()}
    made = relock.relock(str(project), edited(project), uv, "3.12")
    assert made.changes == {"aarch64": ["nvidia-cudart none -> 13.0", "torch 2.10.0 -> 2.11.0"], "x86_64": []}
    assert made.kept == {"aarch64": 3, "x86_64": 4}
    assert "aarch64 other 1.0\n" in made.listings[1]
    assert {path.name: path.read_text() for path in project.iterdir()} == before, (
        "nothing is touched before it is complete"
    )
    assert os.listdir(project.parent) == ["demo"]


def test_both_files_are_published(project, uv):
    (project / "uv.lock").chmod(0o640)
    made = relock.relock(str(project), edited(project), uv, "3.12")
    relock.publish(str(project), made)
    assert (project / "pyproject.toml").read_text() == edited(project)
    assert (project / "uv.lock").read_text() == made.lock
    assert (project / "uv.lock").stat().st_mode & 0o777 == 0o640
    again = relock.relock(str(project), edited(project), uv, "3.12")
    assert (again.lock, again.changes) == (made.lock, {"aarch64": [], "x86_64": []})


def test_a_lock_that_does_not_go_with_its_project_is_refused(project, uv):
    stale = (project / "pyproject.toml").read_text().replace('"other",', '"other>=2",')
    (project / "pyproject.toml").write_text(stale)
    with pytest.raises(ArmstageError, match=r"demo/uv.lock` does not go with its pyproject.toml") as error:
        relock.relock(str(project), edited(project), uv, "3.12")
    assert error.value.hint.startswith("Lock it first")


def test_what_can_not_be_locked_is_said_in_uvs_words(project, uv):
    with pytest.raises(ArmstageError, match=r"uv found no lock for .*torch") as error:
        relock.relock(str(project), edited(project).replace("2.11.0,<2.12", "2.99"), uv, "3.12")
    assert "--lock shared" in error.value.hint
    assert "2.99" not in (project / "pyproject.toml").read_text()


@pytest.mark.parametrize("locked", [True, False])
def test_an_index_out_of_reach_is_not_blamed_on_a_requirement(project, uv, monkeypatch, locked):
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    online = (project / "pyproject.toml").read_text().replace("no-index = true\n", "").replace('"other"', '"another"')
    if not locked:
        (project / "uv.lock").unlink()
    (project / "pyproject.toml").write_text(online)
    with pytest.raises(ArmstageError) as error:
        relock.relock(str(project), online, uv, "3.12")
    assert error.value.message.startswith(f"`{project}` can't be locked: `http://127.0.0.1:9/simple/")
    assert error.value.message.endswith("/` can't be reached: Connection refused (os error 111)")
    assert error.value.hint.startswith("Check the network, the proxy variables and the index")


def test_a_project_without_a_lock_gets_one(project, uv):
    (project / "uv.lock").unlink()
    made = relock.relock(str(project), edited(project), uv, "3.12")
    assert made.changes == {"aarch64": [], "x86_64": []}
    assert made.kept == {"aarch64": 0, "x86_64": 0}
    assert 'name = "torch"' in made.lock


def test_a_uv_that_is_not_there_is_named(project):
    with pytest.raises(ArmstageError, match="Failed to start uv at `/none/uv`"):
        relock.relock(str(project), edited(project), "/none/uv", "3.12")


def test_the_variables_of_other_environments_do_not_count(project, uv, monkeypatch, tmp_path):
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT", "PYTHONHOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("UV_FROZEN", "1")
    assert relock.relock(str(project), edited(project), uv, "3.12").changes["x86_64"] == []


def test_the_copy_has_folders_and_links_and_no_environments(project):
    (project / "packages" / "core").mkdir(parents=True)
    (project / "packages" / "core" / "pyproject.toml").write_text("[project]\n")
    (project / "packages" / "core" / "code.py").write_text("")
    for skipped in (".git", "mine"):
        (project / skipped).mkdir()
        (project / skipped / "x").write_text("")
    (project / "mine" / "pyvenv.cfg").write_text("")
    with relock.shadow(project) as copy:
        found = sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if not path.is_dir())
        assert found == ["packages/core/code.py", "packages/core/pyproject.toml", "pyproject.toml", "uv.lock"]
        assert (copy / "packages/core/code.py").is_symlink()
        assert not (copy / "packages/core/pyproject.toml").is_symlink()
        assert copy.parent == project.parent
    assert not copy.exists()


def test_the_copy_lies_elsewhere_where_the_parent_is_not_ours(project, monkeypatch):
    monkeypatch.setattr(relock.os, "access", lambda *_arguments: False)
    with relock.shadow(project) as copy:
        assert copy.name == "demo"
        assert project.parent not in copy.parents
        assert (copy / "uv.lock").is_file()


def test_the_lock_of_the_fixture_is_one_that_uv_takes(project, uv):
    assert subprocess.run([uv, "lock", "--check"], cwd=project, check=False, capture_output=True).returncode == 0
