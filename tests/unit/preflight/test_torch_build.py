"""A3: which torch is there, and whether it is the right one; A5: the environment's own Python."""

import ast
import os
import shutil
import sys

import pytest
from ansible.module_utils.armstage.preflight import live
from ansible.module_utils.armstage.preflight.context import Context
from ansible.module_utils.armstage.preflight.request import Request
from ansible.module_utils.armstage.preflight.torch_build import tag, torch_conditions
from ansible.module_utils.armstage.run import Completed

GH200, GB200 = "banner-570.133.20-gh200.txt", "banner-590.48.01-gb200.txt"


def write_torch(staged, version, cuda):
    (staged.site / "torch/version.py").write_text(f"__version__ = '{version}'\ncuda = {cuda!r}\n")


def test_a_staged_torch_passes(look_into):
    found = look_into("A3")
    assert found.status == "PASS"
    assert found.detail.startswith(
        "torch 2.11.0+cu130 with CUDA 13.0, torchvision 0.26.0+cu130 and torchcodec 0.11.1+cu130"
    )
    assert "there is none here" in found.detail


def test_a_cpu_wheel_is_a_failure_and_what_it_replaced_is_said(look_into, staged):
    write_torch(staged, "2.10.0+cpu", None)
    found = look_into("A3")
    assert found.status == "FAIL"
    assert found.detail == (
        "torch 2.10.0+cpu is a CPU build: torch.version.cuda is None"
        " (torch was staged as 2.11.0+cu130 and is 2.10.0+cpu now: something has replaced the wheel)"
    )
    assert "./armstage stage" in found.hint


@pytest.mark.parametrize(
    ("package", "own", "status", "word"),
    [
        (
            "torchvision",
            "0.26.0+cu129",
            "FAIL",
            "torch 2.11.0+cu130 and torchvision 0.26.0+cu129 are of different CUDA builds",
        ),
        ("torchvision", "0.26.0+cpu", "FAIL", "torchvision 0.26.0+cpu"),
        ("torchvision", "0.26.0", "PASS", "torchvision 0.26.0"),
        ("torchcodec", "0.11.1+cu132", "PASS", "torchcodec 0.11.1+cu132"),
        ("torchcodec", "0.11.1+cu128", "FAIL", "torchcodec 0.11.1+cu128"),
        ("torchaudio", "2.11.0+cu128", "FAIL", "torchaudio 2.11.0+cu128"),
    ],
)
def test_builds_for_different_cuda_versions_are_both_named(look_into, staged, package, own, status, word):
    (staged.env / ".armstage.json").unlink()
    staged.package(package, own.partition("+")[0], own)
    found = look_into("A3")
    assert (found.status, word in found.detail) == (status, True), found.detail


def test_a_torchvision_for_another_torch(look_into, staged):
    staged.package("torchvision", "0.27.0", "0.27.0+cu130", ["numpy", "torch==2.12.0", "torch>=1; extra == 'x'"])
    staged.record()
    found = look_into("A3")
    assert found.status == "FAIL"
    assert "torchvision 0.27.0 needs torch ==2.12.0, and torch 2.11.0 is installed" in found.detail


def test_a_wheel_that_is_gone(look_into, staged):
    os.rename(staged.site / "torch", staged.site / "away")
    assert look_into("A3").detail == "torch 2.11.0 was staged here and is gone"
    (staged.env / ".armstage.json").unlink()
    shutil.rmtree(staged.site / "torch-2.11.0.dist-info")
    assert look_into("A3").status == "SKIP"


@pytest.mark.parametrize(
    ("driver", "banner", "cuda", "status", "word"),
    [
        ("570.133.20", GH200, "13.0", "FAIL", "torch is built with CUDA 13.0, and driver 570.133.20 offers CUDA 12.8"),
        ("590.48.01", GB200, "13.2", "WARN", "cudaErrorUnsupportedPtxVersion"),
        ("590.48.01", GB200, "13.0", "PASS", "driver CUDA 13.1"),
        ("590.48.01", GB200, "12.8", "PASS", "driver CUDA 13.1"),
        ("610.43.02", "banner-610.43.02-b200.txt", "13.0", "PASS", "driver CUDA 13.3"),
    ],
)
def test_the_index_against_the_driver(look_into, host, staged, driver, banner, cuda, status, word):
    host.driver(driver, banner)
    staged.record()
    tagged = f"2.11.0+cu{cuda.replace('.', '')}"
    write_torch(staged, tagged, cuda)
    (staged.site / "torchvision/version.py").write_text("__version__ = '0.26.0'\n")
    (staged.site / "torchcodec/version.py").write_text("__version__ = '0.11.1'\n")
    (staged.env / ".armstage.json").unlink()
    found = look_into("A3")
    assert (found.status, word in found.detail) == (status, True), found.detail


@pytest.mark.parametrize(
    ("build", "capability", "status"), [("cu126", "12.1", "FAIL"), ("cu128", "12.1", "PASS"), ("cu128", "11.0", "FAIL")]
)
def test_a_build_without_kernels_for_the_gpu(look_into, host, staged, build, capability, status):
    host.spark(capability=capability)
    (staged.env / ".armstage.json").unlink()
    for package, version in (("torchvision", "0.26.0"), ("torchcodec", "0.11.1")):
        (staged.site / package / "version.py").write_text(f"__version__ = '{version}'\n")
    write_torch(staged, f"2.11.0+{build}", f"{build[2:4]}.{build[4]}")
    found = look_into("A3")
    assert found.status == status, found.detail
    if status == "FAIL":
        assert f"is of compute capability {capability}: no kernel image is available" in found.detail


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ("failure-mismatch.txt", "the driver was upgraded under a loaded module"),
        ("banner-535.183.06-cuda-err.txt", "libcuda not usable"),
    ],
)
def test_a_driver_that_cannot_be_used(look_into, host, answer, word):
    host.driver("580.126.09" if "mismatch" in answer else "535.183.06", answer)
    found = look_into("A3")
    assert (found.status, word in found.detail) == ("FAIL", True), found.detail


def test_a_node_whose_gpus_are_hidden(look_into, host):
    host.driver("580.95.05", "failure-no-devices.txt")
    found = look_into("A3")
    assert found.status == "WARN"
    assert "--gres=gpu" in found.hint


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.11.0+cu130", "cu130"), ("2.9.1+cpu", "cpu"), ("2.11.0", ""), ("2.10.0a0+b558c986e8.nv25.11", "")],
)
def test_the_tag_of_a_build(version, expected):
    assert tag(version) == expected


class TestWhatIsLeftOfAnInstallation:
    """Folders that pip, uv and people leave behind: what is imported counts, not what a name says."""

    @staticmethod
    def leave(staged, folder, text):
        (staged.site / folder).mkdir(exist_ok=True)
        (staged.site / folder / "METADATA").write_text(text)

    def test_what_pip_moved_out_of_the_way(self, look_into, staged):
        self.leave(staged, "~orch-2.10.0.dist-info", "Name: torch\nVersion: 2.10.0\n\n")
        assert look_into("A3").status == "PASS"

    def test_one_version_over_another(self, look_into, staged):
        self.leave(staged, "torch-2.9.1.dist-info", "Name: torch\nVersion: 2.9.1\n\n")
        found = look_into("A3")
        assert found.status == "WARN", found.detail
        assert found.detail == "torch is installed more than once: `torch-2.11.0.dist-info` and `torch-2.9.1.dist-info`"
        assert "uv pip uninstall torch" in found.hint

    @pytest.mark.parametrize("text", ["", "\0", "Name: foo\n", "Version: 1\n\nName: foo\n"])
    def test_an_unfinished_one_is_named_and_hides_nothing_else(self, look_into, staged, text):
        self.leave(staged, "foo-1.0.dist-info", text)
        (staged.site / "torch/version.py").write_text("__version__ = '2.11.0+cpu'\ncuda = None\n")
        assert look_into("A3").status == "FAIL"
        found = look_into("A1")
        assert (found.status, "foo-1.0.dist-info/METADATA` holds no Name and Version" in found.detail) == ("WARN", True)

    def test_torch_without_its_folder(self, look_into, staged):
        (staged.env / ".armstage.json").unlink()
        shutil.rmtree(staged.site / "torch")
        found = look_into("A3")
        assert (found.status, "says that torch 2.11.0 is installed" in found.detail) == ("FAIL", True)

    @pytest.mark.parametrize("text", [None, "cuda = '13.0'\n"])
    def test_a_folder_without_torch_is_not_called_a_cpu_build(self, look_into, staged, text):
        path = staged.site / "torch/version.py"
        path.write_text(text) if text else path.unlink()
        found = look_into("A3")
        assert (found.status, "is no whole torch" in found.detail) == ("FAIL", True), found.detail
        assert look_into("G1").status == "SKIP"

    def test_an_editable_one_is_not_called_absent(self, look_into, staged):
        (staged.env / ".armstage.json").unlink()
        shutil.rmtree(staged.site / "torch")
        url = '{"url": "file:///home/u/pytorch", "dir_info": {"editable": true}}'
        (staged.site / "torch-2.11.0.dist-info/direct_url.json").write_text(url)
        found = look_into("A3")
        assert (found.status, "torch 2.11.0 is an editable installation" in found.detail) == ("WARN", True)
        assert "is an editable installation" in look_into("G1").detail

    def test_a_fifo_is_not_waited_for(self, look_into, staged):
        (staged.site / "torch/version.py").unlink()
        os.mkfifo(staged.site / "torch/version.py")
        found = look_into("A3")
        assert (found.status, "it is a FIFO, not a file" in found.detail) == ("WARN", True)


def test_conditions_in_metadata():
    wanted = ("torch (==2.11.0)", "Torch>=2,<3", "torch>1; extra == 'a'", "torchaudio==2.11.0")
    text = "Name: x\n" + "".join(f"Requires-Dist: {each}\n" for each in wanted) + "\nRequires-Dist: torch==9\n"
    assert torch_conditions(text) == ["==2.11.0", ">=2,<3"]


class TestLive:
    """A5. The environment's Python is this one, wherever its file says what machine it is for."""

    @pytest.fixture
    def judge(self, host, staged):
        def call(answer, **options):
            context = Context(Request(env=str(staged.env), **{**host.options, **options}))
            out = answer if isinstance(answer, str) else "noise\n" + ascii(answer)
            return live.judge(context, "python", Completed(("python",), 0, out, "Traceback\nImportError: x\n"), 0.06)

        return call

    @pytest.fixture
    def answer(self, staged):
        return {
            "python": "3.12.12",
            "machine": "aarch64",
            "prefix": str(staged.env),
            "torch": f"{staged.site}/torch/__init__.py",
        }

    def test_it_answers(self, judge, answer):
        found = judge(answer)
        assert (found.status, found.detail) == (
            "PASS",
            "Python 3.12.12 (aarch64) answers in 0.06 s, would import torch from the environment; not imported"
            " (--live does)",
        )

    def test_torch_from_elsewhere(self, judge, answer):
        found = judge({**answer, "torch": "/home/u/.local/lib/python3.12/site-packages/torch/__init__.py"})
        assert (found.status, "outside the environment" in found.detail) == ("FAIL", True)

    def test_it_crashes(self, judge):
        assert judge("").detail == "`python` said: ImportError: x"

    def test_it_hangs(self, host, staged):
        context = Context(Request(env=str(staged.env), timeout=2, **host.options))
        found = live.judge(context, "python", Completed(("python",), None, "", "", timed_out=True, abandoned=True), 2)
        assert found.detail == "`python` did not answer within 2 s and could not be killed"

    @pytest.mark.parametrize(
        ("changes", "status"),
        [
            ({"available": True, "gpu": "NVIDIA GB10", "capability": "12.1", "sum": 499500}, "PASS"),
            ({"available": True, "gpu": "NVIDIA GB10", "capability": "12.1", "sum": 499501}, "FAIL"),
            ({"available": False}, "FAIL"),
        ],
    )
    def test_torch_was_imported_where_there_is_a_gpu(self, judge, answer, host, changes, status):
        host.spark()
        found = judge({**answer, "live": {"torch": "2.11.0+cu130", "cuda": "13.0", **changes}})
        assert found.status == status, found.detail

    def test_without_a_gpu_none_is_missed(self, judge, answer):
        assert judge({**answer, "live": {"torch": "2.11.0+cu130", "cuda": "13.0", "available": False}}).status == "PASS"

    def test_an_interpreter_for_another_machine_is_not_run(self, look_into):
        found = look_into("A5")
        assert found.status == "SKIP" if os.uname().machine != "aarch64" else "FAIL"

    def test_the_script_runs_in_any_python(self, tmp_path):
        import subprocess

        (tmp_path / "torch").mkdir()
        (tmp_path / "torch/__init__.py").write_text("raise SystemExit('imported')\n")
        done = subprocess.run(
            [sys.executable, "-c", live.SCRIPT],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(tmp_path)},
        )
        assert ast.literal_eval(done.stdout)["torch"] == f"{tmp_path}/torch/__init__.py"
