"""Archives as they come, and what is unpacked from them."""

import errno
import os
import stat
import struct
import tarfile

import pytest
from ansible.module_utils.armstage.staging.fetch import Refused
from ansible.module_utils.armstage.staging.unpack import Layout, unpack

from .archives import entry, listing, zipped

TREE = {
    "top/": None,
    "top/bin/tool": b"run",
    "top/lib/libx.so.1": b"lib",
    "top/lib/libx.so": "libx.so.1",
    "top/empty": None,
}
UNPACKED = {"bin/tool": b"run", "lib/libx.so.1": b"lib", "lib/libx.so": "libx.so.1", "empty": None}


@pytest.mark.parametrize("packed", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_of_each_packing(tar, archive, folder, packed):
    unpack(archive(tar(TREE, packed)), folder, Layout(strip_components=1))
    assert listing(folder) == UNPACKED
    assert stat.S_IMODE((folder / "bin/tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "lib/libx.so.1").stat().st_mode) == 0o644
    assert (folder / "bin/tool").stat().st_mtime == 1_700_000_000


def test_packing_is_seen_in_the_content_not_in_the_name(tar, archive, folder):
    unpack(archive(tar(TREE, "w:xz"), "a.zip"), folder)
    assert (folder / "top/bin/tool").read_bytes() == b"run"


def test_a_wheel_of_scripts(wheel, archive, folder):
    name = "uv-0.10.0.data/scripts/uv"
    content = wheel({name: b"run", "uv/__init__.py": b"", "uv-0.10.0.dist-info/RECORD": b"x"}, modes={name: 0o644})
    unpack(archive(content), folder, Layout(select="uv-0.10.0.data/scripts"))
    assert listing(folder) == {"uv": b"run"}
    assert os.access(folder / "uv", os.X_OK)


def test_a_wheel_of_libraries(wheel, archive, folder):
    content = wheel({"av.libs/libavutil-2a27f4d8.so.59.39.100": b"x", "av.libs/d/a.txt": b"", "av.libsx/no": b""})
    unpack(archive(content), folder, Layout(select="av.libs", into="lib"))
    assert listing(folder) == {"lib/libavutil-2a27f4d8.so.59.39.100": b"x", "lib/d/a.txt": b""}


def test_a_zip_with_links_and_modes(wheel, archive, folder):
    unpack(archive(wheel({"d/tool": b"run", "d/link": "tool"}, modes={"d/tool": 0o700})), folder)
    assert listing(folder) == {"d/tool": b"run", "d/link": "tool"}
    assert stat.S_IMODE((folder / "d/tool").stat().st_mode) == 0o755


LAYOUTS = {
    "nothing": (Layout(), {"a/b/f": b"1", "a/g": b"2", "h": b"3"}),
    "strip 1": (Layout(strip_components=1), {"b/f": b"1", "g": b"2"}),
    "strip 2": (Layout(strip_components=2), {"f": b"1"}),
    "select": (Layout(select="a"), {"b/f": b"1", "g": b"2"}),
    "strip, then select": (Layout(strip_components=1, select="b"), {"f": b"1"}),
    "into": (Layout(select="a/b", into="x/y"), {"x/y/f": b"1"}),
}


@pytest.mark.parametrize("case", LAYOUTS)
@pytest.mark.parametrize("prefix", ["", "./"])
def test_layouts(tar, archive, folder, case, prefix):
    layout, expected = LAYOUTS[case]
    unpack(archive(tar({f"{prefix}a/b/f": b"1", f"{prefix}a/g": b"2", f"{prefix}h": b"3"})), folder, layout)
    assert listing(folder) == expected


@pytest.mark.parametrize("layout", [Layout(select="nowhere"), Layout(strip_components=9), Layout(select="a/b/f")])
def test_a_layout_that_finds_nothing(tar, archive, folder, layout):
    with pytest.raises(Refused, match=r"Expected .*files.* in `.*a.tar.gz`, but found none"):
        unpack(archive(tar({"a/b/f": b"1"})), folder, layout)


def test_hard_links_are_kept(tar, archive, folder):
    unpack(archive(tar([("t/a", b"1"), ("t/b", entry("t/b", tarfile.LNKTYPE, "t/a"))])), folder, Layout(1))
    assert listing(folder) == {"a": b"1", "b": b"1"}
    assert (folder / "a").stat().st_ino == (folder / "b").stat().st_ino


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_a_filesystem_without_hard_links_gets_copies(tar, archive, folder, monkeypatch, number):
    def refuse(*_paths):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    unpack(archive(tar([("bin/a", b"1"), ("bin/b", entry("bin/b", tarfile.LNKTYPE, "bin/a"))])), folder)
    assert listing(folder) == {"bin/a": b"1", "bin/b": b"1"}
    assert stat.S_IMODE((folder / "bin/b").stat().st_mode) == 0o755


def test_names_that_differ_in_case_are_two(tar, archive, folder):
    unpack(archive(tar({"terminfo/E/eterm": b"1", "terminfo/e/eterm": b"2"})), folder)
    assert listing(folder) == {"terminfo/E/eterm": b"1", "terminfo/e/eterm": b"2"}


def test_dangerous_bits_are_dropped(tar, archive, folder):
    info = entry("tool", tarfile.REGTYPE)
    info.mode = 0o6777
    before = os.umask(0o077)
    try:
        unpack(archive(tar([("tool", info), ("d/f", b"")])), folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "d").stat().st_mode) == 0o755


PROGRAMS = {
    "of a fixed place": {"type": 2},
    "with an interpreter": {"segments": ((3, b"/lib/ld-linux-aarch64.so.1\0"),)},
    "static, of any place": {"segments": ((2, struct.pack("<QQQQ", 0x6FFFFFFB, 0x08000000, 0, 0)),)},
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("mode", [0, 0o100644], ids=["no mode", "0644"])
def test_a_program_can_be_started_whatever_the_archive_says(archive, folder, program, mode):
    """CI systems pack what they built into zips that lose the modes."""
    members = [("tool", mode, built(**PROGRAMS[program])), ("lib.so.1", mode, built()), ("run", mode, b"#!/bin/sh\n")]
    unpack(archive(zipped(*members)), folder)
    assert os.access(folder / "tool", os.X_OK)
    assert not os.access(folder / "lib.so.1", os.X_OK)
    assert os.access(folder / "run", os.X_OK) == (mode == 0), "a mode that is there counts for what is no program"


def built(type=3, segments=()):
    """An aarch64 ELF file with ``(kind, content)`` segments."""
    head = struct.pack("<HHIQQQIHHHHHH", type, 183, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
    table, content, offset = b"", b"", 64 + 56 * len(segments)
    for kind, body in segments:
        place = offset + len(content)
        table += struct.pack("<IIQQQQQQ", kind, 4, place, place, place, len(body), len(body), 8)
        content += body
    return b"\x7fELF\x02\x01\x01" + bytes(9) + head + table + content


def test_progress_counts_bytes(tar, archive, folder):
    seen = []
    unpack(archive(tar({"a": b"12345", "b": b"678"})), folder, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(5, None), (8, None)]
