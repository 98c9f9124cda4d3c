"""The page cache on aarch64: a GiB evicted without rights, what a container says, and a write into a bound stand-in."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT / "module_utils")]

from lab import nodes  # noqa: E402

pytestmark = [
    pytest.mark.arm64,
    pytest.mark.skipif(
        not shutil.which("podman"), reason="needs podman; tests/faults does the same on the host itself"
    ),
]

EVICT = """
import json, os, platform, sys
sys.path.insert(0, sys.argv[1])
from armstage.memory import evict, residency
folder = sys.argv[2]
block = os.urandom(1 << 20)
for name, size in (("model", 1024), ("other", 16)):
    with open(f"{folder}/{name}", "wb") as file:
        for _number in range(size):
            file.write(block)
other, _skipped = evict.find_files([f"{folder}/other"])
model, _skipped = evict.find_files([f"{folder}/model"])
answer = evict.evict(model, 120).as_dict()
print(json.dumps([platform.machine(), os.getuid(), answer, evict.measure(other).before]))
"""

DROP = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
from armstage.memory.page_cache import Request, act, observe, plan, result
if len(sys.argv) > 2:
    stand_in, target, bind = sys.argv[2].encode(), b"/proc/sys/vm/drop_caches", 4096
    assert ctypes.CDLL(None).mount(stand_in, target, None, ctypes.c_ulong(bind), None) == 0
    assert open(target).read() == "0"  # the kernel's own file can't be read
request = Request(busy="ignore", timeout=60)
seen = observe(request)
print(json.dumps(result(request, seen, plan(request, seen), act(request, seen, plan(request, seen)), False)))
"""


@pytest.fixture(scope="module")
def shared():
    folder = Path(tempfile.mkdtemp(prefix="armstage-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    shutil.copytree(PROJECT / "module_utils", folder / "module_utils", ignore=shutil.ignore_patterns("__pycache__"))
    for name, program in (("evict.py", EVICT), ("drop.py", DROP)):
        (folder / name).write_text(program)
    (folder / "data").mkdir()
    (folder / "data").chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def node(shared, name, **options):
    nodes.up(nodes.Node(name=name, shared=[str(shared)], **options))
    return name


@pytest.fixture(scope="module")
def container(shared):
    yield node(shared, "armstage-test-page-cache")
    nodes.down("armstage-test-page-cache")


@pytest.fixture(scope="module")
def privileged(shared):
    yield node(shared, "armstage-test-page-cache-bound", privileged=True)
    nodes.down("armstage-test-page-cache-bound")


def test_a_gibibyte_is_evicted_without_rights_and_its_neighbour_stays(shared, container):
    kind = subprocess.run(["stat", "-f", "-c", "%T", shared], capture_output=True, text=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        pytest.skip("needs /var/tmp on a real disk")
    command = ["python3", f"{shared}/evict.py", f"{shared}/module_utils", f"{shared}/data"]
    machine, user, answer, neighbour = json.loads(nodes.execute(container, command, user="nobody"))
    assert machine == "aarch64"
    assert user != 0
    assert answer["resident_before_bytes"] == 2**30
    assert answer["resident_after_bytes"] < 0.05 * 2**30
    assert neighbour == 16 * 2**20


def test_a_container_says_to_run_on_the_host(shared, container):
    command = ["python3", f"{shared}/drop.py", f"{shared}/module_utils"]
    answer = json.loads(nodes.execute(container, command))
    assert (answer["reason"], answer["changed"]) == ("read-only", False)
    assert answer["hint"].startswith("Run on the host")


def test_the_write_reaches_what_stands_for_the_kernels_file(shared, privileged):
    """As on a host: everything is read from /, and only the last file is a stand-in."""
    (shared / "drop_caches").write_text("0")
    command = ["python3", f"{shared}/drop.py", f"{shared}/module_utils", f"{shared}/drop_caches"]
    answer = json.loads(nodes.execute(privileged, command))
    assert (answer["via"], answer["changed"]) == ("write", True)
    assert (shared / "drop_caches").read_bytes() == b"1"
