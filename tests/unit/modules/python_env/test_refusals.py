"""What is refused, by name, with nothing published."""

from pathlib import Path

import pytest

from .looking import nothing_published, store
from .wheels import LINUX, X86_64, torch, wheel


@pytest.mark.parametrize("build", ["cpu", "cu128", "cu129"])
def test_a_torch_of_another_build_is_refused(run, root, tmp_path, build):
    torch(tmp_path, build=build, requires=())
    result = run(mirror=str(tmp_path))
    assert result["msg"] == f"Wrong wheel: +{build}: torch 2.11.0 is built for `{build}`, expected `cu130`"
    assert result["hint"]
    assert nothing_published(root)


def test_a_mixture_of_builds_is_refused(run, root, tmp_path):
    torch(tmp_path, requires=())
    wheel(tmp_path, "torchvision", "0.26.0", {"torchvision/version.py": "__version__ = '0.26.0+cu129'\n"}, LINUX)
    result = run(mirror=str(tmp_path), requirements=["torch", "torchvision"])
    assert result["msg"] == "Wrong wheels: torch is built for `cu130`, but torchvision 0.26.0 for `cu129`"
    assert nothing_published(root)


def test_the_placeholder_of_torchcodec_is_refused(run, root, tmp_path):
    torch(tmp_path, requires=())
    wheel(tmp_path, "torchcodec", "0.0.0", {"torchcodec/__init__.py": ""})
    result = run(mirror=str(tmp_path), requirements=["torch", "torchcodec"])
    assert result["msg"].startswith("torchcodec 0.0.0 is an empty placeholder")
    assert nothing_published(root)


def test_a_library_of_another_machine_is_refused_by_name(run, root, tmp_path):
    torch(tmp_path, machine=X86_64, requires=())
    result = run(mirror=str(tmp_path))
    assert result["msg"] == "`lib/python3.13/site-packages/torch/lib/libtorch.so` is for x86_64, expected aarch64"
    assert nothing_published(root)


def test_a_library_that_is_cut_off_within_its_wheel_is_named_by_its_place(run, root, tmp_path):
    wheel(tmp_path, "tool", "1.0", {"tool/lib.so": b"\x7fELF"})
    result = run(mirror=str(tmp_path), requirements=["tool"])
    assert "but `lib/python3.13/site-packages/tool/lib.so` is cut off in its ELF header" in result["msg"]
    assert ".partial" not in result["msg"] + result["hint"]
    assert nothing_published(root)


def test_a_version_py_that_is_no_python_is_named_by_its_place(run, root, tmp_path):
    wheel(tmp_path, "torch", "2.11.0", {"torch/version.py": "x = (\n"})
    result = run(mirror=str(tmp_path))
    assert result["msg"].startswith("`lib/python3.13/site-packages/torch/version.py` is not Python source")
    assert nothing_published(root)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("option", ["mirror", "find_links"])
def test_a_folder_of_wheels_that_is_not_there_is_said_in_check_mode_as_well(run, tmp_path, option, check):
    gone = str(tmp_path / "gone")
    result = run(check=check, **{option: gone if option == "mirror" else [gone]})
    assert result["msg"] == f"The folder of wheels `{gone}` can't be read"
    assert "`mirror` or `find_links`" in result["hint"]


def test_a_wheel_of_another_platform_is_refused_and_an_environment_in_use_stays(run, root, tmp_path):
    first = run()
    wheel(tmp_path, "torch", "2.12.0", {}, "cp313-cp313-manylinux_2_28_x86_64")
    result = run(mirror=str(tmp_path), requirements=["torch==2.12.0"])
    assert result["msg"] == (
        f"There is no wheel of `torch==2.12.0` for Python 3.13 on `aarch64-manylinux_2_28` in the mirror `{tmp_path}`"
    )
    assert "manylinux_2_28_x86_64" in result["detail"]
    assert store(root) == [Path(first["release"]["path"]).name]
    assert not run()["changed"]


def test_a_source_distribution_is_not_built(run, tmp_path, root):
    (tmp_path / "tool-9.tar.gz").write_bytes(b"")
    result = run(mirror=str(tmp_path), requirements=["tool"])
    assert result["failed"]
    assert nothing_published(root)


@pytest.mark.parametrize("said", ["", "<html>sign in</html>", "Resolved 1 package in 1ms"])
@pytest.mark.parametrize("given", [{}, {"requirements": [], "lock": "tool==1.0\n"}], ids=["requirements", "a lock"])
def test_a_uv_that_installs_nothing_and_says_that_all_went_well(run, root, tmp_path, said, given):
    program = tmp_path / "uv"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    result = run(uv=str(program), **given)
    name = "tool==1.0" if given else "torch==2.11.0"
    assert result["msg"].startswith(f"Expected `{name}` to be installed, but found no `{name.partition('=')[0]}`")
    assert f"`{program}` said that all went well" in result["hint"]
    assert nothing_published(root)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dest": ""}, "Expected the path of a folder in `dest`, but received: ``"),
        ({"keep": -1}, "Expected `keep` to be at least 0, but received: `-1`"),
        ({"timeout": 0}, "Expected `timeout` to be at least 1, but received: `0.0`"),
        ({"timeout": "nan"}, "Expected `timeout` to be at least 1, but received: `nan`"),
        ({"cache_dir": "/proc/version"}, "uv can't use its cache `/proc/version`: "),
    ],
)
def test_options_that_can_not_be_meant(run, changed, message):
    result = run(**changed)
    assert result["msg"].startswith(message)
    assert result["hint"]


@pytest.mark.parametrize("name", ["UV_HTTP_TIMEOUT", "UV_CONCURRENT_DOWNLOADS"])
def test_a_variable_that_uv_does_not_understand_is_named(run, monkeypatch, name):
    monkeypatch.setenv(name, "much")
    result = run()
    assert result["msg"].startswith(f"uv does not understand `{name}=much`: ")
    assert result["hint"] == f"Correct or unset {name} on the host that stages"


UNFINISHED = ["torch==", "torch;", "torch>=2.11,<", "torch[", "torch==2.11.0 tool", "torch==>2", "torch=2.11.0"]


@pytest.mark.parametrize("text", UNFINISHED)
@pytest.mark.parametrize("check", [True, False])
def test_a_requirement_that_is_none_is_refused_in_check_mode_as_well(run, text, check):
    assert run(requirements=[text], check=check)["msg"].endswith(f"but received: `{text}`")


@pytest.mark.parametrize(
    "text",
    ["tool", "tool==1.*", "tool!=1!0", "tool (>=1.0 , <2)", "tool[a, b]>=1; python_version > '3'", "tool[]~=1.0"],
)
def test_requirements_as_people_write_them(run, text):
    assert run(requirements=[text])["changed"]
