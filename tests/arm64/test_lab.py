"""The lab keeps its word: nodes behave as nodes, and the archives of its mirror run where they are made for."""

import hashlib
import json
import shutil
import subprocess
import time

import pytest
from lab import nodes, podman

from armstage.elf import reader

pytestmark = pytest.mark.arm64

OWN_LIBRARIES = """
import bz2, ctypes, curses, decimal, hashlib, lzma, readline, sqlite3, ssl, uuid, zlib
mapped = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
print("\\n".join(sorted(path for path in mapped if not path.startswith(__import__("sys").prefix))))
"""


@pytest.fixture(scope="session")
def unpacked(shared, mirror_folder):
    """Each archive unpacked below the shared folder: component -> its top folder."""
    folder, archives = mirror_folder
    tops = {}
    for name, archive in archives.items():
        target = shared / name
        target.mkdir()
        subprocess.run(["tar", "-xf", folder / archive.address, "-C", target], check=True)
        (tops[name],) = target.iterdir()
    return tops


def test_a_node_is_aarch64_and_sees_the_shared_folder(node, shared):
    (shared / "from-here").write_text("x")
    assert nodes.execute(node, ["uname", "-m"]) == "aarch64\n"
    assert nodes.execute(node, ["cat", f"{shared}/from-here"]) == "x"


def test_a_node_that_is_up_stays_as_it_is_and_changes_when_asked_to(shared):
    node = nodes.Node("armstage-test-changes", shared=[str(shared)])
    try:
        assert nodes.up(node) is True
        assert nodes.up(node) is False
        changed = nodes.Node(node.name, shared=[str(shared)], environment={"A": "1"})
        assert nodes.up(changed) is True
        assert nodes.execute(node.name, ["printenv", "A"]) == "1\n"
    finally:
        started = time.monotonic()
        assert nodes.down(node.name) is True
        assert time.monotonic() - started < 5, "a node ends at once"
    assert nodes.down(node.name) is False


def test_a_shared_folder_that_was_made_again_is_seen(shared):
    folder = shared / "again"
    node = nodes.Node("armstage-test-again", shared=[str(folder)])
    try:
        nodes.up(node)
        folder.rmdir()
        assert nodes.up(node) is True
        (folder / "new").write_text("x")
        assert nodes.execute(node.name, ["ls", str(folder)]) == "new\n"
    finally:
        nodes.down(node.name)


def test_a_container_of_somebody_else_is_left_alone(node):
    image = podman.call("inspect", "--format", "{{.Image}}", node).strip()
    podman.call("create", "--arch", "arm64", "--pull", "never", "--name", "not-of-the-lab", image, "true")
    try:
        with pytest.raises(Exception, match="`not-of-the-lab`"):
            nodes.up(nodes.Node("not-of-the-lab"))
        with pytest.raises(Exception, match="no label"):
            nodes.down("not-of-the-lab")
        assert "not-of-the-lab" not in nodes.names()
    finally:
        podman.call("rm", "not-of-the-lab")


def test_nodes_find_each_other_on_the_internal_network_and_nothing_else():
    names = ["armstage-test-a", "armstage-test-b"]
    reach = "import socket, sys; socket.create_connection((sys.argv[1], 9), 2)"
    try:
        for name in names:
            nodes.up(nodes.Node(name, network="internal"))
        neighbour = podman.attempt("exec", names[0], "python3", "-c", reach, names[1]).err
        outside = podman.attempt("exec", names[0], "python3", "-c", reach, "192.0.2.1").err
    finally:
        for name in names:
            nodes.down(name)
    assert "Connection refused" in neighbour
    assert "Network is unreachable" in outside


def test_every_program_of_every_archive_is_aarch64(unpacked):
    for top in unpacked.values():
        machines = [machine for _path, machine in reader.find_elf(str(top))]
        assert machines
        assert set(machines) == {"aarch64"}


def test_cpython_brings_all_that_it_needs_but_glibc_wherever_it_lies(node, shared, unpacked):
    for place in (unpacked["cpython"], shared / "another" / "place"):
        if place != unpacked["cpython"]:
            shutil.copytree(unpacked["cpython"], place, symlinks=True)
        foreign = nodes.execute(node, [f"{place}/bin/python3", "-c", OWN_LIBRARIES]).split()
        assert {path.rpartition("/")[2] for path in foreign} <= {"ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6"}


def test_cpython_has_the_layout_of_its_upstream(unpacked, mirror_folder):
    top, archive = unpacked["cpython"], mirror_folder[1]["cpython"]
    assert top.name == "python"
    assert reader.read(str(top / "bin/python3.13")).rpath == ("$ORIGIN/../lib",)
    assert reader.read(str(top / "lib/libpython3.13.so.1.0")).soname == "libpython3.13.so.1.0"
    (settings, *_others) = sorted((top / "lib/python3.13").glob("_sysconfigdata_*.py"))
    assert "'/install/lib'" in settings.read_text()
    assert archive.version.startswith("3.13.")
    assert not (top / "lib/python3.13/EXTERNALLY-MANAGED").exists()


def test_ffmpeg_decodes_the_clip(node, shared, unpacked, clip):
    shutil.copy(clip, shared / "clip.mp4")
    expected = json.loads(clip.with_suffix(".json").read_text())
    options = ["-v", "error", "-count_frames", "-of", "json", "-show_entries", "stream=width,height,nb_read_frames"]
    answer = nodes.execute(node, [f"{unpacked['ffmpeg']}/bin/ffprobe", *options, f"{shared}/clip.mp4"])
    (stream,) = json.loads(answer)["streams"]
    frames = str(expected["frames"])
    assert stream == {"width": expected["width"], "height": expected["height"], "nb_read_frames": frames}


def test_ffmpeg_has_the_layout_of_its_upstream(unpacked):
    top = unpacked["ffmpeg"]
    for soname in (
        "avutil.so.59",
        "avcodec.so.61",
        "avformat.so.61",
        "avdevice.so.61",
        "avfilter.so.10",
        "swscale.so.8",
    ):
        library = reader.read(str(top / f"lib/lib{soname}"))
        assert (library.soname, library.rpath, library.runpath) == (f"lib{soname}", (), ())
    assert reader.read(str(top / "bin/ffmpeg")).runpath == ("$ORIGIN", "$ORIGIN/../lib")
    assert (top / "lib/libavutil.so").readlink().name.startswith("libavutil.so.59.")
    assert (top / "LICENSE.txt").is_file()


def test_uv_runs(node, unpacked, mirror_folder):
    answer = nodes.execute(node, [f"{unpacked['uv']}/uv", "--version"])
    assert answer.split()[:2] == ["uv", mirror_folder[1]["uv"].version]


def test_the_checksums_of_the_mirror_are_those_of_its_files(mirror_folder):
    folder, archives = mirror_folder
    for archive in archives.values():
        assert hashlib.sha256((folder / archive.address).read_bytes()).hexdigest() == archive.sha256
    subprocess.run(["sha256sum", "--check", "--quiet", "checksums.sha256"], cwd=folder, check=True)
    for path in (*folder.rglob("SHA256SUMS"), *folder.rglob("*.sha256")):
        subprocess.run(["sha256sum", "--check", "--quiet", path.name], cwd=path.parent, check=True)
