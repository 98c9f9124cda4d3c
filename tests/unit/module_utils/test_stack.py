import copy
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage import stack

VARS = Path(__file__).resolve().parents[3] / "vars"
DATA = yaml.safe_load((VARS / "compatibility.yml").read_text())["armstage_compatibility"]
MAY, NOVEMBER = (
    yaml.safe_load((VARS / "stacks" / f"{name}.yml").read_text())["armstage_stack"] for name in ("2026.05", "2026.11")
)


def changed(base, **versions):
    """A stack with some versions overridden: torchcodec="0.12.0", ffmpeg=("n9.0", 9), uv="0.10.3", cpython="3.15.0"."""
    result = copy.deepcopy(base)
    for name, version in versions.items():
        if name == "ffmpeg":
            result["ffmpeg"].update(version=version[0], major=version[1])
        elif name in result["torch"]:
            result["torch"][name] = version
        else:
            result[name]["version"] = version
    return result


CASES = [
    # torchcodec and torchvision of another torch (cases.md B11, C2)
    (MAY, {"torchcodec": "0.11.0"}, []),
    (MAY, {"torchcodec": "0.17.0"}, []),
    (
        changed(MAY, torchvision="0.27.0"),
        {"torch": "2.12.0"},
        ["torchcodec `0.11.1`", "torch `2.12.0`", "torchcodec 0.17.0 for torch 2.12.0"],
    ),
    (
        NOVEMBER,
        {"torch": "2.14.0", "torchvision": "0.28.0"},
        [
            "torchvision `0.28.0`",
            "torch `2.14.0`",
            "torchvision 0.29.0 for torch 2.14.0",
            "torch 2.13.0 for torchvision 0.28.0",
        ],
    ),
    (NOVEMBER, {"torch": "2.15.0", "torchvision": "0.29.2"}, []),
    (NOVEMBER, {"torchvision": "0.29.2"}, []),
    # too old for a torchcodec at all
    (
        MAY,
        {"torch": "2.10.0", "torchvision": "0.25.0"},
        ["torchcodec `0.11.1`", "torch `2.10.0`", "Choose torch 2.11.0"],
    ),
    # no aarch64 wheel, and the placeholder (C7)
    (MAY, {"torchcodec": "0.10.0"}, ["torchcodec `0.10.0`", "no aarch64 wheel", "torchcodec 0.17.0 for torch 2.11.0"]),
    (MAY, {"torchcodec": "0.9.1"}, ["torchcodec `0.9.1`"]),
    (MAY, {"torchcodec": "0.0.0"}, ["torchcodec `0.0.0`", "placeholder", "torchcodec#1251"]),
    (MAY, {"torchcodec": "0.0.0dev"}, ["torchcodec `0.0.0dev`", "placeholder"]),
    (MAY, {"torchcodec": "0.0.0.dev0"}, ["torchcodec `0.0.0.dev0`", "placeholder"]),
    # an FFmpeg without a core (C3, C6)
    (MAY, {"ffmpeg": ("n8.1.2", 8)}, []),
    (
        MAY,
        {"ffmpeg": ("n9.0.2", 9)},
        ["torchcodec `0.11.1`", "FFmpeg `9`", "4, 5, 6, 7, 8", "FFmpeg 8 or torchcodec 0.17.0"],
    ),
    (NOVEMBER, {"ffmpeg": ("n9.0.2", 9)}, []),
    (NOVEMBER, {"ffmpeg": ("n9.0.2", "9")}, []),
    (NOVEMBER, {"ffmpeg": ("N-118000-gabcdef0123", 9)}, []),
    (NOVEMBER, {"ffmpeg": ("n3.4", 3)}, ["torchcodec `0.17.0`", "FFmpeg `3`", "FFmpeg 9"]),
    (MAY, {"ffmpeg": ("n8.1.2", 7)}, ["FFmpeg `n8.1.2`", "major `7`", "Set the major to 8"]),
    # uv (B3, D7)
    (MAY, {"uv": "0.10.2"}, []),
    (MAY, {"uv": "0.10.3"}, ["uv `0.10.3`", "Bad file descriptor", "astral-sh/uv#18061"]),
    (MAY, {"uv": "0.9.3"}, ["uv `0.9.3`", "CUDA 13", "from 0.9.4 on"]),
    # versions nobody knows
    (MAY, {"torch": "2.11"}, ["`2.11`", "2.11.0", "./armstage indexes --refresh"]),
    (MAY, {"torchvision": "0.99.0"}, ["torchvision", "`0.99.0`", "0.26.0"]),
    (MAY, {"torchcodec": "1.0.0"}, ["torchcodec", "`1.0.0`", "0.11.1"]),
]


@pytest.mark.parametrize(("base", "versions", "words"), CASES, ids=[str(versions) for _base, versions, _words in CASES])
def test_a_set_is_sound_or_has_one_problem_that_names_the_pair(base, versions, words):
    found = stack.problems(changed(base, **versions), DATA)
    assert len(found) == bool(words)
    for problem in found:
        assert set(problem) == {"message", "hint"}
        for word in words:
            assert word in f"{problem['message']} {problem['hint']}"
        assert not problem["message"].endswith(".")


@pytest.mark.parametrize(
    ("version", "sound"), [("3.10.0", True), ("3.14.2", True), ("3.9.18", False), ("3.15.0", False)]
)
def test_every_package_needs_a_wheel_for_the_python(version, sound):
    found = stack.problems(changed(MAY, cpython=version), DATA)
    minor = version.rpartition(".")[0]
    expected = [] if sound else [f"{name} `{MAY['torch'][name]}`" for name in ("torch", "torchvision", "torchcodec")]
    assert [problem["message"].split(" has no ")[0] for problem in found] == expected
    assert all(f"Python `{minor}`" in problem["message"] and "3.10-3.14" in problem["hint"] for problem in found)


def test_the_nodes_own_python_counts_where_it_is_used():
    assert stack.problems(changed(MAY, cpython="3.15.0"), DATA, python="3.13") == []
    assert stack.problems(MAY, DATA, python="3.9") != []


def test_a_python_that_only_a_newer_torch_has_wheels_for():
    found = stack.problems(NOVEMBER, DATA, python="3.15")
    assert "torch 2.15.0" in found[0]["hint"]


def test_several_problems_are_all_told():
    found = stack.problems(
        changed(MAY, uv="0.10.3", torchcodec="0.0.0", ffmpeg=("n3.4", 7), torchvision="0.25.0"), DATA
    )
    assert [problem["message"].split(" ")[0] for problem in found] == ["uv", "torchcodec", "torchvision", "FFmpeg"]


@pytest.mark.parametrize(
    ("versions", "tag", "undeclared"),
    [
        (MAY["torch"], "cu130", ["nvidia-npp>=13.0,<13.1"]),
        (MAY["torch"], "cu128", ["nvidia-npp-cu12==12.4.1.87"]),
        ({**MAY["torch"], "torchcodec": "0.13.0"}, "cu130", []),
        (NOVEMBER["torch"], "cu130", []),
    ],
)
def test_requirements_are_the_three_and_what_torchcodec_does_not_declare(versions, tag, undeclared):
    three = [f"{name}=={versions[name]}" for name in ("torch", "torchvision", "torchcodec")]
    assert stack.torch_requirements(versions, DATA, tag) == three + undeclared
