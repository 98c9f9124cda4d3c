"""preflight_info as Ansible runs it."""

import preflight_info
import pytest
from ansible.module_utils.armstage.preflight.request import NUMBERS


@pytest.fixture
def spark(tmp_path):
    """The part of a Spark below a root that says what it is."""
    for path, text in {
        "proc/sys/kernel/arch": "aarch64\n",
        "proc/meminfo": "MemTotal: 127600796 kB\nMemFree: 108000000 kB\nMemAvailable: 120000000 kB\n",
        "proc/driver/nvidia/gpus/000f:01:00.0/information": "Model: \t\t NVIDIA GB10\n",
        "sys/module/nvidia/version": "580.95.05\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return str(tmp_path)


@pytest.mark.parametrize("check", [False, True])
def test_every_check_has_its_line(run_module, spark, check):
    result = run_module(preflight_info, check=check, root=spark)
    assert [each["id"] for each in result["checks"]] == list(NUMBERS)
    assert [line.split()[0] for line in result["lines"]] == list(NUMBERS)
    assert all(
        line == f"{each['id']} {each['status']}: {each['detail']}"
        for line, each in zip(result["lines"], result["checks"], strict=True)
    )
    assert result["verdict"] in ("ready", "ready-with-warnings", "blocked")
    assert result["changed"] is False
    assert result["host"]["cuda"]["platform"] == "spark"


@pytest.mark.parametrize(("workload", "verdict"), [(80, "ready"), ("80GiB", "ready"), ({"memory_gib": 110}, "blocked")])
def test_a_workload(run_module, spark, workload, verdict):
    assert run_module(preflight_info, root=spark, checks=["G3"], workload=workload)["verdict"] == verdict


def test_checks_are_named_as_people_type_them(run_module, spark):
    result = run_module(preflight_info, root=spark, checks=["g3", "A1"], skip=["a1"])
    assert [each["id"] for each in result["checks"]] == ["G3"]


@pytest.mark.parametrize(
    "options",
    [
        {"checks": ["G11"]},
        {"workload": "much"},
        {"timeout": 0},
        {"timeout": "inf"},
        {"timeout": "nan"},
        {"sample": "nan"},
        {"sample": -1},
        {"checks": ["G3"], "skip": ["G3"]},
    ],
)
def test_what_is_not_understood(run_module, options):
    result = run_module(preflight_info, **options)
    assert result["failed"]
    assert "`" in result["msg"]
    assert result["hint"]


def test_a_root_that_is_no_folder(run_module):
    result = run_module(preflight_info, root="/nowhere")
    assert (result["failed"], "there is no folder `/nowhere`" in result["msg"]) == (True, True)
