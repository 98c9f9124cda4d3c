"""The index that a node gets: every case of a public report."""

import pytest
from ansible.module_utils.armstage import torch_index
from ansible.module_utils.armstage.versions import release

from .nodes import DATA, GB10, GB200, GB300, GH200, KNOWN, MAY, NOVEMBER, THOR, choose, facts, refusal


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


@pytest.mark.parametrize("status", ["ok", "no-driver", "no-devices"])
def test_a_given_cuda_version_is_enough(status):
    assert torch_index.choose(facts("13.0", status=status), DATA, **MAY)["tag"] == "cu130"


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
