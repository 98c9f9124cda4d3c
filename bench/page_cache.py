"""Evicting one 1 GiB file by fadvise, without root, against dropping the whole cache, as root.

Both raise MemFree by what the file took. What differs is what they do to everyone else: another file, in memory before,
is read again afterwards. Where the cache can't be dropped (no root, a container) only the eviction is measured.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "module_utils"))

from armstage.memory.meminfo import gib, read_memory  # noqa: E402
from armstage.memory.page_cache import Request, act, observe, plan  # noqa: E402

SIZE = 1024**3
BLOCK = 1024**2


def write(path):
    block = os.urandom(BLOCK)
    with path.open("wb") as file:
        for _number in range(SIZE // BLOCK):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def read(path):
    """Seconds to read a file once."""
    before = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.read(BLOCK):
            pass
    return time.perf_counter() - before


def measured(request, warm):
    """Fill the cache, carry out ``request``: ``(seconds, outcome, MemFree before and after)``."""
    for path in warm:
        read(path)
    before = read_memory().free
    begin = time.perf_counter()
    seen = observe(request)
    outcome = act(request, seen, plan(request, seen))
    taken = time.perf_counter() - begin
    return taken, outcome, (before, outcome.memory.free)


def main():
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        model, neighbour = Path(folder, "model"), Path(folder, "neighbour")
        for path in (model, neighbour):
            write(path)
        evicting, outcome, free = measured(Request(paths=(str(model),)), (model, neighbour))
        kept = read(neighbour)
        stayed = f"{outcome.evicted.after / SIZE:.1%} of it stayed"
        print(f"evict a 1 GiB file: MemFree {gib(free[0])} -> {gib(free[1])}, {stayed}")
        dropping, outcome, free = measured(Request(busy="ignore"), (model, neighbour))
        if outcome.error:
            print(f"evict a 1 GiB file: {evicting:.3f} s, drop_caches: skipped, {outcome.error.message}")
            return
        lost = read(neighbour)
        print(f"drop_caches: MemFree {gib(free[0])} -> {gib(free[1])}")
        print(f"evict a 1 GiB file: {evicting:.3f} s, drop_caches: {dropping:.3f} s, ratio {dropping / evicting:.1f}")
        print(
            f"the other file after an eviction: {kept:.3f} s, after drop_caches: {lost:.3f} s, ratio {lost / kept:.1f}"
        )


if __name__ == "__main__":
    main()
