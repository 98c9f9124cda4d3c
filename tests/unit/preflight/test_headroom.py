"""G3: what a program can get on a GPU that shares its memory with the CPU, over recorded readings of /proc/meminfo."""

import os

import pytest
from ansible.module_utils.armstage.memory.meminfo import GIB

from .hosts import MEMINFO


def test_a_gpu_with_memory_of_its_own(host):
    host.driver("570.133.20", "banner-570.133.20-gh200.txt")
    found = host.look("G3")
    assert found.status == "SKIP"
    assert "has memory of its own" in found.detail


def test_no_driver(host):
    assert host.look("G3").detail == "no unified memory: no NVIDIA driver here"


def test_an_idle_spark_passes_and_says_which_counter_binds(spark):
    found = spark.look("G3")
    assert found.status == "PASS"
    assert found.detail.startswith("MemFree 103.2 GiB and MemAvailable 115.8 GiB of 121.7 GiB; MemFree binds")
    assert found.data["memory"]["MemTotal"] == pytest.approx(121.7 * GIB, rel=0.01)
    assert {fact.name for fact in found.facts} >= {"MemFree", "MemAvailable", "Cached", "in no counter"}


@pytest.mark.parametrize(
    ("meminfo", "status", "words"),
    [
        (
            "gb10-cache-full",
            "WARN",
            ["39.1 GiB are page cache, which CUDA counts as used", "MemFree 26.5 GiB and MemAvailable 56.3"],
        ),
        ("gb10-after-download", "WARN", ["72.2 GiB are page cache"]),
        ("gb10-after-stop", "WARN", ["80.0 GiB in no counter", "used where no drop reaches it"]),
        ("gb10-leftover-process", "WARN", ["in no counter"]),
        ("gb10-hugepages", "WARN", ["set aside as huge pages"]),
        ("gb10-capped", "PASS", []),
    ],
)
def test_recorded_states_without_a_workload(host, meminfo, status, words):
    found = host.spark(meminfo).look("G3")
    assert found.status == status, found.detail
    for word in words:
        assert word in found.detail


@pytest.mark.parametrize(
    ("needed", "status", "words", "hint"),
    [
        (20, "PASS", ["MemFree binds, at or above the 20.0 GiB needed"], ""),
        (
            45,
            "WARN",
            ["45.0 GiB are needed: dropping up to 39.1 GiB lifts MemFree from 26.5 GiB"],
            "`./armstage drop-cache`",
        ),
        (90, "FAIL", ["90.0 GiB are needed, and dropping the page cache cannot help"], "Ask for less"),
    ],
)
def test_against_a_workload(host, needed, status, words, hint):
    found = host.spark("gb10-cache-full").look("G3", workload=needed * GIB)
    assert found.status == status, found.detail
    for word in words:
        assert word in found.detail
    assert hint in found.hint


def test_a_headroom_below_the_floor_is_a_failure_not_advice(host):
    text = (MEMINFO / "gb10-idle").read_text()
    available = next(line for line in text.splitlines() if line.startswith("MemAvailable"))
    host.spark().put("proc/meminfo", text.replace(available, "MemAvailable:   3145728 kB"))
    found = host.look("G3")
    assert found.status == "FAIL"
    assert "3.0 GiB of MemAvailable are left, below the floor of 4.0 GiB" in found.detail
    assert "open-gpu-kernel-modules#1358" in found.source


def test_a_workload_that_leaves_less_than_the_floor(spark):
    found = spark.look("G3", workload=int(113 * GIB))
    assert found.status == "FAIL"
    assert "once the 113.0 GiB needed are taken" in found.detail


def test_memory_in_pieces_too_small_for_the_driver(spark):
    spark.put("proc/buddyinfo", (MEMINFO / "buddyinfo-gb10").read_text())
    found = spark.look("G3")
    assert found.status == "WARN"
    assert "no free block of 4 MiB in zone Normal" in found.detail
    assert "compact_memory" in found.hint
    spark.put(
        "proc/buddyinfo",
        "Node 0, zone   Normal 412877 281312 120448  31022   4103    512     64      8      2      0     24\n",
    )
    assert spark.look("G3").status == "PASS"


def test_zfs_and_sysctls_are_said(spark):
    spark.put("proc/spl/kstat/zfs/arcstats", (MEMINFO / "arcstats").read_text())
    spark.put("proc/sys/vm/min_free_kbytes", "4194304\n")
    spark.put("proc/sys/vm/watermark_scale_factor", "200\n")
    found = spark.look("G3")
    assert "The ZFS ARC holds" in found.detail
    assert "vm.min_free_kbytes=4194304" in found.detail


def test_without_meminfo_it_could_not_be_judged(spark):
    (spark.root / "proc/meminfo").unlink()
    found = spark.look("G3")
    assert found.status == "WARN"
    assert found.detail.startswith("could not be judged: ")


@pytest.mark.parametrize(("limit", "needed", "status"), [(16, 90, "WARN"), (100, 90, "PASS"), (16, None, "PASS")])
def test_the_limit_of_a_job_is_held_against_its_workload(spark, limit, needed, status):
    spark.put("proc/self/cgroup", "0::/slurm/job_7\n")
    spark.put("sys/fs/cgroup/slurm/job_7/memory.max", f"{limit * GIB}\n")
    found = spark.look("G3", workload=needed * GIB if needed else None)
    assert found.status == status, found.detail
    assert ("this job's own memory is limited to 16.0 GiB" in found.detail) == (status == "WARN")


def test_a_limit_from_which_on_a_job_is_slowed_down(spark):
    spark.put("proc/self/cgroup", "0::/\n")
    spark.put("sys/fs/cgroup/memory.high", f"{16 * GIB}\n")
    found = spark.look("G3", workload=90 * GIB)
    assert (found.status, found.source) == ("WARN", "/sys/fs/cgroup/memory.high")
    assert "the kernel slows programs down that go above it" in found.detail


def test_a_limit_is_said_where_no_workload_is(spark):
    spark.put("proc/self/cgroup", "0::/\n")
    spark.put("sys/fs/cgroup/memory.max", f"{2 * GIB}\n")
    assert "this job may use 2.0 GiB of it" in spark.look("G3").detail


def test_only_the_sysctls_that_could_be_read_are_said(spark):
    spark.put("proc/sys/vm/min_free_kbytes", f"{4 * 2**20}\n")
    detail = spark.look("G3").detail
    assert "vm.min_free_kbytes=4194304 holds at least" in detail
    assert "None" not in detail


def test_a_number_too_long_to_be_one(spark):
    spark.put("proc/meminfo", f"MemTotal: 127600816 kB\nMemFree: {'9' * 5000} kB\n")
    assert "Expected `MemFree:`" in spark.look("G3").detail


@pytest.mark.parametrize(("page_size", "counts", "status"), [
    (4096, [9] * 10 + [0], "WARN"), (4096, [0] * 10 + [1], "PASS"),
    (65536, [9] * 6 + [0] * 8, "WARN"), (65536, [0] * 6 + [1] + [0] * 7, "PASS"),
])  # fmt: skip
def test_blocks_that_the_driver_needs_with_pages_of_any_size(spark, monkeypatch, page_size, counts, status):
    spark.put("proc/buddyinfo", f"Node 0, zone   Normal {' '.join(map(str, counts))}\n")
    monkeypatch.setattr(os, "sysconf", lambda _name: page_size)
    assert spark.look("G3").status == status
