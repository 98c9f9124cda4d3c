"""Archives made to harm, and what is damaged or no archive: refused, naming archive and member."""

import gzip
import io
import os
import random
import tarfile

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging import unpack as unpacking
from ansible.module_utils.armstage.staging.fetch import Refused
from ansible.module_utils.armstage.staging.unpack import unpack
from hypothesis import given
from hypothesis import strategies as st

from .archives import entry, listing, zipped

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
    "a name too long": ([("a/" + "b" * 256, b"")], "a/" + "b" * 253 + "...", "256 bytes, and filesystems take 255"),
    "a path too long": ([("/".join(["d" * 200] * 20), b"")], "d" * 200 + "/" + "d" * 54 + "...", "20 names deep"),
    "folders without end": ([("d/" * 1500 + "f", b"")], "d/" * 127 + "d...", "1501 names deep"),
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
