"""project_lock and project_env through their JSON."""

import platform

import project_env
import project_lock
import pytest

BOTH = ("\"torch==2.10.0; platform_machine != 'aarch64'\"", "\"torch==2.11.0; platform_machine == 'aarch64'\"")
EDIT = ('"torch==2.10.0",', ", ".join(BOTH) + ",")


@pytest.fixture
def lock_options(project, uv):
    return {"path": str(project), "pyproject": (project / "pyproject.toml").read_text().replace(*EDIT), "uv": uv}


def test_locking_says_what_changes_for_whom(run_module, project, lock_options):
    result = run_module(project_lock, **lock_options)
    assert result["changed"]
    assert result["changes"] == {"aarch64": ["nvidia-cudart none -> 13.0", "torch 2.10.0 -> 2.11.0"], "x86_64": []}
    assert (project / "pyproject.toml").read_text() == lock_options["pyproject"]
    again = run_module(project_lock, **lock_options)
    assert (again["changed"], again["diff"]) == (False, [])


def test_check_mode_locks_and_leaves_the_project_alone(run_module, project, lock_options):
    before = {path.name: path.read_text() for path in project.iterdir()}
    result = run_module(project_lock, check=True, diff=True, **lock_options)
    assert {path.name: path.read_text() for path in project.iterdir()} == before
    assert result["changed"]
    texts, packages = result["diff"]
    assert texts["after"] == lock_options["pyproject"]
    assert "aarch64 torch 2.10.0\n" in packages["before"]
    assert "aarch64 torch 2.11.0\n" in packages["after"]
    assert "x86_64 torch 2.10.0\n" in packages["after"]


def test_a_lock_that_can_not_be_made_fails(run_module, project, lock_options):
    lock_options["pyproject"] = lock_options["pyproject"].replace("2.11.0", "9.9")
    result = run_module(project_lock, **lock_options)
    assert "uv found no lock" in result["msg"]
    assert result["hint"]
    assert "9.9" not in (project / "pyproject.toml").read_text()


@pytest.fixture
def env_options(project, wheels, uv, tmp_path):
    return {
        "path": str(project),
        "python": "/opt/python/bin/python3.12",
        "tag": "cu130",
        "override": ["torch==2.11.0"],
        "mirror": str(wheels),
        "uv": uv,
        "cache_dir": str(tmp_path / "cache"),
        "reason": "it is so",
    }


@pytest.mark.skipif(platform.machine() == "aarch64", reason="this host could be a node")
def test_an_environment_is_made_once(run_module, project, env_options):
    predicted = run_module(project_env, check=True, diff=True, **env_options)
    assert (predicted["changed"], predicted["packages"]) == (True, {})
    assert not (project / ".venv-aarch64").exists()
    result = run_module(project_env, diff=True, **env_options)
    assert result["changed"]
    assert result["environment"] == str(project / ".venv-aarch64")
    assert result["packages"]["torch"] == "2.11.0"
    assert "torch==2.11.0\n" in result["diff"]["after"]
    assert "it is so" in (project / ".venv-aarch64/share/armstage/README.md").read_text()
    again = run_module(project_env, **env_options)
    assert (again["changed"], again["packages"]) == (False, result["packages"])
    assert again["diff"]["before"] == again["diff"]["after"]


def test_a_wrong_build_fails(run_module, project, env_options):
    result = run_module(project_env, **{**env_options, "override": []})
    assert result["failed"]
    assert "Wrong wheel: +cpu" in result["msg"]
    assert not (project / ".venv-aarch64").exists()
    assert run_module(project_env, **{**env_options, "python": "python3"})["failed"]


@pytest.mark.skipif(platform.machine() == "aarch64", reason="this host could be a node")
def test_an_environment_without_its_index_says_so(run_module, project, env_options, monkeypatch):
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    result = run_module(project_env, **{**env_options, "mirror": "http://127.0.0.1:9/simple"})
    assert result["msg"] == (
        f"`uv pip compile` failed in `{project}`: `http://127.0.0.1:9/simple/torch/` can't be reached: "
        "Connection refused (os error 111)"
    )
    assert "index that uv is told" in result["hint"]
