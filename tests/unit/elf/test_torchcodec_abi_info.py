"""The module, by its JSON."""

import pytest
import torchcodec_abi_info
import yaml

from .planted import sonames


def test_what_it_returns(run_module, root):
    folder = root.ffmpeg(7)
    result = run_module(
        torchcodec_abi_info, env=str(root.env), ffmpeg_dirs=[str(folder)], root=str(root.system), ffmpeg_major=7
    )
    assert set(yaml.safe_load(torchcodec_abi_info.RETURN)) == set(result) - {"changed"}
    absent = [
        {"core": core, "ffmpeg_major": core, "status": "absent", "missing": sonames(core), "folders": []}
        for core in (8, 6, 5, 4)
    ]
    complete = {"core": 7, "ffmpeg_major": 7, "status": "complete", "missing": [], "folders": [str(folder)]}
    assert result["cores"] == [absent[0], complete, *absent[1:]]
    del result["cores"]
    assert result == {
        "changed": False,
        "ok": True,
        "selected_core": 7,
        "other_missing": [],
        "wrong_arch": [],
        "glibc_required": "2.28",
        "page_size": 65536,
        "page_size_ok": True,
        "message": f"torchcodec 0.11.1+cu130 loads its core 7 with FFmpeg 7 from `{folder}`",
        "hint": "",
        "problems": [],
        "torchcodec": "0.11.1+cu130",
        "torch": "2.11.0+cu130",
        "machine": "aarch64",
        "library_dirs": [str(root.cuda_libraries)],
        "assumed": ["libc.so.6", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libstdc++.so.6"],
    }


def test_check_mode_returns_the_same(run_module, root):
    options = {"env": str(root.env), "ffmpeg_dirs": [str(root.ffmpeg(7))], "root": str(root.system)}
    assert run_module(torchcodec_abi_info, check=True, **options)["ok"]


def test_a_problem_is_no_failure(run_module, root):
    (root.cuda_libraries / "libnppicc.so.13").unlink()
    result = run_module(
        torchcodec_abi_info, env=str(root.env), root=str(root.system), ffmpeg_dirs=[str(root.ffmpeg(7))]
    )
    assert not result.get("failed")
    assert result["ok"] is False
    assert result["hint"] == "Install nvidia-npp>=13.0,<13.1 into the environment"
    assert result["problems"] == [{"message": result["message"], "hint": result["hint"]}]


def test_a_torchcodec_folder(run_module, root):
    result = run_module(
        torchcodec_abi_info, torchcodec_dir=str(root.codec), root=str(root.system), ffmpeg_dirs=[str(root.ffmpeg(8))]
    )
    assert result["selected_core"] == 8


def test_the_node_in_options(run_module, root):
    options = {"env": str(root.env), "root": str(root.system), "ffmpeg_dirs": [str(root.ffmpeg(7))]}
    result = run_module(
        torchcodec_abi_info, glibc="2.26", page_size=131072, elf_machine="aarch64", library_dirs=[], **options
    )
    assert [problem["message"].split("`")[1].rpartition("/")[2] for problem in result["problems"]] == [
        "libnppicc.so.13",
        "libavutil.so.59",
        "libtorchcodec_core7.so",
    ]


def test_names_that_are_not_text_come_out_as_text(run_module, root):
    path = root.codec / "libtorchcodec_core7.so"
    path.write_bytes(path.read_bytes().replace(b"libnppicc.so.13", b"libnpp\xffcc.so.13"))
    result = run_module(
        torchcodec_abi_info, env=str(root.env), root=str(root.system), ffmpeg_dirs=[str(root.ffmpeg(7))]
    )
    assert result["other_missing"] == ["libnpp\\xffcc.so.13"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"env": "/no/such/env"}, "No folder `/no/such/env`"),
        ({"torchcodec_dir": "/no/such/torchcodec"}, "No folder `/no/such/torchcodec`"),
        ({}, "one of the following is required: env, torchcodec_dir"),
        ({"env": "/a", "torchcodec_dir": "/b"}, "mutually exclusive: env|torchcodec_dir"),
    ],
)
def test_nothing_to_look_at_is_a_failure(run_module, options, says):
    result = run_module(torchcodec_abi_info, **options)
    assert result["failed"]
    assert says in result["msg"]


def test_a_folder_that_is_no_environment_is_a_failure_with_a_hint(run_module, tmp_path):
    result = run_module(torchcodec_abi_info, env=str(tmp_path))
    assert result["failed"]
    assert "expected `lib/python3.*/site-packages`" in result["msg"]
    assert result["hint"]
