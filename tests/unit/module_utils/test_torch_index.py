"""The choice of a wheel index: every case of a public report, then properties over the whole data."""

import contextlib
import re
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage import torch_index
from ansible.module_utils.armstage.compatibility import Compatibility
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.versions import release
from hypothesis import given, settings
from hypothesis import strategies as st

VARS = Path(__file__).resolve().parents[3] / "vars"
DATA = yaml.safe_load((VARS / "compatibility.yml").read_text())["armstage_compatibility"]
KNOWN = Compatibility(DATA)

GH200, GB200, GB300, GB10, THOR = ["9.0"], ["10.0"] * 4, ["10.3"] * 4, ["12.1"], ["11.0"]
MAY = {"torch": "2.11.0", "torchvision": "0.26.0", "torchcodec": "0.11.1"}
NOVEMBER = {"torch": "2.14.1", "torchvision": "0.29.1", "torchcodec": "0.17.0"}


def facts(cuda, capabilities=(), **changes):
    gpus = [{"index": index, "compute_capability": capability} for index, capability in enumerate(capabilities)]
    return {"status": "ok", "arch": "aarch64", "cuda_version": cuda, "gpus": gpus, **changes}


def choose(cuda, capabilities=(), **wanted):
    return torch_index.choose(facts(cuda, capabilities), DATA, **wanted)


def refusal(given, **wanted):
    with pytest.raises(ArmstageError) as caught:
        torch_index.choose(given, DATA, **wanted)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("cuda", "gpu", "wanted", "tag"),
    [
        ("13.0", GB200, MAY, "cu130"),
        ("13.1", GB10, MAY, "cu130"),  # there is no cu131 (A6)
        ("13.2", GB200, MAY, "cu130"),  # cu132 has no torch 2.11 (A6, B10)
        ("13.2", GB200, {"torch": "2.12.0"}, "cu132"),
        ("13.2", GB200, NOVEMBER, "cu132"),
        ("13.3", GB10, NOVEMBER, "cu132"),  # the driver of A1: there is no cu133
        ("13.4", GB200, NOVEMBER, "cu132"),  # B10
        ("13.4", GB200, MAY, "cu130"),
        ("13.1", GB200, NOVEMBER, "cu130"),
        ("13.0", GB200, {"torch": "2.15.0"}, "cu130"),  # PyPI's own is of CUDA 13.2
        ("12.8", GB200, MAY, "cu128"),
        ("12.9", GB200, MAY, "cu128"),
        ("12.8", GH200, MAY, "cu128"),
        ("12.8", GH200, NOVEMBER, "cu126"),  # B17
        ("12.6", GH200, MAY, "cu126"),
        ("12.7", GH200, MAY, "cu126"),
        ("13.0", GH200, MAY, "cu130"),
        ("12.8", GB10, MAY, "cu128"),  # 12.1 runs what is built for 12.0 (B13)
        ("13.0", GB300, MAY, "cu130"),  # 10.3 runs what is built for 10.0
        ("12.9", GB300, MAY, "cu128"),
        ("13.0", THOR, MAY, "cu130"),
        ("13.0", GB10, {"torch": "2.8.0"}, "cu129"),  # B8: per version, not per index
        ("13.0", GB10, {"torch": "2.9.1"}, "cu130"),
        ("12.8", GB200, {"torch": "2.7.1"}, "cu128"),
        ("13.5", ["12.9"], MAY, "cu130"),  # a GPU that is not known yet, of a known major
        ("13.5", ["13.0"], MAY, "cu130"),  # and of a new one: compiled from PTX
        ("13.0", ["9.0", "12.1"], MAY, "cu130"),  # GPUs of different kinds
        ("13.0.2", GB200, MAY, "cu130"),
    ],
)
def test_the_newest_index_that_serves_the_node(cuda, gpu, wanted, tag):
    choice = choose(cuda, gpu, **wanted)
    assert choice["tag"] == choice["rule_tag"] == tag
    assert choice["url"] == f"https://download.pytorch.org/whl/{tag}"
    assert choice["cuda"] == DATA["indexes"][tag]["cuda"]
    assert choice["forced"] is False
    assert all(f"{name} {version}" in choice["reason"] for name, version in wanted.items())
    newer = [name for name, index in KNOWN.indexes() if release(index["cuda"]) > release(choice["cuda"])]
    assert [rejected["tag"] for rejected in choice["rejected"]] == newer


@pytest.mark.parametrize(
    ("cuda", "gpu", "wanted", "reasons"),
    [
        ("13.1", GB10, {"torch": "2.12.0"}, {"cu132": "CUDA 13.2 is newer than the driver's 13.1"}),
        (
            "13.2",
            GB10,
            MAY,
            {"cu132": "no aarch64 CUDA wheel of torch 2.11.0, torchvision 0.26.0 and torchcodec 0.11.1"},
        ),
        (
            "12.9",
            GH200,
            NOVEMBER,
            {
                "cu132": "CUDA 13.2 is newer than the driver's 12.9",
                "cu130": "CUDA 13.0 is newer than the driver's 12.9",
                "cu129": "no aarch64 CUDA wheel of torch 2.14.1, torchvision 0.29.1 and torchcodec 0.17.0",
                "cu128": "no aarch64 CUDA wheel of torch 2.14.1, torchvision 0.29.1 and torchcodec 0.17.0",
            },
        ),
    ],
)
def test_newer_indexes_are_listed_with_why_they_were_not_taken(cuda, gpu, wanted, reasons):
    assert {entry["tag"]: entry["reason"] for entry in choose(cuda, gpu, **wanted)["rejected"]} == reasons


@pytest.mark.parametrize(
    ("cuda", "gpu", "wanted", "message", "hint"),
    [
        (
            "12.8",
            GB200,
            {"torch": "2.12.0"},
            ["cu126: no kernels for compute capability 10.0", "cu128: no aarch64 CUDA wheel of torch 2.12.0"],
            ["Stage torch 2.11.0 from cu128", "upgrade the driver to 580 or newer (CUDA 13.0), for which cu130"],
        ),
        (
            "12.8",
            GB200,
            NOVEMBER,
            ["torch 2.14.1, torchvision 0.29.1 and torchcodec 0.17.0"],
            ["Stage torch 2.11.0, torchvision 0.26.0 and torchcodec 0.11.1 from cu128", "580 or newer"],
        ),
        ("12.8", GH200, {"torch": "2.15.0"}, ["cu126: no aarch64"], ["Stage torch 2.14.1 from cu126", "580 or newer"]),
        (  # B17, with a GPU nobody has seen: the last torch of each kind
            "12.8",
            [],
            {"torch": "2.15.0"},
            ["CUDA 12.8"],
            [
                "torch 2.14.1 from cu126, the newest for CUDA 12.8 on Ampere and Hopper",
                "torch 2.11.0 from cu128, the newest for CUDA 12.8 on Blackwell",
            ],
        ),
        ("12.8", THOR, MAY, ["cu128: no kernels for compute capability 11.0"], ["Upgrade the driver to 580"]),  # B14
        ("12.8", GB10, {"torch": "2.8.0"}, ["cu128: no aarch64 CUDA wheel of torch 2.8.0"], ["driver to 575 or newer"]),
        (  # B9: the torch is there, its torchvision is not
            "12.8",
            GB200,
            {"torch": "2.9.1", "torchvision": "0.24.1"},
            ["cu128: no aarch64 CUDA wheel of torchvision 0.24.1"],
            ["Stage torch 2.11.0 and torchvision 0.26.0 from cu128"],
        ),
        ("12.2", GH200, MAY, ["CUDA 12.2"], ["Upgrade the driver to 560 or newer (CUDA 12.6), for which cu126"]),
        ("12.6", GB200, MAY, ["cu126: no kernels for compute capability 10.0"], ["Upgrade the driver to 570 or newer"]),
        (
            "13.0",
            ["7.5"],
            MAY,
            ["no kernels for compute capability 7.5, only for 8.0, 9.0, 10.0, 11.0, 12.0"],
            ["Nothing known runs there"],
        ),
        ("13.0", GB200, {**MAY, "python": "3.15"}, ["torch 2.11.0 for Python 3.15"], ["Nothing known runs there"]),
        ("13.0", GB200, {"torch": "2.11.0", "python": "3.15"}, ["Python 3.15"], ["Stage torch 2.15.0 from cu130"]),
    ],
)
def test_a_refusal_names_the_ways_out(cuda, gpu, wanted, message, hint):
    error = refusal(facts(cuda, gpu), **wanted)
    for words in message:
        assert words in error.message
    for words in hint:
        assert words in error.hint


@pytest.mark.parametrize(
    "gpus", [[], None, [{"name": "GB10"}], [{"compute_capability": None}], [{"compute_capability": "N/A"}]]
)
def test_an_unknown_gpu_is_not_held_against_an_index_and_is_said(gpus):
    choice = torch_index.choose(facts("12.8", gpus=gpus), DATA, **MAY)
    assert choice["tag"] == "cu128"
    assert "GPU unknown" in choice["reason"]
    assert "8.0, 9.0, 10.0, 12.0" in choice["reason"]
    assert "GPU unknown" not in choose("12.8", GB200, **MAY)["reason"]


def test_a_known_gpu_counts_even_beside_an_unknown_one():
    mixed = facts("12.8", ["10.0", None])
    assert "GPU unknown" in torch_index.choose(mixed, DATA, **MAY)["reason"]
    assert "no kernels for compute capability 10.0" in refusal(mixed, **NOVEMBER).message


@pytest.mark.parametrize(
    ("status", "cuda", "remedy"),
    [
        ("driver-library-mismatch", None, "Reboot the node or reload"),  # A14
        ("driver-library-mismatch", "13.0", "Reboot the node or reload"),
        ("wedged", None, "Reboot the node"),  # A19
        ("wedged", "13.0", "Reboot the node"),
        ("driver-not-loaded", None, "modprobe nvidia"),  # A18
        ("driver-not-loaded", "13.0", "modprobe nvidia"),
        ("cuda-unreported", None, "libcuda"),  # A5, A16
        ("no-driver", None, "armstage_cuda_version"),
        ("no-devices", None, "armstage_cuda_version"),
        ("ok", None, "armstage_cuda_version"),
    ],
)
@pytest.mark.parametrize("forced", [False, True])
def test_nothing_is_chosen_for_a_node_whose_cuda_is_not_known(status, cuda, remedy, forced):
    given = facts(cuda, GB200, status=status)
    if forced and cuda is None and status in torch_index.TRUSTED:
        choice = torch_index.choose(given, DATA, force="cu130", **MAY)
        assert (choice["tag"], choice["rule_tag"]) == ("cu130", None)
        assert "CUDA version is not known" in choice["reason"]
        return
    error = refusal(given, force="cu130" if forced else None, **MAY)
    assert f"`{status}`" in error.message
    assert remedy in error.hint


def test_what_cuda_facts_says_comes_first():
    error = refusal(
        facts(None, status="wedged", message="nvidia-smi did not end in 10 s", hint="Power cycle it"), **MAY
    )
    assert "nvidia-smi did not end in 10 s" in error.message
    assert error.hint == "Power cycle it"


@pytest.mark.parametrize("status", ["ok", "no-driver", "no-devices"])
def test_a_given_cuda_version_is_enough(status):
    assert torch_index.choose(facts("13.0", status=status), DATA, **MAY)["tag"] == "cu130"


@pytest.mark.parametrize("given", [None, {}, "ok", {"status": "ok"}, {"arch": "aarch64"}])
def test_what_is_no_facts_of_a_node_is_said_so(given):
    assert "facts of cuda_facts" in refusal(given, **MAY).message


def test_the_stagers_own_facts_are_refused():
    assert "`x86_64` host" in refusal(facts("13.0", arch="x86_64"), **MAY).message


@pytest.mark.parametrize("changes", [{"status": "fine"}, {"cuda_version": "thirteen"}, {"cuda_version": "13"}])
def test_facts_of_another_form_are_named(changes):
    with pytest.raises(ArmstageError, match=f"`{next(iter(changes.values()))}`"):
        torch_index.choose(facts("13.0", **{"cuda_version": "13.0", **changes}), DATA, **MAY)


@pytest.mark.parametrize(
    ("name", "version"), [("torch", "2.11"), ("torch", "2.99.0"), ("torchvision", "0.1.0"), ("torchcodec", "0.10.0")]
)
def test_an_unknown_version_is_answered_with_the_known_ones(name, version):
    error = refusal(facts("13.0"), **{**MAY, name: version})
    assert f"`{version}`" in error.message
    assert all(known in error.message for known in KNOWN.versions(name))
    assert "./armstage indexes --refresh" in error.hint


@pytest.mark.parametrize("written", ["2.11", "v2.11.0", " 2.11.0 ", "2.11.0+cu130", "2.11.0+cpu"])
def test_a_version_that_is_written_otherwise_is_told_how(written):
    error = refusal(facts("13.0"), torch=written)
    assert f"`{written}`" in error.message
    assert error.hint.startswith("Write it as `2.11.0`. ")


@pytest.mark.parametrize("written", ["", "None", ">=2.11", "2.15.0rc1", "2.16.0.dev20261120", "2.10.0a0+b4e4ee8"])
def test_what_is_no_release_of_torch_is_refused(written):
    error = refusal(facts("13.0"), torch=written)
    assert f"`{written}`" in error.message
    assert "Write it as" not in error.hint


@pytest.mark.parametrize(
    ("wanted", "instead"),
    [
        ({"torch": "2.11.0", "torchvision": "0.27.0"}, "torchvision 0.26.0 for torch 2.11.0"),
        ({"torch": "2.12.0", "torchcodec": "0.11.1"}, "torchcodec 0.17.0 for torch 2.12.0"),
    ],
)
@pytest.mark.parametrize("force", [None, "cu130"])
def test_a_pair_that_was_not_made_for_each_other_is_refused(wanted, instead, force):
    error = refusal(facts("13.0", GB10), force=force, **wanted)
    assert all(f"`{version}`" in error.message for version in wanted.values())
    assert instead in error.hint


@pytest.mark.parametrize("gpus", [{"0": {"compute_capability": "12.1"}}, ["NVIDIA GB10"], "NVIDIA GB10"])
def test_gpus_of_another_form_are_named(gpus):
    error = refusal({"status": "ok", "arch": "aarch64", "cuda_version": "13.0", "gpus": gpus}, **MAY)
    assert "`gpus` of the node" in error.message
    assert "cuda_facts" in error.hint


@pytest.mark.parametrize("cuda", ["N/A", "ERR!", "13", 13, "v13.0", "13.0x"])
def test_a_cuda_version_of_another_form_is_named(cuda):
    error = refusal({"status": "ok", "arch": "aarch64", "cuda_version": cuda, "gpus": []}, **MAY)
    said = "Expected a CUDA version such as `13.0` as `cuda_version` of the node, but received: "
    assert error.message == f"{said}`{cuda}`"


@pytest.mark.parametrize(("cuda", "capability"), [("12.6", "8.7"), ("13.2", "8.7"), ("12.9", "10.1"), ("13.0", "7.2")])
def test_a_jetson_runs_no_kernels_of_another_architecture(cuda, capability):
    """Desktop and server GPUs run those of their major version; Tegra does not (jax-ml/jax#40492)."""
    error = refusal(facts(cuda, [capability]), torch="2.11.0")
    assert f"no kernels for compute capability {capability}" in error.message
    assert not any(torch_index.runs_on(index, capability) for index in DATA["indexes"].values())
    assert torch_index.runs_on({"architectures": [capability], "ptx": None}, capability)


def test_a_forced_index_is_taken_and_said():
    choice = choose("13.0", GB200, force="cu128", **MAY)
    assert (choice["tag"], choice["forced"], choice["rule_tag"]) == ("cu128", True, "cu130")
    assert choice["reason"] == "forced; the rule would have chosen cu130"
    assert choose("13.0", GB200, force="cu130", **MAY)["forced"] is True


def test_what_speaks_against_a_forced_index_is_said():
    choice = choose("13.0", GB200, force="cu132", **MAY)
    assert "CUDA 13.2 is newer than the driver's 13.0" in choice["reason"]
    assert "no aarch64 CUDA wheel of torch 2.11.0" in choice["reason"]


def test_an_index_is_forced_where_the_rule_finds_none():
    choice = choose("12.2", GH200, force="cu126", **MAY)
    assert choice["tag"] == "cu126"
    assert choice["reason"].startswith("forced; the rule would have chosen none; CUDA 12.6 is newer")


@pytest.mark.parametrize("force", ["cu131", "cu133", "cu134", "cpu", "13.0"])
def test_an_index_that_does_not_exist_is_refused_with_the_real_ones(force):
    error = refusal(facts("13.4", GB200), force=force, **MAY)
    assert f"`{force}`" in error.message
    assert all(tag in error.hint for tag in DATA["indexes"])


@pytest.mark.parametrize(
    ("cuda", "wanted", "uv", "first", "pinned"),
    [
        ("13.0", MAY, None, "cu132", "cu130"),  # B2
        ("13.0", NOVEMBER, None, "cu132", "cu132"),
        ("13.0", MAY, "0.10.0", None, None),  # before cu132 was added
        ("13.0", NOVEMBER, "0.11.29", "cu132", "cu132"),
        ("12.8", MAY, None, "cu129", "cu128"),
        ("12.8", MAY, "0.10.0", "cu129", "cu128"),
        ("12.9", {"torch": "2.8.0"}, None, None, None),
        ("13.2", NOVEMBER, None, None, None),
        ("13.4", MAY, "0.13.9", "cu132", "cu130"),
    ],
)
def test_where_uv_would_choose_otherwise(cuda, wanted, uv, first, pinned):
    differs = choose(cuda, GH200, uv=uv, **wanted)["uv_auto"]
    if first is None:
        assert differs is None
    else:
        assert (differs["tag"], differs["pinned_tag"]) == (first, pinned)
        assert f"tries {first} first" in differs["reason"]


# Properties.

CUDAS = st.sampled_from([f"{major}.{minor}" for major in range(11, 15) for minor in range(10)])
CAPABILITIES = st.lists(
    st.sampled_from(["7.5", "8.0", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1", "13.0", None]), max_size=3
)
TORCHES = st.sampled_from(KNOWN.versions("torch"))
PYTHONS = st.sampled_from(["3.9", "3.10", "3.12", "3.13", "3.14", "3.15"])


@st.composite
def wanted_sets(draw):
    """A torch with partners that go with it, or without them."""
    torch = draw(TORCHES)
    partners = {name: KNOWN.partners(name, torch) for name in ("torchvision", "torchcodec")}
    chosen = {name: draw(st.sampled_from([None, *versions])) for name, versions in partners.items()}
    return {"torch": torch, "python": draw(PYTHONS), **chosen}


def tag_or_error(cuda, capabilities, wanted):
    try:
        return choose(cuda, capabilities, **wanted)["tag"], ""
    except ArmstageError as error:
        return None, error.hint


@settings(max_examples=300, deadline=None)
@given(CUDAS, CAPABILITIES, wanted_sets())
def test_a_choice_keeps_every_part_of_the_rule(cuda, capabilities, wanted):
    tag, hint = tag_or_error(cuda, capabilities, wanted)
    if tag is None:
        assert hint
        return
    index = DATA["indexes"][tag]
    assert release(index["cuda"]) <= release(cuda)
    assert tag != "cpu"
    assert all(wanted[name] is None or wanted[name] in index[name] for name in ("torch", "torchvision", "torchcodec"))
    for capability in filter(None, capabilities):
        major = capability.split(".")[0]
        assert index["ptx"] or major in {built.split(".")[0] for built in index["architectures"]}


@settings(max_examples=300, deadline=None)
@given(CUDAS, CUDAS, CAPABILITIES, wanted_sets())
def test_a_newer_driver_never_gets_an_older_index(one, other, capabilities, wanted):
    older, newer = sorted([one, other], key=release)
    before, _hint = tag_or_error(older, capabilities, wanted)
    after, _hint = tag_or_error(newer, capabilities, wanted)
    if before:
        assert after
        assert release(DATA["indexes"][after]["cuda"]) >= release(DATA["indexes"][before]["cuda"])


@settings(max_examples=300, deadline=None)
@given(CUDAS, CAPABILITIES, wanted_sets())
def test_every_way_out_is_one(cuda, capabilities, wanted):
    tag, hint = tag_or_error(cuda, capabilities, wanted)
    if tag or None in capabilities or not capabilities:
        return
    for text, index in re.findall(r"tage (torch .*?) from (cu\d+)", hint):
        versions = dict(re.findall(r"(torch\w*) ([\d.]+)", text))
        assert choose(cuda, capabilities, python=wanted["python"], **versions)["tag"] == index
    for driver, index in re.findall(r"\(CUDA ([\d.]+)\), for which (cu\d+)", hint):
        assert choose(driver, capabilities, **wanted)["tag"] == index


JUNK = st.recursive(
    st.none() | st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner, max_size=2), max_leaves=3
)


@settings(max_examples=300, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "status": st.sampled_from(["ok", "no-driver", "wedged", "odd", ""]) | JUNK.map(str),
            "arch": st.just("aarch64") | st.text(max_size=5),
            "cuda_version": CUDAS | st.none() | st.text(max_size=5),
            "gpus": st.none()
            | st.lists(
                st.fixed_dictionaries({"compute_capability": st.none() | st.text("0123456789.", max_size=5)}),
                max_size=2,
            ),
        },
    )
)
def test_facts_of_any_content_give_a_choice_or_a_clear_error(given):
    with contextlib.suppress(ArmstageError):
        choice = torch_index.choose(given, DATA, **MAY)
        assert release(choice["cuda"]) <= release(given["cuda_version"])
