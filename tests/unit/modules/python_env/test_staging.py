"""What is staged: the layout, the records, scripts that run, modes, links to the cache."""

import base64
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible.module_utils.armstage.staging.record import read_manifest

from .looking import env, site
from .wheels import SCRIPT


def test_an_environment_is_staged(run, root):
    result = run()
    release = result["release"]
    assert result["changed"]
    assert result["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    assert release["elf"] == {"aarch64": 1, "cuda": 1}
    assert (release["name"], release["version"]) == ("env-cu130", "2.11.0")
    assert release["source"]["kind"] == "mirror"
    assert (
        release["source"]["sha256"] == hashlib.sha256((env(root) / "share/armstage/lock.txt").read_bytes()).hexdigest()
    )
    assert release["path"] == str(root / "store" / f"env-cu130-2.11.0-{release['digest'][:12]}")
    assert os.readlink(env(root)) == f"../store/{Path(release['path']).name}"
    assert result["actions"] == [
        f"publish store/{Path(release['path']).name} from mirror",
        f"point envs/cu130 to ../store/{Path(release['path']).name}",
    ]
    assert result["origins"] == {"folder": 2}
    assert (result["drift"], result["unhashed"], result["skipped_sources"], result["library_dirs"]) == ("", [], [], [])
    entry = read_manifest(root)["releases"][0]
    assert 0 <= entry["seconds"] <= release["seconds"] + 0.1
    assert entry["extra"]["installed"] == result["installed"]
    assert entry["extra"]["builds"] == {"torch": "cu130"}
    assert read_manifest(root)["links"] == {"envs/cu130": os.readlink(env(root))}


def test_the_layout_is_that_of_an_environment_of_the_target(run, root):
    run()
    assert sorted(os.listdir(env(root))) == [
        ".armstage.json", "bin", "include", "lib", "lib64", "pyvenv.cfg", "share",
    ]  # fmt: skip
    assert sorted(os.listdir(env(root) / "bin")) == ["plain", "python", "python3", "python3.13", "shell", "tool"]
    assert os.readlink(env(root) / "bin/python") == "/usr/bin/python3.13"
    assert os.listdir(env(root) / "lib") == ["python3.13"]
    assert (env(root) / "share/man/man1/tool.1").read_text() == "man"
    assert (env(root) / "include/site/python3.13/tool/tool.h").read_text() == "header"
    assert (env(root) / "share/armstage/requirements.txt").read_text() == "torch==2.11.0\n"
    assert (env(root) / "share/armstage/library_dirs").read_text() == ""
    assert (env(root) / "pyvenv.cfg").read_text() == (
        "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.13\n"
    )


def test_nothing_in_an_environment_names_the_folder_that_it_was_made_in(run, root):
    run()
    for path in env(root).rglob("*"):
        if path.is_file() and path.name != ".armstage.json":
            assert b"/.partial-" not in path.read_bytes(), path


def test_each_record_is_true(run, root):
    run()
    for record in site(root).glob("*.dist-info/RECORD"):
        for line in record.read_text().splitlines():
            name, digest, size = line.rsplit(",", 2)
            content = (site(root) / name).read_bytes()
            if digest:
                assert size == str(len(content)), name
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={expected}", name


def test_scripts_run_after_the_rename_and_uninstalling_is_complete(run, root, tmp_path, uv, options_of_this_host):
    run(**options_of_this_host)
    (tmp_path / "link to tool").symlink_to(env(root) / "bin/tool")
    no_bytecode = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    for script in (env(root) / "bin/tool", env(root) / "bin/plain", tmp_path / "link to tool"):
        done = subprocess.run([script, "x y"], capture_output=True, text=True, check=True, env=no_bytecode)
        assert done.stdout == "tool ['x y']\n"
    assert subprocess.run([env(root) / "bin/shell"], capture_output=True, text=True, check=True).stdout == "shell\n"
    subprocess.run(
        [uv, "pip", "uninstall", "--python", env(root) / "bin/python", "tool"], check=True, capture_output=True
    )
    left = {path.name for path in env(root).rglob("*") if path.is_file() and not path.is_symlink()}
    assert left - {".armstage.json", "pyvenv.cfg", "lock.txt", "requirements.txt", "library_dirs", ".lock"} == set()


def test_everyone_may_read_it_whatever_the_umask(run, root, tmp_path):
    before = os.umask(0o077)
    try:
        run(cache_dir=str(tmp_path / "own cache"))
    finally:
        os.umask(before)
    for path in [root / "store", *env(root).resolve().rglob("*")]:
        if not path.is_symlink():
            assert path.stat().st_mode & 0o044 == 0o044, path
            assert not path.is_dir() or path.stat().st_mode & 0o055 == 0o055, path


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no second filesystem here")
def test_the_cache_may_lie_on_another_filesystem(run, root, tmp_path):
    cache = Path("/dev/shm") / f"armstage-test-{os.getpid()}"
    try:
        assert os.stat("/dev/shm").st_dev != os.stat(tmp_path).st_dev
        assert run(cache_dir=str(cache))["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    assert (site(root) / "torch/lib/libtorch.so").stat().st_nlink == 1


def test_files_are_linked_from_the_cache_of_the_same_filesystem_and_never_written_to(run, root, cache):
    run()
    linked = site(root) / "torch/lib/libtorch.so"
    assert linked.stat().st_nlink > 1
    assert {path.read_text() for path in cache.rglob("scripts/plain")} == {SCRIPT}


def test_bytecode_is_compiled_on_wish_and_does_not_look_at_its_source(run, root, options_of_this_host):
    options = {**options_of_this_host, "compile_python": "auto"}
    run(**options)
    compiled = list(env(root).rglob("tool.*.pyc"))
    assert [path.read_bytes()[4:8] for path in compiled] == [b"\x01\0\0\0"]
    assert not run(**options)["changed"]


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "~/wheels"])
def test_a_mirror_as_others_write_it(run, wheels, tmp_path, monkeypatch, form):
    (tmp_path / "wheels").symlink_to(wheels)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(mirror=form.format(wheels))["changed"]


def test_a_remark_behind_a_requirement_is_no_part_of_it(run):
    first = run(requirements=["torch==2.11.0  # for CUDA 13"])
    assert first["release"]["version"] == "2.11.0"
    assert not run(requirements=["torch==2.11.0"])["changed"]


def test_a_shim_of_a_python_that_is_not_installed_compiles_nothing(run, tmp_path, monkeypatch):
    """pyenv puts one on PATH for every version that any of its users has."""
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert run(compile_python="auto")["changed"]
