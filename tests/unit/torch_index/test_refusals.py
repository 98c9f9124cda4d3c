"""What no index serves, and what is not understood: refused with the ways out."""

import pytest
from ansible.module_utils.armstage import torch_index
from ansible.module_utils.armstage.errors import ArmstageError

from .nodes import DATA, GB10, GB200, GH200, KNOWN, MAY, NOVEMBER, THOR, facts, refusal


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


def test_a_hint_of_another_form_is_said_as_it_is():
    assert refusal(facts(None, status="wedged", hint={"do": "reboot"}), **MAY).hint == "{'do': 'reboot'}"


@pytest.mark.parametrize("given", [None, {}, "ok", {"status": "ok"}, {"arch": "aarch64"}])
def test_what_is_no_facts_of_a_node_is_said_so(given):
    assert "facts of cuda_facts" in refusal(given, **MAY).message


def test_the_stagers_own_facts_are_refused():
    assert "`x86_64` host" in refusal(facts("13.0", arch="x86_64"), **MAY).message


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "fine"},
        {"status": ["ok"]},
        {"cuda_version": "thirteen"},
        {"cuda_version": "13"},
        {"cuda_version": []},
    ],
)
def test_facts_of_another_form_are_named(changes):
    with pytest.raises(ArmstageError) as raised:
        torch_index.choose(facts("13.0", **{"cuda_version": "13.0", **changes}), DATA, **MAY)
    assert f"`{next(iter(changes.values()))}`" in raised.value.message


@pytest.mark.parametrize("data", [None, "text", [], {}, {"armstage_compatibility": DATA}, {**DATA, "indexes": None}])
def test_data_that_are_not_the_compatibility_data_are_said_so(data):
    with pytest.raises(
        ArmstageError, match=r"the value of `armstage_compatibility`, but found no .*`indexes`"
    ) as raised:
        torch_index.choose(facts("13.0"), data, **MAY)
    assert "vars/compatibility.yml" in raised.value.hint


def test_a_python_without_the_gil_is_not_taken_for_the_one_with_it():
    assert "`3.13t`" in refusal(facts("13.0"), python="3.13t", **MAY).message


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


@pytest.mark.parametrize("force", ["cu131", "cu133", "cu134", "cpu", "13.0", 130, ["cu130"]])
def test_an_index_that_does_not_exist_is_refused_with_the_real_ones(force):
    error = refusal(facts("13.4", GB200), force=force, **MAY)
    assert f"`{force}`" in error.message
    assert all(tag in error.hint for tag in DATA["indexes"])
