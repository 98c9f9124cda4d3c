"""The ctypes path for real, against stand-ins for libcuda and NVML that the host's compiler builds."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from ansible.module_utils.armstage.nvidia import driver, kernel, libraries
from ansible.module_utils.armstage.nvidia.merge import Host
from ansible.module_utils.armstage.nvidia.reading import Reading

ROOT = Path(__file__).resolve().parents[3]
build = runpy.run_path(str(ROOT / "tests/lab/stubs/build.py"))["build"]
UUID = "GPU-6f1e5ab9-2c39-8c1f-7fb7-0d6d92a5fb5a"
GB10 = f"driver 580.95.05\ncuda 13000\ngpu NVIDIA GB10|{UUID}|0000000F:01:00.0|-|12.1|-\n"
GB200 = "driver 570.172.08\ncuda 12080\n" + "".join(
    f"gpu NVIDIA GB200|GPU-{n}|0000000{n}:01:00.0|189471|10.0|0\n" for n in range(4)
)
MIG = (
    "driver 570.133.20\ncuda 12080\n"
    "gpu NVIDIA GH200 480GB|GPU-6983d37f|00000009:01:00.0|97871|9.0|1\n"
    "mig 0|NVIDIA GH200 480GB MIG 3g.48gb|MIG-51fa7c7a|2|0|47616\n"
    "mig 0|NVIDIA GH200 480GB MIG 2g.24gb|MIG-27b1a30b|3|0|23552\n"
    "mig 0|NVIDIA GH200 480GB MIG 1g.24gb|MIG-GPU-6983d37f/9/0|9|0|23552\n"
)

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc on this host")


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    return build(tmp_path_factory.mktemp("stubs"), compiler="gcc")


@pytest.fixture(scope="module")
def newer(tmp_path_factory):
    return build(tmp_path_factory.mktemp("newer"), compiler="gcc", version="580.159.03")


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    return build(tmp_path_factory.mktemp("old"), compiler="gcc", version="440.33.01", defines=("STUB_OLD",))


@pytest.fixture
def answers(stubs, tmp_path, monkeypatch):
    """Let the stand-ins answer from this text, with no nvidia-smi on the PATH."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stubs))
    monkeypatch.setenv("ARMSTAGE_STUB", str(tmp_path / "stub.conf"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def write(text):
        (tmp_path / "stub.conf").write_text(text)

    return write


def test_gb10(answers):
    answers(GB10 + f"process 0|{os.getpid()}|1024|C\nprocess 0|4194303|-|G\n")
    facts = driver.read(timeout=20)
    assert facts["status"] == "ok"
    assert (facts["user_driver"], facts["cuda_version"]) == ("580.95.05", "13.0")
    assert facts["gpus"] == [
        {
            "index": 0,
            "name": "NVIDIA GB10",
            "uuid": UUID,
            "bus_id": "0000000F:01:00.0",
            "memory_total_mib": None,
            "compute_capability": "12.1",
            "mig": None,
        }
    ]
    assert (facts["platform"], facts["unified_memory"]) == ("spark", True)
    assert facts["memory_total_mib"] > 0
    assert [(process["pid"], process["type"], process["used_memory_mib"]) for process in facts["processes"]] == [
        (os.getpid(), "C", 1024),
        (4194303, "G", None),
    ]
    assert facts["processes"][0]["name"] == Path("/proc/self/comm").read_text().strip()
    assert facts["processes"][1]["name"] is None
    assert facts["sources"]["cuda_version"] == {"source": "libcuda", "line": "cuDriverGetVersion -> 13000"}
    assert facts["sources"]["gpus"]["source"] == "NVML"
    assert facts["disagreements"] == []


def test_four_gb200(answers):
    answers(GB200)
    facts = driver.read(timeout=20)
    assert [gpu["memory_total_mib"] for gpu in facts["gpus"]] == [189471] * 4
    assert {gpu["compute_capability"] for gpu in facts["gpus"]} == {"10.0"}
    assert [gpu["mig"] for gpu in facts["gpus"]] == [False] * 4
    assert (facts["platform"], facts["cuda_version"], facts["processes"]) == ("grace-blackwell", "12.8", [])


def test_gpus_of_different_kinds(answers):
    answers(
        "driver 580.142\ncuda 13000\n"
        "gpu Tesla T4|GPU-t4|00000000:41:00.0|15360|7.5|-\n"
        "gpu NVIDIA A30|GPU-a30|00000000:81:00.0|24576|8.0|0\n"
    )
    facts = driver.read(timeout=20)
    assert [(gpu["name"], gpu["compute_capability"], gpu["mig"]) for gpu in facts["gpus"]] == [
        ("Tesla T4", "7.5", None),
        ("NVIDIA A30", "8.0", False),
    ]


def test_mig_devices_in_both_uuid_forms(answers):
    answers(MIG)
    facts = driver.read(timeout=20)
    assert [gpu["mig"] for gpu in facts["gpus"]] == [True]
    assert [(mig["uuid"], mig["gpu_instance_id"], mig["memory_total_mib"]) for mig in facts["mig_devices"]] == [
        ("MIG-51fa7c7a", 2, 47616),
        ("MIG-27b1a30b", 3, 23552),
        ("MIG-GPU-6983d37f/9/0", 9, 23552),
    ]
    assert facts["mig_devices"][0]["name"] == "NVIDIA GH200 480GB MIG 3g.48gb"


def test_more_processes_than_the_first_buffer_holds(answers):
    answers(GB10 + "".join(f"process 0|{5000 + n}|1|C\n" for n in range(200)))
    assert len(driver.read(timeout=20)["processes"]) == 200


def test_process_functions_of_an_old_driver(old, answers, monkeypatch):
    answers(GB10 + "process 0|4242|7|C\nprocess 0|4243|8|C\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(old))
    found = driver.read(timeout=20)["processes"]
    assert [(process["pid"], process["used_memory_mib"]) for process in found] == [(4242, 7), (4243, 8)]


def test_mismatch_names_the_library_by_its_file(newer, answers, monkeypatch):
    answers("cuda 13000\nfail nvmlInit_v2 18\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(newer))
    facts = driver.read(timeout=20)
    assert facts["status"] == "driver-library-mismatch"
    assert facts["user_driver"] == "580.159.03"
    assert "18 NVML_ERROR_LIB_RM_VERSION_MISMATCH" in facts["message"]
    assert "not evidence" in facts["hint"]


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("cuda 13000\nfail nvmlInit_v2 9\n", "driver-not-loaded", "9 NVML_ERROR_DRIVER_NOT_LOADED"),
        ("driver 580.142\ncuda 13000\n", "no-devices", "nvmlDeviceGetCount_v2 -> 0"),
        (GB10.replace("cuda 13000\n", ""), "cuda-unreported", "cuDriverGetVersion returned 34"),
        (GB10 + "fail cuDriverGetVersion 34\n", "ok", "CUDA 13.0"),
        (GB10 + "fail nvmlDeviceGetComputeRunningProcesses_v2 4\n", "ok", "4 NVML_ERROR_NO_PERMISSION"),
        (GB10 + "fail nvmlDeviceGetHandleByIndex_v2 15\n", "ok", "GPU 0: nvmlDeviceGetHandleByIndex_v2 -> 15"),
        ("cuda 13000\nfail nvmlInit_v2 999\n", "driver-not-loaded", "nvmlInit_v2 -> 999 NVML_ERROR_UNKNOWN"),
        (GB10 + "fail nvmlDeviceGetMigMode 13\nfail nvmlDeviceGetMemoryInfo 3\n", "ok", "NVIDIA GB10"),
    ],
)
def test_refusals(answers, text, status, words):
    answers(text)
    facts = driver.read(timeout=20)
    assert facts["status"] == status
    assert words in facts["message"]


@pytest.mark.parametrize(
    ("code", "words"), [(999, "In a container"), (4, "/dev/nvidia*"), (17, "--gpus all"), (15, "fallen off the bus")]
)
def test_cuda_without_nvml_and_without_a_gpu_is_not_ok(answers, code, words):
    """cuDriverGetVersion touches no device: that it answers does not say that a CUDA program would find a GPU."""
    answers(f"cuda 13000\nfail nvmlInit_v2 {code}\n")
    loaded = kernel.Kernel(loaded=True, readings=[Reading("580.95.05", "/sys/module/nvidia/version", "580.95.05")])
    facts = driver.facts(Host("/", loaded, [libraries.ask(20)]), {})
    assert (facts["status"], facts["cuda_version"]) == ("no-devices", "13.0")
    assert facts["message"].count(f"nvmlInit_v2 -> {code}") == 1
    assert words in facts["hint"]


def test_nvml_that_lacks_a_file_of_its_own_says_nothing_about_cuda(answers):
    answers("cuda 13000\nfail nvmlInit_v2 12\n")
    loaded = kernel.Kernel(loaded=True, readings=[Reading("580.95.05", "/sys/module/nvidia/version", "580.95.05")])
    facts = driver.facts(Host("/", loaded, [libraries.ask(20)]), {})
    assert facts["status"] == "ok"
    assert "12 NVML_ERROR_LIBRARY_NOT_FOUND" in facts["message"]


def test_without_libcuda(answers, stubs, tmp_path, monkeypatch):
    """NVML alone: the driver is kept, and CUDA is not taken from NVML's built-in number or the table."""
    alone = tmp_path / "nvml"
    alone.mkdir()
    (alone / "libnvidia-ml.so.1").symlink_to(stubs / "libnvidia-ml.so.1")
    answers(GB10.replace("cuda 13000\n", ""))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(alone))
    facts = driver.read(timeout=20)
    assert (facts["status"], facts["user_driver"], facts["cuda_version"]) == ("cuda-unreported", "580.95.05", None)
    assert "libcuda.so.1: cannot open shared object file" in facts["message"]


def test_without_nvml(answers, stubs, tmp_path, monkeypatch):
    alone = tmp_path / "cuda"
    alone.mkdir()
    (alone / "libcuda.so.1").symlink_to(stubs / "libcuda.so.1")
    answers(GB10)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(alone))
    facts = driver.read(timeout=20)
    assert (facts["status"], facts["user_driver"], facts["cuda_version"]) == ("driver-not-loaded", "580.95.05", "13.0")
    assert "NVML does not load" in facts["message"]


@pytest.mark.parametrize("function", ["nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetMemoryInfo"])
def test_a_driver_that_hangs_in_nvml(answers, function):
    """Wedged within the time-out and a second; libcuda's answer, which needs no device, is kept."""
    answers(GB10 + f"hang {function}\n")
    before = time.monotonic()
    facts = driver.read(timeout=1.5)
    assert time.monotonic() - before < 2.5
    assert facts["status"] == "wedged"
    assert facts["cuda_version"] == "13.0"
    assert facts["sources"]["status"]["line"] == "NVML did not return within 1.5 s"


def test_a_wedged_driver_is_not_asked_again(answers, tmp_path):
    """After NVML hung, nvidia-smi would hang as well: it is not run."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\n: > {tmp_path}/was-run\n")
    smi.chmod(0o755)
    answers(GB10 + "hang nvmlInit_v2\n")
    assert driver.read(timeout=1)["status"] == "wedged"
    assert not (tmp_path / "was-run").exists()


def test_nvidia_smi_is_not_run_when_the_libraries_say_everything(answers, tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\n: > {tmp_path}/was-run\n")
    smi.chmod(0o755)
    answers(GB10)
    assert driver.read(timeout=20)["status"] == "ok"
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles"])
def test_cuda_visible_devices_set_to_nothing(answers, monkeypatch, value):
    answers(GB10)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    facts = driver.read(timeout=20)
    assert len(facts["gpus"]) == 1
    assert f"CUDA_VISIBLE_DEVICES is set to `{value}`" in facts["message"]


@pytest.mark.usefixtures("answers")
def test_a_library_that_is_no_library(tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in libraries.LIBRARIES:
        (broken / name).write_text("not an ELF file")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(broken))
    facts = driver.read(timeout=20)
    assert facts["status"] == "driver-not-loaded"
    assert "NVML does not load" in facts["message"]


def test_out_of_a_zip_file(answers, tmp_path):
    """As Ansible ships it: the package inside a zip file, from where the child gets its text."""
    archive = tmp_path / "payload.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in (ROOT / "module_utils/armstage").rglob("*.py"):
            file.write(path, path.relative_to(ROOT / "module_utils"))
    answers(GB10)
    code = "import json; from armstage.nvidia import driver; print(json.dumps(driver.read(timeout=20)))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(archive)}, capture_output=True, check=True
    )
    assert json.loads(done.stdout)["cuda_version"] == "13.0"


@pytest.mark.parametrize(
    ("number", "text"),
    [(13000, "13.0"), (12080, "12.8"), (13030, "13.3"), (11020, "11.2"), (0, None), (None, None), (34, None)],
)
def test_cuda_text(number, text):
    assert libraries.cuda_text(number) == text


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.580.159.03", "580.159.03"),
        ("/usr/lib/libcuda.so.580.142", "580.142"),
        ("/usr/lib/wsl/lib/libcuda.so.1", None),
        (None, None),
    ],
)
def test_file_version(path, version):
    assert libraries.file_version(path) == version


def test_present_without_any(monkeypatch, tmp_path):
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{tmp_path}:")
    before = time.monotonic()
    assert libraries.present() == []
    assert time.monotonic() - before < 0.1
