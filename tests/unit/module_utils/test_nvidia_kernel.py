"""The loaded module as /sys and /proc show it."""

from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage.nvidia import hardware, kernel, processes
from ansible.module_utils.armstage.nvidia.driver_table import DRIVER_CUDA, cuda_of_branch, cuda_of_driver
from ansible.module_utils.armstage.nvidia.reading import same_version

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "nvidia" / "proc"
EXPECTED = yaml.safe_load((FIXTURES / "expected.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXPECTED)
def test_proc_text(name):
    module = kernel.parse_proc((FIXTURES / name).read_text(encoding="utf-8"))
    assert {field: getattr(module, field) for field in EXPECTED[name]} == EXPECTED[name]


def test_every_proc_text_has_expected_values():
    assert {path.name for path in FIXTURES.glob("*.txt")} == set(EXPECTED)


@pytest.mark.parametrize("rest", [" for aarch64  35.3[.1", " for13.0 580.142", " for aarch64580.142", ""])
def test_damaged_nvrm_line_has_no_version(rest):
    assert kernel.parse_proc(f"NVRM version: NVIDIA UNIX Open Kernel Module{rest}").version is None


def test_both_files_are_read(tmp_path):
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("580.142\n")
    text = (FIXTURES / "open-580.142-aarch64.txt").read_text()
    (tmp_path / "proc/driver/nvidia/version").write_text(text)
    found = kernel.read(str(tmp_path))
    assert found.loaded
    assert [reading.source for reading in found.readings] == [
        "/sys/module/nvidia/version",
        "/proc/driver/nvidia/version",
    ]
    assert found.readings[0].line == "580.142"
    assert found.readings[1].line == text.splitlines()[0]
    assert found.gpus is None
    assert found.unreadable == []


@pytest.mark.parametrize("text", ["", "\n", "580", "580.142 extra", "580.142.x", "12.0.0.0.0", "\x00", "35.3[.1"])
def test_sys_text_that_is_no_version(tmp_path, text):
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text(text)
    found = kernel.read(str(tmp_path))
    assert found.loaded
    assert found.readings == []
    assert len(found.unreadable) == 1


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"6.8.0/modules.dep": "kernel/a/nvidia-uvm.ko: b\nupdates/dkms/nvidia.ko.zst: \n"},
            "6.8.0/updates/dkms/nvidia.ko.zst",
        ),
        ({"6.8.0/modules.dep": "kernel/a/nvidia-uvm.ko: x/nvidia.ko\n"}, None),
        ({"6.8.0/extra/nvidia.ko.xz": ""}, "6.8.0/extra/nvidia.ko.xz"),
        ({"6.8.0/modules.dep": "", "6.9.0/kernel/drivers/video/nvidia.ko": ""}, "6.9.0/kernel/drivers/video/nvidia.ko"),
        ({}, None),
    ],
)
def test_installed_module(tmp_path, files, found):
    for path, text in files.items():
        (tmp_path / "lib/modules" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib/modules" / path).write_text(text)
    assert kernel.installed_module(str(tmp_path)) == (found and f"/lib/modules/{found}")


@pytest.mark.parametrize(
    ("version", "cuda"),
    [
        ("570.172.08", "12.8"),
        ("580.95.05", "13.0"),
        ("590.48.01", "13.1"),
        ("595.84", "13.2"),
        ("610.43.02", "13.3"),
        ("616.56", "13.4"),
        ("600.10", "13.2"),
        ("450.66", "11.0"),
        ("449.99", None),
        ("35.3.1", None),
        ("", None),
        ("R580", None),
        ("٥٨٠.1", None),
    ],
)
def test_cuda_of_driver(version, cuda):
    assert cuda_of_driver(version) == cuda


def test_cuda_of_branch_knows_no_branch_between():
    assert (cuda_of_branch("580.95.05"), cuda_of_branch("616.56")) == ("13.0", None)


def test_the_table_is_sorted_and_rises():
    branches = [int(branch) for branch, _cuda in DRIVER_CUDA]
    versions = [tuple(map(int, cuda.split("."))) for _branch, cuda in DRIVER_CUDA]
    assert branches == sorted(branches, reverse=True)
    assert versions == sorted(versions, reverse=True)
    assert len(set(versions)) == len(DRIVER_CUDA)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("580.159.03", "580.159", True),
        ("580.159", "580.159.03", True),
        ("580.159.03", "580.15", False),
        ("580.126.09", "580.159", False),
        ("580.142", "580.142", True),
    ],
)
def test_same_version(one, other, same):
    assert same_version(one, other) is same


@pytest.mark.parametrize(
    ("name", "capability", "platform"),
    [
        ("NVIDIA GB10", "12.1", "spark"),
        ("NVIDIA RTX Spark N1X (6144-core Blackwell RTX GPU)", None, "spark"),
        ("NVIDIA Graphics Device", "12.1", "spark"),
        ("NVIDIA GB200", "10.0", "grace-blackwell"),
        ("NVIDIA GB300", "10.3", "grace-blackwell"),
        ("NVIDIA GH200 480GB", "9.0", "grace-hopper"),
        ("GH200 120GB", None, "grace-hopper"),
        ("NVIDIA H100 PCIe", "9.0", "other"),
        ("NVIDIA B200", "10.0", "other"),
        ("Orin (nvgpu)", "8.7", "jetson"),
        ("NVIDIA Thor", "11.0", "jetson"),
        ("NVIDIA GeForce RTX 5090", "12.0", "other"),
        (None, None, "other"),
    ],
)
def test_platform_of_a_gpu(tmp_path, name, capability, platform):
    found = hardware.platform([{"name": name, "compute_capability": capability}], None, str(tmp_path))
    assert found.value == platform


def test_holders_of_the_devices(tmp_path):
    for pid, name, target in (
        (7, "Xorg", "/dev/nvidia0"),
        (12, "bash", "/dev/null"),
        (90, "VLLM::EngineCor", "/dev/nvidia-uvm"),
    ):
        (tmp_path / f"proc/{pid}/fd").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/fd/3").symlink_to(target)
        (tmp_path / f"proc/{pid}/comm").write_text(f"{name}\n")
    (tmp_path / "proc/99").mkdir()
    (tmp_path / "proc/self").mkdir()
    found = processes.holders(str(tmp_path))
    assert [(process["pid"], process["name"]) for process in found.value] == [(7, "Xorg"), (90, "VLLM::EngineCor")]
    assert found.line == "2 processes hold /dev/nvidia*"
