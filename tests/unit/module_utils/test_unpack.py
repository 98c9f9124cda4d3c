"""Archives as they come and archives made to harm: what is unpacked, and what is refused by name."""

import errno
import gzip
import io
import os
import random
import stat
import struct
import tarfile
import zipfile

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging import unpack as unpacking
from ansible.module_utils.armstage.staging.adapt import link_plain_sonames, plain_soname, replace_texts
from ansible.module_utils.armstage.staging.fetch import Refused
from ansible.module_utils.armstage.staging.unpack import Layout, unpack
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture
def archive(tmp_path):
    def write(content, name="a.tar.gz"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "out" / "partial"
    path.mkdir(parents=True)
    return path


def listing(folder):
    """Every file, link and empty folder below a folder: text -> content, target or None."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not any(path.iterdir()):
            found[name] = None
    return found


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


# Refused, naming archive and member.


def entry(name, kind, target="", size=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


SYM, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
HARMFUL = {
    "parent": ([("../evil", b"x")], "../evil", "not a path below"),
    "parent inside": ([("a/../../evil", b"x")], "a/../../evil", "not a path below"),
    "parent that comes back": ([("a/../b", b"x")], "a/../b", "not a path below"),
    "absolute": ([("/etc/evil", entry("/etc/evil", tarfile.REGTYPE))], "/etc/evil", "not a path below"),
    "link to a parent": ([("d/l", "../../evil")], "d/l", "it leads outside, to `../../evil`"),
    "absolute link": ([("l", "/etc/passwd")], "l", "it leads outside, to `/etc/passwd`"),
    "link to itself": ([("l", "l")], "l", "which is not there"),
    "two links that escape together": (
        [("p/q/up", "../.."), ("x", "p/q/up/../y"), ("y", b"")],
        "x",
        "it leads outside, to `p/q/up/../y`",
    ),
    "write through a link": ([("l", "d"), ("d/", None), ("l/evil", b"x")], "l/evil", "`l` is not a folder"),
    "folder through a link": ([("l", "d"), ("d/", None), ("l/e/", None)], "l/e", "`l` is not a folder"),
    "dangling link": ([("l", "nowhere"), ("f", b"")], "l", "it names `nowhere`, which is not there"),
    "link without target": ([("l", entry("l", SYM))], "l", "no usable target"),
    "hard link outside": ([("h", entry("h", HARD, "../../etc/passwd"))], "h", "not a path below"),
    "hard link absolute": ([("h", entry("h", HARD, "/etc/passwd"))], "h", "not a path below"),
    "hard link to nothing": ([("h", entry("h", HARD, "later")), ("later", b"")], "h", "no file before it"),
    "hard link to a link": ([("l", "f"), ("f", b""), ("h", entry("h", HARD, "l"))], "h", "no file before it"),
    "character device": ([("null", entry("null", tarfile.CHRTYPE))], "null", "it is a device"),
    "block device": ([("sda", entry("sda", tarfile.BLKTYPE))], "sda", "it is a device"),
    "pipe": ([("p", entry("p", tarfile.FIFOTYPE))], "p", "it is a pipe"),
    "unknown": ([("u", entry("u", b"Z"))], "u", "it is an unknown type"),
    "twice": ([("a", b"1"), ("a", b"2")], "a", "another member has the same name"),
    "twice by another spelling": ([("a", b"1"), ("./a", b"2")], "./a", "another member has the same name"),
    "file and folder": ([("a", b"1"), ("a/b", b"2")], "a/b", "`a` is not a folder"),
    "folder and file": ([("a/b", b"1"), ("a", b"2")], "a", "another member has the same name"),
    "folder and link": ([("a/b", b"1"), ("a", "a/b")], "a", "another member has the same name"),
}


@pytest.mark.parametrize("case", HARMFUL)
def test_a_harmful_member_is_refused_by_name(tar, archive, folder, case):
    members, name, why = HARMFUL[case]
    outside = listing(folder.parent.parent)
    with pytest.raises(Refused) as refused:
        unpack(archive(tar(members)), folder, shown="https://mirror.invalid/a.tar.gz")
    assert "`https://mirror.invalid/a.tar.gz`" in refused.value.message
    assert f"`{name}`" in refused.value.message
    assert why in refused.value.message
    assert refused.value.hint
    for path in folder.rglob("*"):
        assert path.is_symlink() or not path.samefile("/etc/passwd")
    (folder.parent.parent / "a.tar.gz").unlink()
    left = {name for name in listing(folder.parent.parent) if not name.startswith("out/partial")}
    assert left <= set(outside), "nothing outside was written"


def test_a_name_that_is_no_text_can_be_said(tar, archive, folder):
    with pytest.raises(Refused) as refused:
        unpack(archive(tar([("../\udcff", b"")])), folder)
    assert "../\\udcff" in refused.value.message
    refused.value.message.encode()


def zipped(*members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, mode, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16 or 0x20  # DOS: an archive bit and no mode
            archive.writestr(info, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([("../evil", 0o100644, b"x")], "not a path below"),
        ([("l", 0o120777, b"../../evil")], "leads outside"),
        ([("l", 0o120777, b"x" * 5000)], "no usable target"),
        ([("d", 0o020644, b"")], "a device or pipe"),
        ([("a", 0o100644, b"1"), ("a", 0o100644, b"2")], "same name"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_harmful_member_of_a_zip(archive, folder, members, why):
    with pytest.raises(Refused, match=why):
        unpack(archive(zipped(*members)), folder)


def test_an_encrypted_zip(archive, folder):
    content = bytearray(zipped(("a", 0o100644, b"x")))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    with pytest.raises(Refused, match="it is encrypted"):
        unpack(archive(bytes(content)), folder)


NOT_ARCHIVES = {
    "HTML": (b"<html>", "Expected a tar, zip or wheel archive"),
    "empty": (b"", "Expected a tar, zip or wheel archive"),
    "zstd": (b"\x28\xb5\x2f\xfd" + b"x" * 100, "packed with zstd"),
    "gzip of no tar": (gzip.compress(b"hello" * 1000), "is damaged"),
    "xz header only": (b"\xfd7zXZ\x00" + b"x" * 50, "is damaged"),
    "bzip2 header only": (b"BZh9" + b"x" * 50, "is damaged"),
    "zip header only": (b"PK\x03\x04" + b"x" * 50, "is damaged"),
}


@pytest.mark.parametrize("case", NOT_ARCHIVES)
def test_what_is_no_archive(archive, folder, case):
    content, why = NOT_ARCHIVES[case]
    with pytest.raises(Refused, match=why):
        unpack(archive(content), folder)


@pytest.mark.parametrize("packed", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_an_archive_that_was_cut(tar, archive, folder, packed, part):
    content = tar({"a": os.urandom(50_000), "b": os.urandom(50_000)}, packed)
    with pytest.raises(Refused, match="is damaged"):
        unpack(archive(content[: int(len(content) * part)]), folder)


@pytest.mark.parametrize("packed", ["w", "w:gz", "w:xz", "zip"])
def test_an_archive_with_any_bytes_changed(tar, wheel, archive, tmp_path, packed):
    """Whatever the readers of Python's library raise, it is refused or unpacked, never a traceback."""
    members = {"a": b"hello" * 50, "d/\u00e9": b"x", "l": "a"}
    whole = wheel(members) if packed == "zip" else tar(members, packed)
    chance = random.Random(packed)
    refused = 0
    for number in range(300):
        content = bytearray(whole)
        for _change in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            unpack(archive(bytes(content)), folder)
        except Refused:
            refused += 1
    assert refused > 50


def test_a_header_of_pax_that_makes_no_sense(archive, folder):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as content:
        info = tarfile.TarInfo("a")
        info.pax_headers = {"GNU.sparse.map": "1,x", "GNU.sparse.size": "10"}
        content.addfile(info)
    with pytest.raises(Refused, match="is damaged"):
        unpack(archive(buffer.getvalue()), folder)


@pytest.mark.parametrize("packed", ["w:gz", "zip"])
def test_a_bomb_by_ratio(tar, wheel, archive, folder, packed, monkeypatch):
    monkeypatch.setattr(unpacking, "RATIO_FREE", 1_000_000)
    members = {"small": b"x", "zeros": bytes(3_000_000)}
    with pytest.raises(Refused, match=r"`zeros`.*would unpack to more than"):
        unpack(archive(wheel(members) if packed == "zip" else tar(members)), folder)
    assert not (folder / "zeros").exists()


def test_a_bomb_by_number(tar, archive, folder, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_MEMBERS", 10)
    with pytest.raises(Refused, match="it comes after 10 others"):
        unpack(archive(tar({f"f{number}": b"" for number in range(11)})), folder)


def test_more_than_there_is_room_for(tar, archive, folder, monkeypatch):
    really = os.statvfs(folder)
    blocks = (unpacking.MARGIN + 5000) // really.f_frsize
    status = os.statvfs_result((really.f_bsize, really.f_frsize, blocks, blocks, blocks, 9, 9, 9, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: status)
    with pytest.raises(ArmstageError, match=r"Not enough space .* to unpack `.*a.tar.gz`: more than 6.0 kB needed"):
        unpack(archive(tar({"a": bytes(6000)})), folder)


PARTS = st.lists(st.sampled_from([".", "..", "a", "b", "l", "m"]), min_size=1, max_size=4).map("/".join)
MEMBERS = st.lists(
    st.tuples(PARTS, st.one_of(st.binary(max_size=3), PARTS, PARTS.map(lambda path: "/" + path), st.none())), max_size=8
)


@given(MEMBERS)
def test_no_archive_of_names_and_links_reaches_outside(tar, tmp_path_factory, members):
    """Whatever the names, links and their order: nothing outside is written, no link that is left leads out."""
    base = tmp_path_factory.mktemp("any")
    folder = base / "deep" / "er" / "partial"
    folder.mkdir(parents=True)
    (base / "a.tar").write_bytes(tar(members, "w"))
    try:
        unpack(base / "a.tar", folder)
    except Refused:
        pass
    else:
        for path in folder.rglob("*"):
            assert (path.resolve() / "").is_relative_to(folder.resolve())
            assert path.exists()
    assert {str(path.relative_to(base)) for path in base.rglob("*") if not path.is_relative_to(folder)} == {
        "a.tar",
        "deep",
        "deep/er",
    }


# What is changed before publishing.


@pytest.mark.parametrize(
    ("name", "soname"),
    [
        ("libavutil-2a27f4d8.so.59.39.100", "libavutil.so.59"),
        ("libSDL2-2-ab12cd34.0.so.0.2.1", None),
        ("libxcb-render-637b984a.so.0.0.0", "libxcb-render.so.0"),
        ("libjpeg-f2263007abcd.so.8.3.2", "libjpeg.so.8"),
        ("libsharpyuv-d847164e.so", None),
        ("libavutil.so.59.39.100", None),
        ("libx-1234567.so.1", None),
        ("libx-ABCDEF12.so.1", None),
        ("libx-2a27f4d8.so.59.txt", None),
    ],
)
def test_plain_sonames(name, soname):
    assert plain_soname(name) == soname


def test_links_under_plain_sonames(folder):
    for name in ("libavutil-2a27f4d8.so.59.39.100", "libwebp-912d14ad.so.7.2.0", "libsharpyuv-d847164e.so"):
        (folder / name).write_bytes(name.encode())
    link_plain_sonames(folder)
    assert os.readlink(folder / "libavutil.so.59") == "libavutil-2a27f4d8.so.59.39.100"
    assert os.readlink(folder / "libwebp.so.7") == "libwebp-912d14ad.so.7.2.0"
    assert len(list(folder.iterdir())) == 5


def test_two_libraries_of_one_soname(folder):
    for name in ("libx-aaaaaaaa.so.1.0", "libx-bbbbbbbb.so.1.2"):
        (folder / name).write_bytes(b"")
    with pytest.raises(
        ArmstageError, match=r"`libx.so.1`, but found `libx-bbbbbbbb.so.1.2` and `libx-aaaaaaaa.so.1.0`"
    ):
        link_plain_sonames(folder)


def test_no_library_with_a_suffix(folder):
    (folder / "libx.so.1").write_bytes(b"")
    with pytest.raises(ArmstageError, match="but found none"):
        link_plain_sonames(folder)


def test_texts_are_edited(folder):
    for name, content in {
        "lib/pkgconfig/a.pc": b"prefix=/install\n",
        "lib/pkgconfig/b.pc": b"x\xff\n",
        "c.pc": b"/install",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "lib/pkgconfig/a.pc").chmod(0o755)
    (folder / "lib/pkgconfig/link.pc").symlink_to("a.pc")
    edits = [{"path": "lib/pkgconfig/*.pc", "old": "/install", "new": "{link}:{release}:{root}"}]
    replace_texts(folder, edits, {"link": "/r/python/x", "release": "/r/store/y", "root": "/r"})
    assert (folder / "lib/pkgconfig/a.pc").read_bytes() == b"prefix=/r/python/x:/r/store/y:/r\n"
    assert (folder / "lib/pkgconfig/a.pc").stat().st_mode & 0o777 == 0o755
    assert (folder / "c.pc").read_bytes() == b"/install"
    assert (folder / "lib/pkgconfig/link.pc").is_symlink()


@pytest.mark.parametrize("edit", [{"path": "none*"}, {"old": "absent"}])
def test_an_edit_that_changes_nothing_is_an_error(folder, edit):
    (folder / "a.pc").write_text("prefix=/install")
    edit = {"path": "*.pc", "old": "/install", "new": "x", **edit}
    with pytest.raises(ArmstageError, match=f"Expected `{edit['old']}` in the files"):
        replace_texts(folder, [edit], {})
