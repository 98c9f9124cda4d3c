"""G6: who else is on the GPU; G5: what is measured, and when it is not; G8 and G9: playbooks and containers."""

import os
import subprocess
import sys

import pytest
from ansible.module_utils.armstage.preflight import bandwidth
from ansible.module_utils.armstage.preflight.occupancy import cap_of


class TestOthers:
    def test_nobody(self, spark):
        found = spark.look("G6")
        assert (found.status, found.detail) == ("PASS", "no other process on the GPU")

    def test_without_a_gpu(self, host):
        assert host.look("G6").status == "SKIP"

    def test_a_server_that_holds_most_of_the_memory(self, spark):
        found = spark.processes("6330, 96073 MiB, sglang::scheduler").look("G6")
        assert found.status == "FAIL"
        assert "`sglang::scheduler` (pid 6330, 96073 MiB) holds the GPU with 77% of the memory" in found.detail

    def test_a_smaller_one(self, spark):
        found = spark.processes("3150, 218 MiB, python3").look("G6")
        assert (found.status, found.detail) == ("WARN", "`python3` (pid 3150, 218 MiB) is on the GPU")

    def test_a_renamed_leftover_is_found_by_its_devices(self, spark):
        spark.process(4242, "VLLM::EngineCore", devices=("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"))
        found = spark.look("G6")
        assert (found.status, "`VLLM::EngineCor` (pid 4242)" in found.detail) == ("WARN", True)

    @pytest.mark.parametrize(
        ("arguments", "used", "status"),
        [
            (["serve", "--gpu-memory-utilization", "0.2"], "20000 MiB", "INFO"),
            (["serve", "--gpu-memory-utilization=.25"], "[N/A]", "INFO"),
            (["serve", "--gpu-memory-utilization", "0.2"], "60000 MiB", "WARN"),
            (["serve", "--gpu-memory-utilization", "0.85"], "[N/A]", "FAIL"),
            (["serve", "--mem-fraction-static", "0.1"], "9000 MiB", "INFO"),
        ],
    )
    def test_a_cap_on_its_command_line_is_believed_as_far_as_it_is_kept(self, spark, arguments, used, status):
        spark.process(4242, "vllm", arguments).processes(f"4242, {used}, vllm")
        found = spark.look("G6")
        assert found.status == status, found.detail
        assert "capped at" in found.detail

    def test_a_display_is_named_and_no_fault(self, host):
        host.spark().driver("580.95.05", "banner-580.95.05-gb10.txt")
        found = host.look("G6")
        assert found.status == "INFO"
        assert "`Xorg` (pid 3094, 43 MiB)" in found.detail

    def test_a_display_that_the_driver_does_not_list_is_named_too(self, spark):
        spark.process(77, "Xorg", devices=("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-modeset"))
        found = spark.look("G6")
        assert (found.status, found.detail) == ("INFO", "`Xorg` (pid 77): small or capped")

    def test_a_daemon_that_keeps_the_device_open_is_nobody(self, spark):
        spark.process(900, "nvidia-persistenced", devices=("/dev/nvidiactl", "/dev/nvidia0"))
        assert spark.look("G6").status == "PASS"

    @pytest.mark.parametrize(
        ("words", "cap"),
        [
            ([], None),
            (["--gpu-memory-utilization"], None),
            (["--gpu-memory-utilization", "high"], None),
            (["--gpu-memory-utilization=0.3"], 0.3),
            (["--mem_fraction_static", "1"], 1.0),
            (["--gpu-memory-utilization", "7"], None),
            (["--gpu-memory-utilization", "0.2", "--port", "80", "--gpu-memory-utilization=0.9"], 0.9),
        ],
    )
    def test_caps(self, words, cap):
        assert cap_of(["vllm", *words]) == cap

    @pytest.mark.parametrize("name", ["VLLM::EngineCore", "sglang::scheduler"])
    def test_a_server_that_has_named_itself_is_known_by_the_process_that_started_it(self, spark, name):
        """setproctitle puts the name where the command line was; the one that started it still has its own."""
        spark.processes(f"42, 20000 MiB, {name}")
        spark.process(42, name)
        spark.put("proc/42/status", "Name:\tx\nPPid:\t41\n")
        spark.put("proc/41/cmdline", "python3\0serve.py\0--gpu-memory-utilization\0" + "0.2\0")
        found = spark.look("G6")
        assert (found.status, "capped at 20%" in found.detail) == ("INFO", True), found.detail


class TestBandwidth:
    def test_it_is_opt_in(self, spark):
        assert "only measured where it is asked for" in spark.look("G5").detail

    def test_it_refuses_on_a_busy_gpu(self, look_into, host):
        host.spark().process(4242, "train")
        found = look_into("G5", checks=("G5",))
        assert (found.status, "in use by `train` (pid 4242)" in found.detail) == ("SKIP", True)

    def test_it_refuses_with_little_free(self, look_into, host):
        text = (host.root / "proc/meminfo").read_text()
        host.spark().put("proc/meminfo", "MemTotal: 127600796 kB\nMemFree: 1000000 kB\n" + text.split("\n", 2)[2])
        assert "are free" in look_into("G5", checks=("G5",)).detail

    def test_it_says_what_measuring_ended_with(self, look_into, host, staged):
        host.spark()
        python = staged.python / "bin/python3.12"
        python.write_text("#!/bin/sh\necho 'RuntimeError: no kernel image' >&2; exit 1\n")
        python.chmod(0o755)
        found = look_into("G5", checks=("G5",))
        assert (found.status, found.detail) == ("FAIL", "measuring ended with: RuntimeError: no kernel image")

    @pytest.mark.parametrize(
        ("read", "copy", "status"), [(232, 190, "PASS"), (215, 170, "PASS"), (150, 190, "WARN"), (232, 90, "WARN")]
    )
    def test_each_figure_against_its_own_kernel(self, read, copy, status):
        found = bandwidth.judge({"read": read, "copy": copy, "bytes": 1}, "spark", "NVIDIA GB10")
        assert found.status == status
        assert f"reads {read} GB/s (a sum) and copies {copy} GB/s (both ways counted)" in found.detail

    def test_no_expectation_for_a_platform_is_said(self):
        found = bandwidth.judge({"read": 4000, "copy": 3500, "bytes": 1}, "grace-blackwell", "NVIDIA GB200")
        assert found.status == "INFO"

    def test_the_script_counts_a_copy_twice_and_a_read_once(self, tmp_path):
        """Over a stand-in for torch: whose clock says that everything takes a second."""
        (tmp_path / "torch.py").write_text(
            "float32 = None\n"
            "class Tensor:\n    def copy_(self, other): pass\n    def sum(self): pass\n"
            "def ones(*a, **k): return Tensor()\n"
            "empty_like = ones\n"
            "import time, itertools\n"
            "ticks = itertools.count()\n"
            "time.perf_counter = lambda: next(ticks)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", bandwidth.SCRIPT, "cpu", str(10**9)],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(tmp_path)},
            check=True,
        )
        assert done.stdout.strip() == '{"bytes": 1000000000, "copy": 2.0, "read": 1.0}'


class TestPlaybooks:
    @pytest.fixture
    def checkout(self, tmp_path):
        """A checkout and its origin, with one commit of this date."""

        def call(date="2026-10-01"):
            environ = {**os.environ, "GIT_COMMITTER_DATE": f"{date}T12:00:00Z", "GIT_AUTHOR_DATE": f"{date}T12:00:00Z"}
            environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
            identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]

            def git(*words):
                subprocess.run(["git", *identity, *words], check=True, capture_output=True, env=environ)

            origin, here = tmp_path / "origin", tmp_path / "dgx-spark-playbooks"
            git("init", "-q", "-b", "main", str(origin))
            git("-C", str(origin), "commit", "-q", "--allow-empty", "-m", "one")
            git("clone", "-q", str(origin), str(here))
            return here, lambda: git("-C", str(origin), "commit", "-q", "--allow-empty", "-m", "two")

        return call

    def test_nothing_to_judge_is_a_skip(self, host):
        found = host.look("G8")
        assert (found.status, "the list is of 2026-11-30" in found.detail) == ("SKIP", True)

    @pytest.mark.parametrize(("version", "status"), [("25.09", "WARN"), ("25.11", "SKIP"), ("26.03", "SKIP")])
    def test_the_image_this_runs_in(self, host, version, status):
        found = host.look("G8", {"NVIDIA_PYTORCH_VERSION": version})
        assert found.status == status
        if status == "WARN":
            assert "25.09 does not see the GPU of a Spark" in found.detail

    def test_an_image_named_in_a_file_but_not_in_a_comment(self, host, tmp_path):
        file = tmp_path / "compose.yaml"
        file.write_text("# image: nvcr.io/nvidia/pytorch:25.09-py3\nimage: nvcr.io/nvidia/pytorch:25.11-py3\n")
        assert host.look("G8", configs=(str(file),)).status == "SKIP"
        file.write_text("image: nvcr.io/nvidia/pytorch:25.09-py3  # old\n")
        assert host.look("G8", configs=(str(file),)).status == "WARN"

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("Dockerfile", "ARG TAG=25.09\nFROM nvcr.io/nvidia/pytorch:${TAG}-py3\n"),
            ("run.sh", "TAG='25.09-py3'\ndocker run nvcr.io/nvidia/pytorch:$TAG\n"),
            ("compose.yaml", "image: nvcr.io/nvidia/pytorch:${TAG:-25.09}-py3\n"),
            ("run.sh", "srun --container-image=nvcr.io#nvidia/pytorch:25.09-py3 x\n"),
            (
                "run.sh",
                "docker build --build-arg A=nvcr.io/nvidia/pytorch:25.11-py3 -t nvcr.io/nvidia/pytorch:25.09-py3",
            ),
        ],
    )
    @pytest.mark.parametrize("folder", [False, True])
    def test_an_image_in_any_form(self, host, tmp_path, name, text, folder):
        (tmp_path / "configs").mkdir()
        (tmp_path / "configs" / name).write_text(text)
        found = host.look("G8", configs=(str(tmp_path / "configs" / ("" if folder else name)),))
        assert (found.status, "`nvcr.io/nvidia/pytorch:25.09-py3`" in found.detail) == ("WARN", True), found.detail

    def test_offline_is_never_a_pass(self, host, checkout):
        here, _commit = checkout()
        assert host.look("G8", playbooks=str(here)).status == "SKIP"

    def test_online_a_checkout_is_held_against_its_origin(self, host, checkout, tmp_path):
        here, commit = checkout()
        assert host.look("G8", playbooks=str(here), online=True).status == "PASS"
        commit()
        assert host.look("G8", playbooks=str(here), online=True).status == "WARN"
        (tmp_path / "origin").rename(tmp_path / "gone")
        found = host.look("G8", playbooks=str(here), online=True)
        assert (found.status, "does not answer" in found.detail) == ("SKIP", True)

    def test_a_checkout_from_before_a_repair(self, host, checkout):
        here, _commit = checkout("2026-05-01")
        found = host.look("G8", playbooks=str(here))
        assert (found.status, "is of 2026-05-01: the vLLM playbook" in found.detail) == ("WARN", True)


class TestContainer:
    def test_a_bare_host_with_a_staged_environment(self, look_into):
        found = look_into("G9")
        assert found.status == "INFO"
        assert found.detail == "on the bare host; the environment is env-cu130 of armstage, staged 2026-11-30"

    @pytest.mark.parametrize(
        ("path", "text", "engine"),
        [
            (".dockerenv", "", "docker"),
            ("run/.containerenv", "", "podman"),
            (
                "proc/self/mounts",
                "overlay / overlay rw,lowerdir=/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/7/fs",
                "containerd",
            ),
            ("run/systemd/container", "systemd-nspawn\n", "systemd-nspawn"),
            ("proc/1/cgroup", "0::/system.slice/docker-0123.scope\n", "docker"),
            ("proc/1/cgroup", "12:cpu:/kubepods/besteffort/pod1\n", "kubepods"),
        ],
    )
    def test_markers(self, look_into, host, path, text, engine):
        host.put(path, text)
        assert f"in a container ({engine}, /{path})" in look_into("G9").detail

    def test_a_variable(self, look_into):
        assert "in a container (apptainer, APPTAINER_NAME)" in look_into("G9", {"APPTAINER_NAME": "x.sif"}).detail

    def test_a_pod(self, look_into):
        assert look_into("G9", {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}).detail.startswith("in a container (kubernetes")

    def test_a_root_that_was_booted_from_an_image_is_no_container(self, look_into, host):
        host.put("proc/self/mounts", "overlay / overlay rw,lowerdir=/media/root-ro,upperdir=/media/rw 0 0\n")
        assert look_into("G9").detail.startswith("on the bare host")

    def test_a_session_is_no_container(self, look_into, host):
        host.put("proc/1/cgroup", "0::/init.scope\n")
        assert "on the bare host" in look_into("G9").detail

    @pytest.mark.parametrize(
        ("package", "version", "words"),
        [("vllm", "0.25.2", "added vllm 0.25.2"), ("numpy", "2.0.0", "changed numpy 1.26.4 -> 2.0.0")],
    )
    def test_what_was_installed_into_the_staged_environment(self, look_into, staged, package, version, words):
        staged.package("numpy", "1.26.4")
        staged.record()
        assert look_into("G9").status == "INFO"
        staged.package(package, version)
        found = look_into("G9")
        assert (found.status, words in found.detail) == ("WARN", True), found.detail

    def test_what_is_missing_from_it(self, look_into, staged):
        staged.package("numpy", "1.26.4")
        staged.record()
        (staged.site / "numpy-1.26.4.dist-info/METADATA").unlink()
        (staged.site / "numpy-1.26.4.dist-info").rmdir()
        assert "removed numpy 1.26.4" in look_into("G9").detail

    def test_torch_and_nvidias_libraries_are_other_checks(self, look_into, staged):
        staged.package("nvidia-nccl-cu12", "2.27.3")
        staged.package("torch", "2.10.0")
        assert look_into("G9").status == "INFO"

    def test_nvidias_torch_that_was_replaced_in_its_image(self, host):
        host.put("usr/local/lib/python3.12/dist-packages/torch/version.py", "__version__ = '2.9.0+cu128'\n")
        found = host.look("G9", {"PYTORCH_VERSION": "2.10.0a0+b558c98"})
        assert (found.status, "torch 2.9.0+cu128 is in its place" in found.detail) == ("WARN", True)
        assert host.look("G9", {"PYTORCH_VERSION": "2.9.0"}).status == "INFO"

    def test_a_torch_of_ones_own_in_nvidias_image(self, look_into, host):
        host.put(
            "usr/local/lib/python3.12/dist-packages/torch/version.py", "__version__ = '2.10.0a0+b558c986e8.nv25.11'\n"
        )
        found = look_into("G9")
        assert found.status == "WARN"
        assert (
            "this is NVIDIA's image with torch 2.10.0a0+b558c986e8.nv25.11, and the environment has torch 2.11.0+cu130"
            in found.detail
        )
