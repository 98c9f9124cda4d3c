"""The data of vars/ against itself, against the tables that go to the nodes, and against the stacks and their locks."""

import calendar
import re
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage import stack
from ansible.module_utils.armstage.compatibility import PACKAGES, Compatibility
from ansible.module_utils.armstage.elf.ffmpeg import MAJORS, major_of
from ansible.module_utils.armstage.versions import matches, release

VARS = Path(__file__).resolve().parents[3] / "vars"
DATA = yaml.safe_load((VARS / "compatibility.yml").read_text())["armstage_compatibility"]
STACKS = {path.stem: yaml.safe_load(path.read_text())["armstage_stack"] for path in (VARS / "stacks").glob("*.yml")}
KNOWN = Compatibility(DATA)


def facts():
    """Every fact of the data: (where, fact)."""
    for table in (
        "driver_cuda",
        "gpu_architectures",
        "indexes",
        "torch",
        "torchcodec",
        "torchcodec_libraries",
        "ffmpeg",
        "preflight",
    ):
        for name, fact in DATA[table].items():
            yield f"{table} {name}", fact
    for entry in DATA["uv_auto"]:
        yield f"uv_auto {entry['tag']}", entry
    for name, limits in DATA["limits"].items():
        yield f"{name} minimum", limits["minimum"]
        for version, fact in limits["denied"].items():
            yield f"{name} {version}", fact


def test_every_fact_has_a_date_and_a_source():
    tables = {where.split()[0] for where, _fact in facts()} | {"date", "limits"}
    assert tables == set(DATA) | set(DATA["limits"])
    for where, fact in facts():
        assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", fact["date"]), where
        assert fact["date"] <= DATA["date"], where
        assert fact["source"].strip(), where


def test_drivers_are_those_the_nodes_know():
    from ansible.module_utils.armstage.nvidia.driver_table import DRIVER_CUDA

    assert [(branch, driver["cuda"]) for branch, driver in DATA["driver_cuda"].items()] == list(DRIVER_CUDA)


def test_a_drivers_first_version_is_of_its_branch():
    for branch, driver in DATA["driver_cuda"].items():
        assert driver["driver"].startswith(f"{branch}.")


def test_indexes_are_named_by_their_cuda_and_lie_at_their_name():
    for tag, index in DATA["indexes"].items():
        assert tag == f"cu{index['cuda'].replace('.', '')}"
        assert index["url"].endswith(f"/{tag}")
        assert index["cuda"] in {driver["cuda"] for driver in DATA["driver_cuda"].values()}
        assert index["ptx"] in [None, index["architectures"][-1]]
        assert set(index["architectures"]) <= set(DATA["gpu_architectures"])


@pytest.mark.parametrize("name", PACKAGES)
def test_indexes_hold_known_versions_each_once(name):
    for index in DATA["indexes"].values():
        assert set(index[name]) <= set(KNOWN.versions(name))
        assert sorted(set(index[name]), key=release) == index[name]


def test_every_torch_with_a_cuda_build_is_in_an_index():
    held = {version for index in DATA["indexes"].values() for version in index["torch"]}
    assert held == set(DATA["torch"])
    assert {row["pypi"] for row in DATA["torch"].values()} <= {"cpu", *DATA["indexes"]}


def test_a_torchvision_lies_where_a_torch_lies_that_it_goes_with():
    for tag, index in DATA["indexes"].items():
        for name in ("torchvision", "torchcodec"):
            for version in index[name]:
                assert set(KNOWN.torches(name, version)) & set(index["torch"]), (tag, name, version)


def test_uv_tries_only_indexes_that_are_known():
    assert {entry["tag"] for entry in DATA["uv_auto"]} == set(DATA["indexes"])
    assert {entry["driver"].split(".")[0] for entry in DATA["uv_auto"]} <= set(DATA["driver_cuda"])


def test_the_nodes_know_the_same_sonames_of_ffmpeg():
    assert {str(major) for major in MAJORS} == set(DATA["ffmpeg"])
    for major, numbers in MAJORS.items():
        sonames = DATA["ffmpeg"][str(major)]["sonames"]
        assert numbers == tuple(number for library, number in sonames.items() if library != "postproc")
        assert major_of(f"libavutil.so.{sonames['avutil']}") == major


def test_ffmpeg_majors_are_told_apart_by_avutil():
    numbers = [fact["sonames"]["avutil"] for fact in DATA["ffmpeg"].values()]
    assert numbers == sorted(set(numbers))
    for codec in DATA["torchcodec"].values():
        assert {str(major) for major in codec["ffmpeg"]} <= set(DATA["ffmpeg"])
        assert set(codec["needs"]) <= set(DATA["torchcodec_libraries"])


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("python", [None, "3.13"])
def test_stacks_belong_together(name, python):
    assert STACKS[name]["name"] == name
    assert stack.problems(STACKS[name], DATA, python=python) == []


@pytest.mark.parametrize("name", STACKS)
def test_stacks_pin_every_source(name):
    for component in ("uv", "cpython", "ffmpeg"):
        sources = STACKS[name][component]["sources"]
        assert sources
        for source in sources:
            assert source["kind"] in ("upstream", "pypi")
            assert re.match(r"https://github\.com/|pypi:", source["url"])
            assert re.fullmatch(r"[0-9a-f]{64}", source.get("sha256", "")) or source["sha256_url"].startswith(
                "https://"
            )


def test_ffmpeg_builds_are_of_a_months_end():
    """Builds of other days are deleted after two weeks."""
    for wanted in STACKS.values():
        url = wanted["ffmpeg"]["sources"][0]["url"]
        year, month, day = map(int, re.search(r"autobuild-(\d+)-(\d+)-(\d+)-\d+-\d+/", url).groups())
        assert day == calendar.monthrange(year, month)[1]
        assert wanted["ffmpeg"]["version"] in url


def pins(path):
    """{(name, version): hashes} of a file of pins."""
    found = {}
    for entry in re.findall(r"^[^#\s].*(?:\n[ \t].*)*", (VARS / "stacks" / path).read_text(), re.MULTILINE):
        name, version = re.match(r"([\w.-]+)==([^\s;]+)", entry).groups()
        found[name, version] = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
    return found


@pytest.mark.parametrize("name", STACKS)
def test_locks_pin_with_hashes_what_the_stack_installs(name):
    torch = STACKS[name]["torch"]
    for tag, path in torch["locks"].items():
        locked = pins(path)
        assert all(locked.values())
        for requirement in stack.torch_requirements(torch, DATA, tag) + torch["also"]:
            project, condition = re.match(r"([\w-]+)(.+)", requirement).groups()
            assert any(pinned == project and matches(version, condition) for pinned, version in locked), requirement
        assert DATA["torch"][torch["torch"]]["pypi"] == tag
        assert "http" not in (VARS / "stacks" / path).read_text()


@pytest.mark.parametrize("name", STACKS)
def test_constraints_are_the_part_of_the_lock_that_is_the_same_for_every_cuda(name):
    torch = STACKS[name]["torch"]
    locked = pins(next(iter(torch["locks"].values())))
    common = pins(torch["constraints"])
    assert common.items() <= locked.items()
    left_out = {project for project, _version in locked.keys() - common.keys()}
    assert {"torch", "torchvision", "torchcodec", "triton", "nvidia-cublas", "cuda-toolkit"} <= left_out
    assert not {"numpy", "pillow", "sympy", "setuptools"} & left_out
