"""What is made of the proof's output, and the proof's command run for real on a planted root."""

import json

import pytest
from ansible.module_utils.armstage.proof import judge, prove
from ansible.module_utils.armstage.run import Completed

GOOD = {
    "torch": "2.11.0+cu130",
    "torch_cuda": "13.0",
    "torchcodec": "0.11.1",
    "ffmpeg_major": 7,
    "frames": 60,
    "shape": [3, 180, 320],
    "gpu": None,
    "wrong": [],
    "ok": True,
}


def ended(out="", err="", rc=1, **how):
    return Completed(("sh", "-c", "proof"), rc, out, err, **how)


def test_a_good_proof_is_told_in_one_sentence():
    result = judge(ended("a library's greeting\n" + json.dumps(GOOD) + "\n", rc=0), 600)
    assert result["ok"]
    assert result["message"] == (
        "torch 2.11.0+cu130 (CUDA 13.0) and torchcodec 0.11.1 with FFmpeg 7 decoded 60 frames of 320x180, "
        "no GPU seen: decoded on the CPU"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"torch": "2.11.0+cpu", "torch_cuda": None}, "torch 2.11.0+cpu is a CPU build"),
        ({"wrong": ["expected 60 frames, but decoded 12"]}, "expected 60 frames, but decoded 12"),
    ],
)
def test_a_proof_that_shows_something_else_says_what(changes, words):
    result = judge(ended(json.dumps({**GOOD, **changes, "ok": False})), 600)
    assert not result["ok"]
    assert words in result["message"]
    assert result["hint"]


@pytest.mark.parametrize(
    ("completed", "words"),
    [
        (ended(err="Traceback\nOSError: libavutil.so.59: cannot open\n"), "OSError: libavutil.so.59: cannot open"),
        (ended(err="armstage: gb01 is x86_64; this\nlast line\n"), "armstage: gb01 is x86_64"),
        (ended(err=""), "status 1 and said: nothing"),
        (ended(rc=-11), "status -11"),
        (ended(timed_out=True, rc=None), "within 600 s"),
        (ended(timed_out=True, abandoned=True, rc=None), "could not be killed"),
    ],
)
def test_a_proof_that_did_not_get_that_far_says_why(completed, words):
    result = judge(completed, 600)
    assert not result["ok"]
    assert words in result["message"]
    assert result["proof"] == {}


def test_the_command_sources_env_sh_and_assumes_the_cuda_it_is_told(tmp_path):
    root = tmp_path / "a root's folder"
    (root / "share/armstage").mkdir(parents=True)
    (root / "env.sh").write_text(f"PATH='{tmp_path}':$PATH\n")
    (tmp_path / "python").write_text('#!/bin/sh\necho "python: $ARMSTAGE_CUDA_VERSION $*" >&2; exit 4\n')
    (tmp_path / "python").chmod(0o755)
    result = prove(str(root), cuda_version="13.0; touch /tmp/x", timeout=20)
    assert result["message"].endswith(f"status 4 and said: python: 13.0; touch /tmp/x {root}/share/armstage/prove.py")
