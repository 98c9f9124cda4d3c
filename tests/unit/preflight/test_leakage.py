"""A2: what travels from a login node into a job."""

import os

import pytest
from elf.builder import Elf


def plant(folder, *programs, machine="x86_64"):
    for program in programs:
        Elf(machine=machine, type="EXEC").write(folder / program)
    return str(folder)


def test_a_clean_environment_passes(look_into, staged):
    assert look_into("A2").status == "PASS"
    assert look_into("A2", {"VIRTUAL_ENV": str(staged.env), "UV_PROJECT_ENVIRONMENT": ".venv-aarch64"}).status == "PASS"


@pytest.mark.parametrize("name", ["CONDA_PREFIX", "VIRTUAL_ENV"])
def test_an_environment_of_another_machine_is_named_with_it(look_into, tmp_path, name):
    folder = plant(tmp_path / "login", "bin/python")
    found = look_into("A2", {name: folder})
    assert found.status == "FAIL"
    assert found.detail.startswith(f"{name}=`{folder}` leads to `{folder}/bin/python`, which is for x86_64")
    assert f"unset {name}" in found.hint


@pytest.mark.parametrize("name", ["CONDA_EXE", "CONDA_PYTHON_EXE", "UV_PYTHON"])
def test_a_program_of_another_machine(look_into, tmp_path, name):
    plant(tmp_path, "conda")
    assert look_into("A2", {name: str(tmp_path / "conda")}).status == "FAIL"


@pytest.mark.parametrize(
    "name", ["CONDA_PREFIX", "VIRTUAL_ENV", "CONDA_DEFAULT_ENV", "CONDA_EXE", "PYTHONHOME", "PYTHONPATH", "UV_PYTHON"]
)
def test_a_leak_of_the_same_machine_is_a_warning(look_into, tmp_path, name):
    folder = plant(tmp_path / "other", "bin/python", machine="aarch64")
    found = look_into("A2", {name: folder})
    assert (found.status, found.source) == ("WARN", name)
    assert f"{name}=`{folder}` is set" in found.detail


def test_modules_of_another_machine_on_pythonpath(look_into, tmp_path):
    Elf(machine="x86_64").write(tmp_path / "b/numpy/core.so")
    found = look_into("A2", {"PYTHONPATH": f"{tmp_path}/a:{tmp_path}/b"})
    assert found.status == "FAIL"
    assert f"leads to `{tmp_path}/b/numpy/core.so`, which is for x86_64" in found.detail


def test_pythonhome_of_another_machine(look_into, tmp_path):
    Elf(machine="x86_64").write(tmp_path / "lib/python3.12/lib-dynload/_ssl.so")
    assert look_into("A2", {"PYTHONHOME": str(tmp_path)}).status == "FAIL"


def test_the_worst_leak_comes_first(look_into, tmp_path):
    plant(tmp_path / "login", "bin/python")
    found = look_into("A2", {"PYTHONPATH": "/x", "VIRTUAL_ENV": str(tmp_path / "login")})
    assert found.status == "FAIL"
    assert found.detail.index("VIRTUAL_ENV") < found.detail.index("PYTHONPATH")


class TestPath:
    def test_a_program_that_would_be_run_and_cannot(self, look_into, tmp_path):
        folder = plant(tmp_path / "conda/bin", "uv", "python3", "git")
        found = look_into("A2", {"PATH": f"/usr/bin:{folder}"})
        assert found.status == "FAIL"
        assert f"PATH finds `{folder}/uv`" in found.detail
        assert "for x86_64" in found.detail

    def test_one_that_is_found_elsewhere_first_does_no_harm(self, look_into, tmp_path):
        ours = plant(tmp_path / "ours", "uv", machine="aarch64")
        login = plant(tmp_path / "login", "uv")
        assert look_into("A2", {"PATH": f"{ours}:{login}"}).status == "PASS"
        assert look_into("A2", {"PATH": f"{login}:{ours}"}).status == "FAIL"

    def test_a_program_that_no_job_of_this_kind_starts_is_a_warning(self, look_into, tmp_path):
        folder = plant(tmp_path / "tools", "blender")
        assert look_into("A2", {"PATH": folder}).status == "WARN"

    def test_the_environments_own_folder_is_a1s(self, look_into, staged):
        folder = plant(staged.env / "bin", "uv")
        assert look_into("A2", {"PATH": folder}).status == "PASS"

    def test_scripts_links_and_folders_that_are_not_there(self, look_into, tmp_path):
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/pip").write_text("#!/usr/bin/python3\n")
        (tmp_path / "bin/uv").symlink_to("/nonexistent")
        assert look_into("A2", {"PATH": f"::{tmp_path}/bin:/nonexistent:"}).status == "PASS"


class TestLoader:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("LD_PRELOAD", "{}/libx.so"),
            ("LD_PRELOAD", "/nowhere.so {}/libx.so"),
            ("LD_LIBRARY_PATH", "/nowhere::{}"),
        ],
    )
    @pytest.mark.parametrize(("machine", "status"), [("x86_64", "WARN"), ("aarch64", "PASS")])
    def test_libraries_of_another_machine(self, look_into, tmp_path, name, value, machine, status):
        Elf(machine=machine, soname="libx.so").write(tmp_path / "libx.so")
        found = look_into("A2", {name: value.format(tmp_path)})
        assert (found.status, f"`{tmp_path}/libx.so`, which is for x86_64" in found.detail) == (
            status,
            status == "WARN",
        )

    @pytest.mark.parametrize(("folder", "status"), [("ffmpeg-linuxarm64/lib", "PASS"), ("lib", "WARN")])
    def test_what_was_staged_is_for_another_check(self, look_into, staged, folder, status):
        """A4 says what of FFmpeg does not load; the root may be one's own ~/.local, with other things in it."""
        Elf(machine="x86_64", soname="libx.so").write(staged.base / folder / "libx.so")
        assert look_into("A2", {"LD_LIBRARY_PATH": str(staged.base / folder)}).status == status

    def test_what_is_not_there_and_a_fifo(self, look_into, tmp_path):
        os.mkfifo(tmp_path / "a.so")
        assert look_into("A2", {"LD_PRELOAD": "/nowhere.so", "LD_LIBRARY_PATH": f":{tmp_path}:"}).status == "PASS"


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("UV_TORCH_BACKEND", "cpu", "WARN"),
        ("UV_TORCH_BACKEND", "auto", "PASS"),
        ("UV_DEFAULT_INDEX", "https://download.pytorch.org/whl/cpu", "WARN"),
        ("UV_INDEX", "torch=https://download.pytorch.org/whl/nightly/cpu/", "WARN"),
        ("PIP_EXTRA_INDEX_URL", "https://download.pytorch.org/whl/cu130", "PASS"),
    ],
)
def test_what_makes_an_installer_take_a_torch_without_cuda(look_into, name, value, status):
    found = look_into("A2", {name: value})
    assert (found.status, f"{name}=`{value}` is set" in found.detail) == (status, status == "WARN")
