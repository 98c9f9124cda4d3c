"""What the kernel says about memory: /proc/meminfo, NUMA nodes, ZFS, sysctls, free blocks.

Every file is read below ``root``, so that a recorded host can stand in for this one. All sizes
are bytes. Names of counters are the kernel's own (Documentation/filesystems/proc.rst).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import ArmstageError
from ..files import read_text

GIB = 1024**3

KNOWN = (
    (("MemFree",),),
    (("FilePages",), ("Buffers", "Cached", "SwapCached"), ("Buffers", "Cached"), ("Cached",)),
    (("AnonPages",),),
    (("KReclaimable", "SUnreclaim"), ("Slab",), ("SReclaimable", "SUnreclaim")),
    (("PageTables",),),
    (("SecPageTables",),),
    (("Percpu",),),
    (("Hugetlb",),),
    (("Bounce",),),
    (("Zswap",),),
    (("GPUActive",),),
    (("GPUReclaim",),),
)
"""Counters that share no page with each other. Of each line the first set that is all there counts:
a node's FilePages is the host's Buffers, Cached and SwapCached together, and KReclaimable
includes what Slab leaves out."""

SYSCTLS = ("min_free_kbytes", "watermark_scale_factor", "watermark_boost_factor", "swappiness", "vfs_cache_pressure")

UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
"""The kernel writes kB; what stands in for it in containers and virtual machines has been seen to differ."""

UNIFIED_GPUS = ("GB10",)
"""GPUs without memory of their own for which `cudaMemGetInfo` was measured to report MemFree
(2026-09-10, https://github.com/unslothai/unsloth/pull/10704)."""


@dataclass(frozen=True)
class Node:
    """One NUMA node. A node with memory and no CPU is a GPU's memory on Grace systems; on x86_64 it is
    that of a CXL card or of the CPU's package (``expansion``).

    ``cpus`` is the kernel's list (``0-71``), or None where it was not said.
    """

    number: int
    cpus: str | None
    counters: Mapping[str, int]
    expansion: bool = False

    @property
    def gpu(self) -> bool:
        return self.cpus == "" and not self.expansion

    @property
    def file_pages(self) -> int:
        return self.counters.get("FilePages", 0)


@dataclass(frozen=True)
class Memory:
    """One reading. ``arc`` is None without ZFS; ``unified_gpu`` is the GPU's model or empty; ``zram`` is
    what compressed swap takes."""

    counters: Mapping[str, int]
    nodes: tuple[Node, ...] = ()
    arc: int | None = None
    sysctls: Mapping[str, int] = field(default_factory=dict)
    unified_gpu: str = ""
    zram: int = 0

    @property
    def total(self) -> int:
        return self.counters["MemTotal"]

    @property
    def free(self) -> int:
        return self.counters["MemFree"]

    @property
    def available(self) -> int:
        """MemAvailable; before Linux 3.14 what stands closest to it."""
        return self.counters.get("MemAvailable", self.free + self._file_pages())

    @property
    def gpu_nodes(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.gpu)

    @property
    def in_no_counter(self) -> int:
        """Bytes that the kernel counts as used and files under nothing: what drivers allocate.

        On a unified-memory GPU that is CUDA's memory. What a Grace GPU holds in a node of its
        own is that GPU's business and left out; ZFS is named apart, and swap in zram is known.
        """
        elsewhere = sum(in_no_counter(node.counters) for node in self.gpu_nodes) + (self.arc or 0) + self.zram
        return max(0, in_no_counter(self.counters) - elsewhere)

    @property
    def hugepages(self) -> int:
        """Bytes set aside as huge pages, used or not; nothing else may use them."""
        return huge_pages(self.counters)

    @property
    def held_back(self) -> int:
        """Bytes that MemAvailable leaves out for the kernel: the high watermark.

        ``min + 2 * max(min / 4, total * watermark_scale_factor / 10000)``, as in the kernel's
        __setup_per_zone_wmarks; 0 where the sysctls could not be read.
        """
        minimum = self.sysctls.get("min_free_kbytes", 0) * 1024
        step = self.total * self.sysctls.get("watermark_scale_factor", 0) // 10000
        return minimum + 2 * max(minimum // 4, step)

    def droppable(self, mode: str = "pagecache") -> int:
        """Bytes that a drop can free at most. Shared memory and mapped files stay."""
        pages = max(0, self._file_pages() - self.counters.get("Mapped", 0))
        slab = self.counters.get("KReclaimable", self.counters.get("SReclaimable", 0))
        return {"pagecache": pages, "slab": slab, "all": pages + slab}[mode]

    def _file_pages(self) -> int:
        get = self.counters.get
        pages = max(0, get("Buffers", 0) + get("Cached", 0) - get("Shmem", 0))
        if "Active(file)" in self.counters:
            # locked pages are on neither list and stay
            pages = min(pages, get("Active(file)", 0) + get("Inactive(file)", 0))
        return pages

    def as_dict(self) -> dict[str, object]:
        """The counters under the kernel's names, and what was worked out from them."""
        nodes = [
            {
                "node": node.number,
                "gpu": node.gpu,
                "MemTotal": node.counters["MemTotal"],
                "MemFree": node.counters.get("MemFree", 0),
                "FilePages": node.file_pages,
                "in_no_counter": in_no_counter(node.counters),
            }
            for node in self.nodes
        ]
        return {
            **self.counters,
            "in_no_counter": self.in_no_counter,
            "droppable": self.droppable(),
            "hugepages": self.hugepages,
            "zfs_arc": self.arc or 0,
            "nodes": nodes,
            "sysctls": dict(self.sysctls),
        }


@dataclass(frozen=True)
class FreeBlocks:
    """One line of /proc/buddyinfo: ``counts[n]`` free blocks of 2**n pages each."""

    node: int
    zone: str
    counts: tuple[int, ...]

    def bytes_from(self, order: int, page_size: int) -> int:
        """Bytes free in blocks of at least ``2**order`` pages."""
        return sum(count << number for number, count in enumerate(self.counts) if number >= order) * page_size


def gib(size: int) -> str:
    """``38.3 GiB``."""
    return f"{size / GIB:.1f} GiB"


def in_no_counter(counters: Mapping[str, int]) -> int:
    """MemTotal minus every counter that owns pages, never below 0.

    A counter above MemTotal is a broken one (seen of GPUReclaim on 2026-09-16:
    https://github.com/AvengeMedia/dgop/issues/44) and is left out.
    """
    total = counters["MemTotal"]
    known = 0 if "Hugetlb" in counters else huge_pages(counters)
    for choices in KNOWN:
        names = next((names for names in choices if all(name in counters for name in names)), ())
        size = sum(counters[name] for name in names)
        known += size if size <= total else 0
    # kernel stacks are themselves vmalloc memory wherever VMAP_STACK is on, as on every arm64
    known += max(counters.get("VmallocUsed", 0), counters.get("KernelStack", 0))
    return max(0, total - known)


def huge_pages(counters: Mapping[str, int]) -> int:
    """Bytes set aside as huge pages; before Linux 4.20 only those of the default size are known."""
    pool = counters.get("HugePages_Total", 0) * counters.get("Hugepagesize", 0)
    return counters.get("Hugetlb", pool)


def parse_meminfo(text: str) -> dict[str, int]:
    """Counters of /proc/meminfo or of a node's meminfo: bytes, or pages for HugePages_*."""
    counters = {}
    for match in re.finditer(r"^(?:Node\s+\d+\s+)?([\w()]+):\s+(\d{1,18})\s*([kKMG]?)B?\s*$", text, re.MULTILINE):
        counters[match[1]] = int(match[2]) * UNITS[match[3].lower()]
    return counters


def parse_arcstats(text: str) -> int | None:
    """Bytes in the ZFS cache, from /proc/spl/kstat/zfs/arcstats."""
    match = re.search(r"^size\s+\d+\s+(\d{1,18})\s*$", text, re.MULTILINE)
    return int(match[1]) if match else None


def parse_buddyinfo(text: str) -> list[FreeBlocks]:
    """Free blocks of each zone, from /proc/buddyinfo."""
    found = re.finditer(r"^Node\s+(\d+), zone\s+(\S+)((?:\s+\d{1,18})+)\s*$", text, re.MULTILINE)
    return [FreeBlocks(int(match[1]), match[2], tuple(map(int, match[3].split()))) for match in found]


def read_memory(root: str = "/") -> Memory:
    """Read everything. Raises ArmstageError without a usable ``proc/meminfo``; the rest may be absent."""
    path = os.path.join(root, "proc/meminfo")
    counters = parse_meminfo(_text(path))
    missing = [name for name in ("MemTotal", "MemFree") if name not in counters]
    if missing:
        raise ArmstageError(
            f"Expected `{missing[0]}:` in `{path}`, but found no such line",
            hint="Run on Linux with /proc mounted, or name the folder that holds proc/ with root",
        )
    arcstats = _text(os.path.join(root, "proc/spl/kstat/zfs/arcstats"))
    return Memory(counters, _nodes(root), parse_arcstats(arcstats), _sysctls(root), _unified_gpu(root), _zram(root))


def read_free_blocks(root: str = "/") -> list[FreeBlocks]:
    """/proc/buddyinfo, empty where there is none."""
    return parse_buddyinfo(_text(os.path.join(root, "proc/buddyinfo")))


def _text(path: str) -> str:
    return read_text(path) or ""


def _numbered(folder: str, prefix: str) -> list[int]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(int(name[len(prefix) :]) for name in names if re.fullmatch(prefix + r"\d+", name))


def _nodes(root: str) -> tuple[Node, ...]:
    """Nodes that have memory: MIG and unused Grace nodes have none."""
    folder = os.path.join(root, "sys/devices/system/node")
    arch = _text(os.path.join(root, "proc/sys/kernel/arch")).strip() or (os.uname().machine if root == "/" else "")
    nodes = []
    for number in _numbered(folder, "node"):
        counters = parse_meminfo(_text(f"{folder}/node{number}/meminfo"))
        if counters.get("MemTotal"):
            cpus = read_text(f"{folder}/node{number}/cpulist")
            nodes.append(Node(number, None if cpus is None else cpus.strip(), counters, expansion=arch == "x86_64"))
    return tuple(nodes)


def _sysctls(root: str) -> dict[str, int]:
    values = {name: _text(os.path.join(root, "proc/sys/vm", name)).strip() for name in SYSCTLS}
    return {name: int(value) for name, value in values.items() if re.fullmatch(r"\d{1,18}", value, re.ASCII)}


def _zram(root: str) -> int:
    """Bytes that swap in zram takes: the third number of mm_stat (Documentation/admin-guide/blockdev/zram.rst)."""
    folder = os.path.join(root, "sys/block")
    stats = [_text(f"{folder}/zram{number}/mm_stat").split() for number in _numbered(folder, "zram")]
    return sum(int(stat[2]) for stat in stats if len(stat) > 2 and stat[2].isdecimal())


def _unified_gpu(root: str) -> str:
    folder = os.path.join(root, "proc/driver/nvidia/gpus")
    try:
        gpus = sorted(os.listdir(folder))
    except OSError:
        return ""
    for gpu in gpus:
        model = re.search(r"^Model:\s*(.+?)\s*$", _text(f"{folder}/{gpu}/information"), re.MULTILINE)
        if model and any(name in model[1].split() for name in UNIFIED_GPUS):
            return model[1]
    return ""
