"""armstage-preflight on an aarch64 node: nothing to report as it was staged, each planted fault by its own check."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab import podman

sys.path.append(str(Path(__file__).resolve().parents[1] / "unit"))

from elf.builder import Elf
from elf.planted import Root
from preflight.hosts import Host

from armstage.preflight import bandwidth

pytestmark = pytest.mark.arm64

QUIET = {"PASS", "SKIP", "INFO"}


def replace(path, content):
    """Put another file in a file's place: its other names keep what they were."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
    return path


class Copy:
    """A copy of the staged root, with what can be planted in it and what the job then looks like."""

    def __init__(self, root, node):
        self.root, self.node, self.variables, self.options = root, node, {}, []
        self.env = (root / "envs/cu130").resolve()
        self.site = next(self.env.glob("lib/python3.*/site-packages"))

    def package(self, name, version, record=False):
        replace(
            self.site / f"{name.replace('-', '_')}-{version}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n"
        )
        if record:
            content = json.loads((self.env / ".armstage.json").read_text())
            content["extra"]["installed"][name] = version
            replace(self.env / ".armstage.json", json.dumps(content))

    def spark(self, **changes):
        """Let the node look like a Spark; the folder of its files is the host planted there."""
        folder = self.root.parent / f"host-{os.urandom(3).hex()}"
        folder.mkdir()
        host = Host(folder).spark(**changes)
        self.options = ["--root", str(host.root), "--nvidia-smi", str(host.smi)]
        return host

    def preflight(self, *options):
        """What --json prints in a job that sourced env.sh: {number: finding}, and the exit status."""
        exports = "".join(f"export {name}='{value}'; " for name, value in self.variables.items())
        words = " ".join([*self.options, *options])
        script = f". {self.root}/env.sh && {exports} exec armstage-preflight --json {words}"
        done = podman.attempt("exec", self.node, "sh", "-c", script, timeout=300)
        assert done.rc in (0, 1, 2), done.err
        return {check["id"]: check for check in json.loads(done.out)["checks"]}, done.rc


@pytest.fixture
def copy(copy_of_staged, node):
    return Copy(copy_of_staged, node)


def x86_library(copy):
    replace(copy.site / "pkg/_native.so", bytes(Elf(machine="x86_64")))


def leaked_virtual_env(copy):
    folder = copy.root.parent / "login-venv"
    replace(folder / "bin/python", bytes(Elf(machine="x86_64", type="EXEC")))
    copy.variables["VIRTUAL_ENV"] = folder


def cpu_torch(copy):
    replace(copy.site / "torch/version.py", "__version__ = '2.10.0+cpu'\ncuda = None\n")


def mixed_builds(copy):
    replace(copy.site / "torchvision/version.py", "__version__ = '0.26.0+cu129'\n")


def ffmpeg_5(copy):
    (copy.root / "ffmpeg-linuxarm64").unlink()
    Root.ffmpeg(type("Base", (), {"base": copy.root})(), 5, "ffmpeg-linuxarm64")


def x86_ffmpeg(copy):
    (copy.root / "ffmpeg-linuxarm64").unlink()
    Root.ffmpeg(type("Base", (), {"base": copy.root})(), 7, "ffmpeg-linuxarm64", machine="x86_64")


def python_that_dies(copy):
    replace(copy.site / "broken.pth", "import os; os._exit(7)\n")


def cu12_nccl(copy):
    copy.package("nvidia-nccl-cu12", "2.27.3")


def cu12_extension(copy):
    replace(copy.site / "vllm/_C.abi3.so", bytes(Elf(needed=["libcudart.so.12"])))


def flash_attention_for_another_torch(copy):
    copy.package("flash-attn", "2.8.3+cu130torch2.9", record=True)


def cache_full(copy):
    copy.spark(meminfo="gb10-cache-full")


def slowed_down(copy):
    copy.spark(sensors="0, 48, 14.21, 2405, 3003, 0, 0x0000000000000001, 173453251, 0, 0")


def leftover(copy):
    copy.spark().processes("6330, 96073 MiB, sglang::scheduler")


def old_assembler(copy):
    """Triton's other assembler, of CUDA 12.8, which really does not know sm_121a."""
    copy.spark()
    copy.variables["TRITON_PTXAS_BLACKWELL_PATH"] = copy.site / "triton/backends/nvidia/bin/ptxas"


def old_image(copy):
    copy.variables["NVIDIA_PYTORCH_VERSION"] = "25.09"


def drift(copy):
    copy.package("vllm", "0.25.2")


def tensor_parallel(copy):
    copy.spark()
    config = replace(
        copy.root.parent / "serve.yaml", "# served on one Spark\nengine_args:\n  tensor_parallel_size: 2\n"
    )
    copy.options += ["--config", str(config)]


FAULTS = [
    (x86_library, {"A1": "FAIL"}, "pkg/_native.so` is for x86_64"),
    (leaked_virtual_env, {"A2": "FAIL"}, "VIRTUAL_ENV="),
    (cpu_torch, {"A3": "FAIL", "G1": "FAIL"}, "is a CPU build"),
    (mixed_builds, {"A3": "FAIL"}, "torchvision 0.26.0+cu129"),
    (ffmpeg_5, {"A4": "FAIL"}, "FFmpeg 5"),
    (x86_ffmpeg, {"A4": "FAIL"}, "x86_64"),
    (python_that_dies, {"A5": "FAIL"}, "exit status 7"),
    (cu12_nccl, {"G1": "FAIL"}, "nvidia-nccl-cu12 2.27.3"),
    (cu12_extension, {"G1": "FAIL"}, "needs `libcudart.so.12`"),
    (flash_attention_for_another_torch, {"G2": "FAIL"}, "built for torch 2.9"),
    (cache_full, {"G3": "WARN"}, "39.1 GiB are page cache"),
    (slowed_down, {"G4": "WARN"}, "173.5 s of software thermal slowdown"),
    (leftover, {"G6": "FAIL"}, "sglang::scheduler"),
    (old_assembler, {"G7": "WARN"}, "Value 'sm_121a' is not defined for option 'gpu-name'"),
    (old_image, {"G8": "WARN"}, "25.09 does not see the GPU of a Spark"),
    (drift, {"G9": "WARN"}, "added vllm 0.25.2"),
    (tensor_parallel, {"G10": "FAIL"}, "tensor_parallel_size 2"),
]


@pytest.mark.parametrize("as_a_spark", [False, True], ids=["without-a-driver", "as-a-spark"])
def test_as_it_was_staged_there_is_nothing_to_report(copy, as_a_spark):
    if as_a_spark:
        copy.spark()
    checks, status = copy.preflight()
    told = {number: f"{check['status']}: {check['detail']}" for number, check in checks.items()}
    assert {check["status"] for check in checks.values()} <= QUIET, told
    assert status == 0
    passed = {number for number, check in checks.items() if check["status"] == "PASS"}
    assert passed >= {"A1", "A2", "A3", "A4", "A5", "G1"} | ({"G3", "G4", "G6", "G7"} if as_a_spark else set()), told


@pytest.mark.parametrize(("plant", "expected", "words"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_exactly_the_check_of_a_planted_fault_reports_it(copy, plant, expected, words):
    plant(copy)
    checks, status = copy.preflight()
    loud = {number: check["status"] for number, check in checks.items() if check["status"] not in QUIET}
    assert loud == expected, {number: checks[number]["detail"] for number in {*loud, *expected}}
    assert words in next(checks[number]["detail"] for number in expected)
    assert all(checks[number]["hint"] for number in expected)
    assert status == (2 if "FAIL" in expected.values() else 1)


def test_live_imports_torch(copy):
    checks, status = copy.preflight("--only", "A5", "--live", "--timeout", "240")
    assert (checks["A5"]["status"], status) == ("PASS", 0), checks["A5"]
    assert "torch 2.11.0+cu130, CUDA 13.0, torch.cuda.is_available() False" in checks["A5"]["detail"]


def test_the_bandwidth_script_runs_with_the_real_torch(copy):
    """On the processor: what is shown is that the script measures, not how fast a GPU is."""
    script = replace(copy.root.parent / "bandwidth.py", bandwidth.SCRIPT)
    words = f". {copy.root}/env.sh && exec python -B {script} cpu {8 * 2**20}"
    done = podman.attempt("exec", copy.node, "sh", "-c", words, timeout=300)
    figures = json.loads(done.out.splitlines()[-1])
    assert figures["bytes"] == 8 * 2**20
    assert figures["copy"] > 0 < figures["read"]


def test_the_program_is_staged_once(staged, play):
    root, _played = staged
    program = root / "bin/armstage-preflight"
    assert os.access(program, os.X_OK)
    before = program.stat()
    played = play("stage", root)
    assert played.changed == 0, played.changed_tasks
    after = program.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_playbook_says_the_same_and_writes_the_report(staged, play, tmp_path, node):
    root, _played = staged
    played = play("preflight", root, "-e", f"preflight_report={tmp_path}/report")
    assert played.status == 0, played.text
    assert played.changed == 0
    assert "A1 PASS: " in played.text
    assert "verdict: ready\n" in played.text
    assert f"report: {tmp_path}/report/report.html" in played.text
    report = json.loads((tmp_path / "report/report.json").read_text())
    assert [host["name"] for host in report["hosts"]] == [node]
    assert {release["name"] for release in report["hosts"][0]["host"]["staged"]["releases"]} == {
        "uv",
        "ffmpeg",
        "env-cu130",
    }


def test_a_blocked_node_fails_the_playbook_after_the_report_was_written(copy, play, tmp_path):
    cpu_torch(copy)
    played = play("preflight", copy.root, "-e", f"preflight_report={tmp_path}/report")
    assert played.status != 0
    assert "G1 FAIL: torch 2.10.0+cpu is a CPU build" in played.text
    assert (tmp_path / "report/report.html").exists()
    assert subprocess.run(["grep", "-c", "is blocked", tmp_path / "report/report.html"], check=False).returncode == 0
