"""What is changed before publishing: links under plain sonames, edits of texts."""

import os

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging.adapt import link_plain_sonames, plain_soname, replace_texts


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
