"""What meminfo says, and the verdict it leads to, over recorded readings."""

import os
import re
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.memory import meminfo
from ansible.module_utils.armstage.memory.cgroup import memory_limit
from ansible.module_utils.armstage.memory.holders import gpu_holders
from ansible.module_utils.armstage.memory.verdict import judge
from hypothesis import given
from hypothesis import strategies as st

READINGS = Path(__file__).resolve().parents[2] / "fixtures" / "meminfo"
CASES = yaml.safe_load((READINGS / "cases.yml").read_text())
GIB = meminfo.GIB


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def host(tmp_path):
    """Make a root that shows a case's reading; returns its path."""

    def make(case, name="gb10-cache-full"):
        reading = case.get("meminfo", name)
        put(tmp_path / "proc/meminfo", (READINGS / reading).read_text())
        if case.get("gpu"):
            information = (READINGS / "gpu-information").read_text()
            put(tmp_path / "proc/driver/nvidia/gpus/000f:01:00.0/information", information)
        if case.get("arcstats"):
            put(tmp_path / "proc/spl/kstat/zfs/arcstats", (READINGS / "arcstats").read_text())
        for sysctl, value in case.get("sysctls", {}).items():
            put(tmp_path / "proc/sys/vm" / sysctl, f"{value}\n")
        for node, cpus in case.get("nodes", {}).items():
            folder = tmp_path / f"sys/devices/system/node/node{node}"
            recorded = READINGS / f"{reading}-node{node}"
            put(folder / "meminfo", recorded.read_text() if recorded.exists() else f"Node {node} MemTotal: 0 kB\n")
            put(folder / "cpulist", f"{cpus}\n")
        if case.get("holder"):
            put(tmp_path / "proc/4242/comm", case["holder"] + "\n")
            (tmp_path / "proc/4242/fd").mkdir()
            (tmp_path / "proc/4242/fd/7").symlink_to("/dev/nvidia-uvm")
        return str(tmp_path)

    return make


@pytest.mark.parametrize("name", CASES)
def test_a_reading_leads_to_its_verdict(host, name):
    case = CASES[name]
    root = host(case, name)
    memory = meminfo.read_memory(root)
    needed = int(case["needed"] * GIB) if "needed" in case else None
    verdict = judge(memory, needed, holders=gpu_holders(root).busy)
    assert (verdict.answer, verdict.limit) == (case["answer"], case["limit"]), verdict.message
    assert round(verdict.gain / GIB, 1) == case["gain"]
    for pattern in case["messages"]:
        assert re.search(pattern, verdict.message), verdict.message
    for pattern in case.get("notes", []):
        assert any(re.search(pattern, note) for note in verdict.notes), verdict.notes
    assert re.search(case.get("hint", "^$"), verdict.hint) or ("hint" not in case and case["answer"] == "cannot help")
    if "without" in case:
        assert case["without"] not in " ".join([verdict.message, verdict.hint, *verdict.notes])


def test_every_reading_is_judged():
    readings = {path.name for path in READINGS.iterdir()} - {
        "cases.yml",
        "arcstats",
        "gpu-information",
        "buddyinfo-gb10",
    }
    assert {re.sub(r"-node\d$", "", name) for name in readings} == {
        case.get("meminfo", name) for name, case in CASES.items()
    }


def test_the_counters_of_this_machine_add_up():
    """A real reading: without a GPU only a small share is in no counter."""
    memory = meminfo.read_memory("/")
    assert 0 <= memory.in_no_counter < (1 if os.path.exists("/proc/driver/nvidia") else 0.2) * memory.total
    assert 0 <= memory.droppable("pagecache") <= memory.droppable("all") < memory.total
    assert memory.held_back > 0


def test_gpu_memory_nodes_are_told_apart(host):
    memory = meminfo.read_memory(host(CASES["gh200"], "gh200"))
    assert [(node.number, node.gpu) for node in memory.nodes] == [(0, False), (1, True)]
    # what the GPU itself holds in its node is no riddle: 47.0 GiB there, 1.6 GiB of the host's
    assert round(meminfo.in_no_counter(memory.nodes[1].counters) / GIB, 1) == 47.0
    assert round(memory.in_no_counter / GIB, 1) == 1.6
    assert [node["gpu"] for node in memory.as_dict()["nodes"]] == [False, True]


def test_a_node_that_does_not_list_its_cpus_is_not_taken_for_a_gpu(host, tmp_path):
    root = host(CASES["gh200"], "gh200")
    (tmp_path / "sys/devices/system/node/node1/cpulist").unlink()
    assert meminfo.read_memory(root).gpu_nodes == ()


def test_zfs_is_not_taken_for_a_driver(host):
    memory = meminfo.read_memory(host(CASES["zfs-arc"], "zfs-arc"))
    assert memory.arc == 62277025792
    assert memory.in_no_counter < 3 * GIB


def test_high_order_blocks_of_a_fragmented_gb10():
    dma, normal = meminfo.parse_buddyinfo((READINGS / "buddyinfo-gb10").read_text())
    assert (dma.node, dma.zone, normal.zone) == (0, "DMA", "Normal")
    assert dma.bytes_from(10, 4096) == 391 * 4 * 1024**2
    assert normal.bytes_from(9, 4096) == 0
    assert normal.bytes_from(7, 65536) == 65536 * (8 * 128 + 2 * 256)


def test_free_blocks_of_this_machine():
    assert all(blocks.counts for blocks in meminfo.read_free_blocks("/"))
    assert meminfo.read_free_blocks("/nonexistent") == []


@pytest.mark.parametrize("text", ["", "MemTotal: 5 kB\n", "garbage\n\0\n", "MemFree: 5 kB\n"])
def test_no_usable_meminfo_is_one_clear_error(tmp_path, text):
    put(tmp_path / "proc/meminfo", text)
    with pytest.raises(ArmstageError, match=r"^Expected `Mem(Total|Free):` in `.*proc/meminfo`") as error:
        meminfo.read_memory(str(tmp_path))
    assert "root" in error.value.hint


def test_no_meminfo_at_all_is_the_same_error(tmp_path):
    with pytest.raises(ArmstageError, match="proc/meminfo"):
        meminfo.read_memory(str(tmp_path))


@given(
    st.dictionaries(st.sampled_from([n for group in meminfo.KNOWN for c in group for n in c]), st.integers(0, 2**40))
)
def test_what_is_in_no_counter_is_never_negative_and_never_more_than_all(counters):
    total = 2**37
    assert 0 <= meminfo.in_no_counter({"MemTotal": total, **counters}) <= total


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_parses(text):
    assert isinstance(meminfo.parse_meminfo(text), dict)
    assert isinstance(meminfo.parse_buddyinfo(text), list)
    assert meminfo.parse_arcstats(text) is None or meminfo.parse_arcstats(text) >= 0


@given(
    free=st.integers(0, 2**37),
    cached=st.integers(0, 2**37),
    anon=st.integers(0, 2**37),
    needed=st.none() | st.integers(1, 2**38),
)
def test_a_verdict_never_promises_more_than_can_be_dropped(free, cached, anon, needed):
    counters = {"MemTotal": 2**37, "MemFree": free, "MemAvailable": free, "Cached": cached, "AnonPages": anon}
    verdict = judge(meminfo.Memory(counters), needed)
    assert verdict.reach == max(free, free + verdict.gain)
    assert (verdict.answer == "cannot help") == bool(verdict.hint)
    if needed:
        assert verdict.answer == (
            "not needed" if free >= needed else "helps" if free + cached >= needed else "cannot help"
        )


def read(tmp_path, text, **files):
    put(tmp_path / "proc/meminfo", text)
    for path, content in files.items():
        put(tmp_path / path, content)
    return meminfo.read_memory(str(tmp_path))


IDLE = (READINGS / "gb10-idle").read_text()


@pytest.mark.parametrize(
    "form",
    [
        IDLE.replace(" kB", " KB"),
        IDLE.replace(": ", ":\t\t"),
        IDLE.replace("\n", "\r\n"),
        re.sub(r"(\d+) kB", lambda match: f"{int(match[1]) * 1024} B", IDLE),
        re.sub(r"(\d+) kB", r"\1kB", IDLE),
    ],
    ids=["KB", "tabs", "CRLF", "bytes", "no space"],
)
def test_meminfo_in_the_forms_of_what_stands_in_for_the_kernel(tmp_path, form):
    memory = read(tmp_path, form)
    assert memory.total == 127600816 * 1024
    assert memory.counters == meminfo.parse_meminfo(IDLE)


def test_meminfo_in_larger_units(tmp_path):
    memory = read(tmp_path, "MemTotal: 119 GB\nMemFree: 1024 MB\nMemAvailable: 2 GB\n")
    assert (memory.total, memory.free, memory.available) == (119 * GIB, GIB, 2 * GIB)


def test_huge_pages_of_a_kernel_that_does_not_sum_them_up(tmp_path):
    """They are what is missing from every other counter: no process holds them."""
    text = re.sub(r"Hugetlb:.*\n", "", IDLE.replace("HugePages_Total:       0", "HugePages_Total:   20480"))
    text = text.replace("MemFree:        108265472", "MemFree:         66322432")
    memory = read(tmp_path, text)
    assert memory.hugepages == 40 * GIB
    assert memory.in_no_counter < 3 * GIB
    assert "set aside as huge pages" in judge(memory).message


def test_swap_in_zram_is_not_the_gpus(tmp_path):
    text = IDLE.replace("MemFree:        108265472", "MemFree:         66322432")
    assert read(tmp_path, text).in_no_counter > 40 * GIB
    stat = f"90000000000 39000000000 {40 * GIB} 0 {41 * GIB} 0 0 0 0\n"
    assert read(tmp_path, text, **{"sys/block/zram0/mm_stat": stat}).in_no_counter < 3 * GIB


@pytest.mark.parametrize(("arch", "gpu"), [("aarch64", True), ("x86_64", False), (None, True)])
def test_a_node_without_cpus_is_a_gpus_on_grace_and_a_cards_elsewhere(tmp_path, arch, gpu):
    files = {f"sys/devices/system/node/node1/{name}": text for name, text in (("cpulist", "\n"), ("meminfo", IDLE))}
    memory = read(tmp_path, IDLE, **files, **({"proc/sys/kernel/arch": f"{arch}\n"} if arch else {}))
    assert bool(memory.gpu_nodes) == gpu
    assert [node["gpu"] for node in memory.as_dict()["nodes"]] == [gpu]


LIMITS = {
    "a Slurm job": (
        "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n",
        {"system.slice/slurmstepd.scope/job_7/memory.max": "17179869184\n", "system.slice/memory.max": "max\n"},
        16,
        "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.max",
    ),
    "the lowest of several": ("0::/a/b\n", {"a/memory.max": f"{8 * GIB}", "a/b/memory.max": f"{9 * GIB}"}, 8, None),
    "a container": ("0::/\n", {"memory.max": f"{4 * GIB}\n"}, 4, "/sys/fs/cgroup/memory.max"),
    "a container of v1": (
        "12:pids:/docker/x\n9:memory:/docker/x\n",
        {"memory/memory.limit_in_bytes": f"{4 * GIB}\n"},
        4,
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ),
    "v1 without a limit": ("9:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None, None),
    "none": ("0::/user.slice\n", {"user.slice/memory.max": "max\n"}, None, None),
    "no cgroups": ("", {}, None, None),
    "nonsense": ("what\n0::\n", {"memory.max": "much\n"}, None, None),
}


@pytest.mark.parametrize("case", LIMITS)
def test_the_limit_of_a_cgroup(tmp_path, case):
    line, files, gib, file = LIMITS[case]
    put(tmp_path / "proc/self/cgroup", line)
    for path, text in files.items():
        put(tmp_path / "sys/fs/cgroup" / path, text)
    found = memory_limit(str(tmp_path))
    assert (found.size if found else None) == (gib * GIB if gib else None)
    assert file is None or found.file == file


def test_the_limit_of_this_process_can_be_asked_for():
    found = memory_limit()
    assert found is None or found.size > 0
