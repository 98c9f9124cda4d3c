"""What is staged, what check mode says of it, and a second run."""

import json
import os

from ansible.module_utils.armstage.staging.progress import Reporter
from ansible.module_utils.armstage.staging.publish import manifest
from ansible.module_utils.armstage.staging.record import read_manifest

from ..looking import snapshot
from .looking import same, sha, store


def test_a_release_is_staged(stage, source, program, root):
    content = program()
    given = source(content, kind="mirror")
    result = stage(given, run_id="run-9", links={"uv-aarch64": "."})
    folder = f"uv-1.0-{sha(content)[:12]}"
    assert result["changed"]
    assert result["available"]
    release = result["release"]
    assert release.pop("seconds") >= 0
    assert release == {
        "name": "uv",
        "version": "1.0",
        "path": f"{root}/store/{folder}",
        "digest": sha(content),
        "source": {"kind": "mirror", "url": given["url"], "sha256": sha(content)},
        "size": 132,
        "files": 3,
        "elf": {"aarch64": 2},
        "link": f"{root}/bin/uv-aarch64",
    }
    assert result["diff"]["before"] == ""
    assert result["diff"]["after"] == (
        f"bin/uv-aarch64 -> ../store/{folder}/uv\nstore/{folder}\nuv-aarch64 -> store/{folder}\n"
    )
    assert result["actions"] == [
        f"publish store/{folder} from mirror `{given['url']}`",
        f"point bin/uv-aarch64 to ../store/{folder}/uv",
        f"point uv-aarch64 to store/{folder}",
    ]
    assert store(root) == [folder]
    assert os.readlink(root / "bin/uv-aarch64") == f"../store/{folder}/uv"
    assert (root / "bin/uv-aarch64").read_bytes().startswith(b"\x7fELF")
    assert sorted(path.name for path in (root / "cache").iterdir()) == [sha(content)]
    assert read_manifest(root) == manifest(root)
    assert read_manifest(root)["releases"][0]["run"] == "run-9"
    assert (
        json.loads((root / "store" / folder / ".armstage.json").read_text())["extra"]["recipe"]["strip_components"] == 1
    )


def test_check_mode_on_an_empty_host_predicts_it_and_writes_nothing(stage, source, program, root, server):
    gone = {"url": f"{server.base}/gone", "sha256": "0" * 64}
    sources = [gone, source(program())]
    predicted = stage(*sources, check=True)
    assert not root.parent.exists()
    assert server.asked("GET") == []
    assert same(predicted, stage(*sources))
    assert predicted["changed"]
    assert [skipped["reason"] for skipped in predicted["skipped_sources"]] == ["HTTP 404 Not Found"]


def test_the_second_run_touches_nothing_and_asks_nobody(stage, source, program, root, server):
    given = source(program())
    stage(given)
    before = snapshot(root)
    server.requests.clear()
    for check in (True, False):
        result = stage(given, check=check)
        assert (result["changed"], result["actions"], result["skipped_sources"]) == (False, [], [])
        assert result["diff"]["before"] == result["diff"]["after"]
        assert result["release"]["elf"] == {"aarch64": 2}
    assert snapshot(root) == before
    assert server.requests == []


def test_a_release_from_any_of_the_sources_will_do(stage, source, program, root):
    first, second = source(program("a"), "/a.tar.gz"), source(program("b"), "/b.tar.gz", kind="pypi")
    stage(second)
    before = snapshot(root)
    result = stage(first, second)
    assert not result["changed"]
    assert result["release"]["source"]["kind"] == "pypi"
    assert snapshot(root) == before


def test_where_both_are_there_the_linked_one_is_used(stage, source, program):
    first, second = source(program("a"), "/a.tar.gz"), source(program("b"), "/b.tar.gz")
    stage(second, keep=9)
    stage(first, keep=9)
    assert not stage(first, second, keep=9)["changed"]
    assert stage(second, first, keep=9)["release"]["digest"] == first["sha256"]


def test_a_relative_root_that_moves(stage, source, program, root, tmp_path):
    given = source(program())
    stage(given)
    root.rename(tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere/bin/uv-aarch64").exists()
    result = stage(given, dest=str(tmp_path / "elsewhere"))
    assert not result["changed"]


def test_a_root_below_a_link_and_a_bin_that_is_one(stage, source, program, root, tmp_path):
    (tmp_path / "disk" / "tools").mkdir(parents=True)
    root.parent.mkdir()
    root.symlink_to(tmp_path / "disk")
    (root / "bin").symlink_to("tools")
    given = source(program())
    stage(given)
    assert (root / "bin/uv-aarch64").exists()
    assert not stage(given)["changed"]


def test_check_mode_predicts_a_digest_from_a_checksum_file(stage, source, program, server):
    content = program()
    sums = server.put("/sums", f"{sha(content)}  uv.tar.gz\n".encode())
    given = {"url": source(content)["url"], "sha256_url": sums, "strip_components": 1}
    predicted = stage(given, check=True)
    assert predicted["release"]["digest"] == sha(content)
    assert same(predicted, stage(given))
    server.requests.clear()
    assert not stage(given)["changed"]
    assert server.requests == []


def test_texts_are_edited_before_publishing(stage, source, tar, root):
    given = source(tar({"d/lib/a.pc": b"prefix=/install"}))
    edits = [{"path": "lib/*.pc", "old": "/install", "new": "{link}"}]
    assert stage(given, link="python/x", link_target=".", replace=edits)["changed"]
    assert (root / "python/x/lib/a.pc").read_text() == f"prefix={root}/python/x"
    assert not stage(given, link="python/x", link_target=".", replace=edits)["changed"]


def test_libraries_get_their_plain_names(stage, source, wheel, elf, root):
    content = wheel({"av.libs/libavutil-2a27f4d8.so.59.39.100": elf()})
    given = source(content, "/av.whl", select="av.libs", into="lib", plain_sonames=True, strip_components=0)
    assert stage(given, link="ffmpeg", link_target=".")["release"]["files"] == 2
    assert os.readlink(root / "ffmpeg/lib/libavutil.so.59") == "libavutil-2a27f4d8.so.59.39.100"


def test_progress_is_told_and_taken_away(stage, source, program, tmp_path, monkeypatch):
    lines = []
    write = Reporter._write
    monkeypatch.setattr(
        Reporter, "_write", lambda self, text: (write(self, text), lines.append((tmp_path / "p").read_text()))
    )
    stage(source(program(), kind="pypi"), progress=str(tmp_path / "p"))
    assert lines == ["0 - uv, from pypi\n", "0 - uv, unpacking\n"]
    assert not (tmp_path / "p").exists()
    assert not list(tmp_path.glob("p.*"))


def test_progress_that_cannot_be_written_stops_nothing(stage, source, program):
    assert stage(source(program()), progress="/proc/no/such/place")["changed"]
