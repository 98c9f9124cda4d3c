"""A4: what torchcodec would load, and how little that proves. The loader's model is tested in tests/unit/elf."""

import os
from types import SimpleNamespace

import pytest
from ansible.module_utils.armstage.preflight.codec import check
from ansible.module_utils.armstage.preflight.context import Context
from ansible.module_utils.armstage.preflight.request import Request


@pytest.fixture
def job(staged):
    """The environment of a job that sourced env.sh."""
    return {"LD_LIBRARY_PATH": f"{staged.base}/ffmpeg-linuxarm64/lib:{staged.cuda_libraries}"}


@pytest.mark.parametrize("sourced", [True, False])
def test_a_staged_environment_passes(look_into, job, sourced):
    found = look_into("A4", job if sourced else None)
    assert found.status == "PASS", found.detail
    assert "torchcodec 0.11.1+cu130 loads its core 7 with FFmpeg 7" in found.detail
    assert "it was not run, and there is no GPU here to decode on" in found.detail


def test_the_libraries_that_env_sh_would_add_are_those_that_were_staged(look_into, staged):
    listed = staged.env / "share/armstage/library_dirs"
    listed.parent.mkdir(parents=True)
    listed.write_text("lib/python3.12/site-packages/nvidia/cu13/lib\n")
    found = look_into("A4")
    assert found.status == "PASS"
    assert (
        f"{staged.base}/ffmpeg-linuxarm64/lib:{staged.env}/lib/python3.12/site-packages/nvidia/cu13/lib"
        in found.facts[0].value
    )


def test_another_ffmpeg_in_the_folder(look_into, staged):
    for path in (staged.base / "ffmpeg-linuxarm64/lib").iterdir():
        path.unlink()
    staged.ffmpeg(9, "ffmpeg-linuxarm64")
    found = look_into("A4")
    assert found.status == "FAIL"
    assert "FFmpeg 9" in found.detail


def test_another_ffmpeg_than_was_staged_though_it_would_load(look_into, staged):
    (staged.base / "manifest.json").write_text('{"releases": [{"name": "ffmpeg", "version": "n7.1.5-12-g1fdbca85aa"}]}')
    assert look_into("A4").status == "PASS"
    for path in (staged.base / "ffmpeg-linuxarm64/lib").iterdir():
        path.unlink()
    staged.ffmpeg(5, "ffmpeg-linuxarm64")
    found = look_into("A4")
    assert found.status == "FAIL", found.detail
    (staged.base / "manifest.json").unlink()
    assert look_into("A4").status == "PASS"


def test_an_x86_library_beside_ffmpeg(look_into, staged):
    staged.ffmpeg(7, "ffmpeg-linuxarm64", machine="x86_64")
    found = look_into("A4")
    assert found.status == "FAIL"
    assert "x86_64" in found.detail


@pytest.mark.parametrize(
    ("machine", "also", "status"),
    [("x86_64", None, "SKIP"), ("aarch64", None, "FAIL"), ("x86_64", "nvidia/cu13/lib/libnppicc.so.13", "FAIL")],
)
def test_a_python_of_the_nodes_is_not_judged_on_a_login_node(staged, monkeypatch, machine, also, status):
    """There is no aarch64 libpython in the system's folders of an x86_64 host, whatever a node has."""
    (staged.python / "lib/libpython3.12.so.1.0").unlink()
    if also:
        (staged.site / also).unlink()
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    found = check(Context(Request(env=str(staged.env), staged=str(staged.base), environ={})))
    assert found.status == status, found.detail
    assert "`libpython3.12.so.1.0`" in found.detail
    assert ("this host is x86_64 (A1)" in found.detail) is (status == "SKIP")


def test_only_the_cpu_can_decode_where_the_decoder_of_the_gpu_is_missing(look_into, host):
    host.spark()
    assert "only the CPU can decode here, for `libnvcuvid.so.1` is not on this node" in look_into("A4").detail


def test_not_judged_with_a_cpu_torch_or_without_torchcodec(look_into, staged):
    (staged.site / "torch/version.py").write_text("__version__ = '2.10.0+cpu'\ncuda = None\n")
    assert look_into("A4").status == "SKIP"
    for path in staged.codec.iterdir():
        path.unlink()
    staged.package("torchcodec", "0.11.1")
    next(staged.site.glob("torchcodec-*")).joinpath("METADATA").unlink()
    next(staged.site.glob("torchcodec-*")).rmdir()
    assert "torchcodec is not installed" in look_into("A4").detail
