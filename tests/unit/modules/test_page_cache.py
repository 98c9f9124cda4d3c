"""The module page_cache through its JSON, against roots in which files stand in for the kernel's."""

import errno
import json
import os
import subprocess
import tempfile
from pathlib import Path

import page_cache
import pytest
import yaml
from ansible.module_utils.common import warnings

READINGS = Path(__file__).resolve().parents[2] / "fixtures" / "meminfo"
GIB = 1024**3


@pytest.fixture(autouse=True)
def no_earlier_warnings():
    """A module is one process; here several run in one, and Ansible keeps what was warned of per process."""
    warnings._global_warnings.clear()


@pytest.fixture
def spark(tmp_path):
    """A DGX Spark in outline, its page cache full: MemFree 26.5, MemAvailable 56.3 GiB."""
    root = tmp_path / "spark"
    (root / "proc/sys/vm").mkdir(parents=True)
    (root / "proc/sys/vm/drop_caches").write_text("0\n")
    (root / "proc/meminfo").write_text((READINGS / "gb10-cache-full").read_text())
    gpu = root / "proc/driver/nvidia/gpus/000f:01:00.0"
    gpu.mkdir(parents=True)
    (gpu / "information").write_text((READINGS / "gpu-information").read_text())
    return root


@pytest.fixture
def disk(tmp_path):
    """An empty folder whose files have another copy than memory: /tmp may be a tmpfs."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True).stdout
    base = "/var/tmp" if kind.strip() in ("tmpfs", "ramfs") else tmp_path
    with tempfile.TemporaryDirectory(prefix="armstage-test-", dir=base) as folder:
        yield Path(folder)


def hold(root, pid, name, *devices):
    folder = root / f"proc/{pid}"
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "fd/0").symlink_to("/dev/pts/0")
    for number, device in enumerate(devices, 3):
        (folder / f"fd/{number}").symlink_to(device)


def written(root):
    return (root / "proc/sys/vm/drop_caches").read_text()


def test_a_drop_is_a_change_every_time(spark, run_module):
    for _time in range(2):
        result = run_module(page_cache, root=str(spark))
        assert (result["changed"], result["action"], result["via"]) == (True, "drop", "write")
        assert written(spark) == "1"
    assert result["before"]["MemFree"] == 27812140 * 1024
    assert result["verdict"]["answer"] == "helps"
    # the stand-in frees nothing, and nothing is claimed
    assert (result["freed_bytes"], result["helped"]) == (0, False)
    assert result["message"] == "Freed 0.0 GiB: MemFree 26.5 GiB -> 26.5 GiB of 119.6 GiB"


@pytest.mark.parametrize(("mode", "digit"), [("pagecache", "1"), ("slab", "2"), ("all", "3")])
def test_a_mode_is_one_digit(spark, run_module, mode, digit):
    run_module(page_cache, root=str(spark), mode=mode)
    assert written(spark) == digit


def test_check_mode_predicts_and_writes_nothing(spark, run_module):
    result = run_module(page_cache, root=str(spark), check=True, diff=True)
    assert (result["changed"], result["helped"]) == (True, True)
    assert result["freed_bytes"] == result["verdict"]["gain_bytes"] == 40960 * 1024 * 1024 - 960 * 1024 * 1024
    assert result["after"]["MemFree"] - result["before"]["MemFree"] == result["freed_bytes"]
    assert result["message"].startswith("Would drop (helps: up to 39.1 GiB can be freed")
    assert result["diff"]["before"].startswith("MemFree: 26.5 GiB\n")
    assert result["diff"]["after"].startswith("MemFree: 65.6 GiB\n")
    assert written(spark) == "0\n"


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"only_below": 26}, False),
        ({"only_below": 27}, True),
        ({"only_below": 27, "limit": "MemAvailable"}, False),
        ({"only_below": 57, "limit": "MemAvailable"}, True),
        ({"only_below": 26.5}, False),
    ],
)
def test_only_below_looks_at_the_limit_that_binds(spark, run_module, options, changed, check):
    result = run_module(page_cache, root=str(spark), check=check, **options)
    assert result["changed"] is changed
    assert bool(result["skip_reason"]) is not changed
    assert written(spark) == ("1" if changed and not check else "0\n")


def test_without_a_unified_gpu_mem_available_binds(spark, run_module):
    (spark / "proc/driver/nvidia/gpus/000f:01:00.0/information").write_text("Model: \t\t NVIDIA GB200\n")
    result = run_module(page_cache, root=str(spark), only_below=50)
    assert (result["changed"], result["verdict"]["limit"]) == (False, "MemAvailable")
    assert result["message"] == "Nothing to do: MemAvailable is 56.3 GiB, not below 50.0 GiB"


@pytest.mark.parametrize("busy", ["refuse", "warn", "ignore"])
def test_a_busy_gpu(spark, run_module, busy):
    hold(spark, 4242, "VLLM::EngineCor", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidia0")
    result = run_module(page_cache, root=str(spark), busy=busy)
    (holder,) = result["holders"]
    assert (holder["pid"], holder["name"], holder["busy"]) == (4242, "VLLM::EngineCor", True)
    assert holder["devices"] == ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"]
    warned = [text for text in result.get("warnings", []) if "`VLLM::EngineCor` (pid 4242)" in str(text)]
    if busy == "refuse":
        assert (result["failed"], result["reason"], written(spark)) == (True, "busy", "0\n")
        assert result["msg"] == "The GPU is in use by `VLLM::EngineCor` (pid 4242), so the page cache was not dropped"
        assert "busy: ignore" in result["hint"]
    else:
        assert (result["changed"], written(spark), len(warned)) == (True, "1", busy == "warn")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("name", "devices", "busy"),
    [
        ("python3", ["/dev/nvidia-uvm"], True),
        ("ollama", ["/dev/nvidia0", "/dev/nvidiactl"], True),
        ("nvidia-persiste", ["/dev/nvidia0", "/dev/nvidiactl"], False),
        ("nvidia-persiste", ["/dev/nvidia0", "/dev/nvidia-uvm"], True),
        ("nv-hostengine", ["/dev/nvidia0", "/dev/nvidiactl"], False),
        ("gnome-shell", ["/dev/nvidia0", "/dev/nvidia-modeset"], False),
        ("blender", ["/dev/nvidia-modeset", "/dev/nvidia-uvm"], True),
        ("cat", ["/dev/null"], False),
    ],
)
def test_who_counts_as_busy(spark, run_module, name, devices, busy, check):
    hold(spark, 77, name, *devices)
    result = run_module(page_cache, root=str(spark), check=check)
    assert result.get("failed", False) is busy
    assert [holder["name"] for holder in result["holders"]] == ([name] if devices != ["/dev/null"] else [])


def test_what_cannot_help_is_said_before_it_is_done(spark, run_module):
    (spark / "proc/meminfo").write_text((READINGS / "gb10-after-stop").read_text())
    result = run_module(page_cache, root=str(spark), check=True)
    (warning,) = result["warnings"]
    assert "Dropping cannot help: 80.0 GiB in no counter" in str(warning)
    assert "reboot" in result["hint"]
    assert written(spark) == "0\n"


def test_named_files_are_evicted_once(spark, run_module, disk):
    (disk / "a.safetensors").write_bytes(b"a" * 3_000_000)
    (disk / "b.safetensors").write_bytes(b"b" * 1_000_000)
    predicted = run_module(page_cache, root=str(spark), paths=[str(disk)], check=True)
    result = run_module(page_cache, root=str(spark), paths=[str(disk)])
    again = run_module(page_cache, root=str(spark), paths=[str(disk)])
    assert predicted["changed"] is result["changed"] is True
    assert result["freed_bytes"] == predicted["freed_bytes"] >= 4_000_000
    assert (result["helped"], result["action"], result["via"]) == (True, "evict", "fadvise")
    assert result["message"] == "Evicted 0.0 GiB of 2 files, 0.0 GiB stayed in memory"
    assert (again["changed"], again["skip_reason"]) == (False, "no page of the named files is in memory")
    assert written(spark) == "0\n"


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no filesystem in memory here")
def test_files_that_only_memory_holds_are_left_alone(spark, run_module):
    with tempfile.TemporaryDirectory(prefix="armstage-test-", dir="/dev/shm") as folder:
        (Path(folder) / "model.safetensors").write_bytes(b"a" * 1_000_000)
        results = [run_module(page_cache, root=str(spark), paths=[folder], check=check) for check in (True, False)]
    for result in results:
        assert result["changed"] is False
        assert result["skip_reason"] == (
            f"no named file can be evicted: `{folder}/model.safetensors`:"
            " its filesystem is tmpfs: memory is the only copy"
        )


def test_named_files_are_evicted_while_the_gpu_is_busy(spark, run_module, disk):
    hold(spark, 4242, "python3", "/dev/nvidia-uvm")
    (disk / "file").write_bytes(b"a" * 100_000)
    result = run_module(page_cache, root=str(spark), paths=[str(disk / "file")])
    assert result["action"] == "evict"
    assert result["evicted"]["skipped"] == []


def test_what_is_named_and_no_file_is_said_once(spark, run_module, disk):
    result = run_module(page_cache, root=str(spark), paths=["/dev/null"])
    assert result["skip_reason"] == "no named file can be evicted: `/dev/null`: not a regular file"
    assert result["evicted"]["skipped_files"] == 1
    (disk / "file").write_bytes(b"a" * 100_000)
    both = run_module(page_cache, root=str(spark), paths=["/dev/null", str(disk / "file")])
    assert both["evicted"]["skipped"] == [{"path": "/dev/null", "reason": "not a regular file"}]


def test_a_file_that_may_not_be_read_is_said_once(spark, run_module, disk, monkeypatch):
    """It is found to be so when it is measured, and again when it is to be evicted."""
    for name in ("mine", "theirs"):
        (disk / name).write_bytes(b"a" * 100_000)
    really = os.open

    def refuse(path, *arguments, **options):
        if str(path).endswith("theirs"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return really(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    result = run_module(page_cache, root=str(spark), paths=[str(disk)])
    assert [each["reason"] for each in result["evicted"]["skipped"]] == ["Permission denied"]


def test_one_shape_whatever_happens(spark, run_module, disk):
    """Every key, and every type below it, is the same in success, prediction, refusal and eviction."""
    (disk / "file").write_bytes(b"a" * 100_000)
    hold(spark, 4242, "python3", "/dev/nvidia-uvm")
    results = [
        run_module(page_cache, root=str(spark), busy="ignore"),
        run_module(page_cache, root=str(spark), busy="ignore", check=True),
        run_module(page_cache, root=str(spark), only_below=1),
        run_module(page_cache, root=str(spark), busy="refuse"),
        run_module(page_cache, root=str(spark), paths=[str(disk / "file")]),
    ]
    ansible_own = {"failed", "msg", "warnings", "invocation", "exception"}

    def shape(value):
        return {name: shape(each) for name, each in value.items()} if isinstance(value, dict) else type(value).__name__

    shapes = [shape({k: v for k, v in result.items() if k not in ansible_own}) for result in results]
    assert all(each == shapes[0] for each in shapes)
    assert set(shapes[0]) - {"changed", "diff"} == set(yaml.safe_load(page_cache.RETURN))


@pytest.mark.parametrize(
    ("plant", "reason", "message"),
    [
        (lambda target: target.unlink(), "missing", "Expected the kernel's `{}`, but there is no such file"),
        (
            lambda target: (target.unlink(), target.symlink_to("/dev/full")),
            "failed",
            "Failed to write `{}`: No space left on device",
        ),
    ],
)
def test_a_target_that_cannot_be_written(spark, run_module, plant, reason, message):
    target = spark / "proc/sys/vm/drop_caches"
    plant(target)
    result = run_module(page_cache, root=str(spark))
    assert (result["failed"], result["changed"], result["reason"]) == (True, False, reason)
    assert result["msg"] == result["message"] == message.format(target)
    assert result["hint"]
    assert result["before"]["MemFree"] == result["after"]["MemFree"]


def test_check_mode_fails_where_a_run_would(spark, run_module):
    (spark / "proc/sys/vm/drop_caches").unlink()
    results = [run_module(page_cache, root=str(spark), check=check) for check in (True, False)]
    assert results[0]["msg"] == results[1]["msg"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only_below": 0}, "Expected `only_below` to be above 0, but received: `0`"),
        ({"only_below": -1}, "Expected `only_below` to be above 0, but received: `-1`"),
        ({"only_below": "inf"}, "Expected `only_below` to be above 0, but received: `inf`"),
        ({"only_below": "nan"}, "Expected `only_below` to be above 0, but received: `nan`"),
        ({"timeout": "inf"}, "Expected `timeout` to be above 0, but received: `inf`"),
        ({"timeout": 0}, "Expected `timeout` to be above 0, but received: `0`"),
        ({"paths": ["/nonexistent/model"]}, "Failed to find the file or folder `/nonexistent/model`: No such file"),
        ({"root": "/nonexistent"}, "Expected `MemTotal:` in `/nonexistent/proc/meminfo`, but found no such line"),
    ],
)
def test_what_cannot_be_is_one_clear_message(spark, run_module, options, message):
    result = run_module(page_cache, **{"root": str(spark), **options})
    assert result["failed"]
    assert result["msg"].startswith(message)
    assert written(spark) == "0\n"


def test_a_result_is_plain_json(spark, run_module):
    assert json.loads(json.dumps(run_module(page_cache, root=str(spark), check=True)))
