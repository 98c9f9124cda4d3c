"""What is refused: named, nothing published, nothing left."""

import os

import pytest

from ..looking import snapshot
from .looking import sha, store


@pytest.fixture
def refuse(stage, root):
    def call(given, *words, **options):
        before = store(root)
        result = stage(given, **options)
        assert result["failed"]
        for word in (given["url"], *words):
            assert word in result["msg"]
        assert result["hint"]
        assert store(root) == before
        assert not (root / "bin").exists()
        cache = root / "cache"
        assert not cache.exists() or [name for name in os.listdir(cache) if name.endswith(".part")] == []
        return result

    return call


def test_an_html_page_is_refused(refuse, source, program, server):
    given = source(program())
    server.put("/uv.tar.gz", b"<html><title>Sign in</title>", content_type="text/html")
    refuse(given, given["sha256"], "an HTML page titled `Sign in`")


def test_another_hash_is_refused(refuse, source, program, server):
    given = source(program())
    server.put("/uv.tar.gz", program("2.0"))
    refuse(given, given["sha256"], sha(program("2.0")))


def test_a_cut_archive_is_refused(refuse, source, program):
    refuse({**source(program()[:-40])}, "is damaged")


def test_a_member_that_leads_outside_is_refused(refuse, source, tar, root):
    refuse(source(tar({"d/ok": b"", "../../evil": b"x"})), "`../../evil`")
    assert not list(root.parent.parent.rglob("evil"))


def test_a_file_for_another_machine_is_refused(refuse, source, program):
    refuse(source(program(machine="x86_64")), "Expected aarch64", "`uv` is for x86_64")


def test_a_program_that_is_cut_off_within_the_archive_is_named_by_the_archive(refuse, source, tar):
    result = refuse(source(tar({"uv-1.0/uv": b"\x7fELF\x02\x01"})), "`uv` is cut off in its ELF header")
    assert ".partial" not in result["msg"] + result["hint"]


def test_any_machine_where_none_is_asked_for(stage, source, program):
    assert stage(source(program(machine="x86_64")), elf_machine="")["release"]["elf"] == {"x86_64": 2}


def test_a_link_target_that_the_archive_does_not_hold(refuse, source, program):
    given = source(program())
    refuse(given, "Expected `bin/uv`", "found `README`, `lib`, `uv`", link_target="bin/uv")


def test_a_download_always_cut_is_no_source(stage, source, program, server, root):
    given = source(program())
    server.put("/uv.tar.gz", program(), cut=20, ranges=False)
    result = stage(given)
    assert "ended after 20 of" in result["msg"]
    assert store(root) == []


def test_what_stands_in_a_link_s_place_is_found_before_any_request(stage, source, program, root, server):
    (root / "bin").mkdir(parents=True)
    (root / "bin/uv-aarch64").write_text("somebody's")
    for check in (True, False):
        result = stage(source(program()), check=check)
        assert f"Expected a symbolic link or nothing at `{root}/bin/uv-aarch64`" in result["msg"]
        assert result["hint"].startswith("Move it away")
    assert server.requests == []
    assert store(root) == []


def test_a_pin_that_changed_for_the_same_version(stage, source, program, root):
    given = source(program())
    stage(given)
    before = snapshot(root)
    for check in (True, False):
        result = stage({**given, "sha256": "1" * 64}, check=check)
        assert f"Expected sha256 `{given['sha256']}` for uv 1.0" in result["msg"]
        assert "1" * 64 in result["msg"]
        assert "state=absent" in result["hint"]
    assert snapshot(root) == before


def test_a_checksum_file_that_changed_for_the_same_version(stage, source, program, server, root):
    first, second = program("a"), program("b")
    sums = server.put("/sums", f"{sha(first)}  uv.tar.gz\n".encode())
    given = {"url": source(first)["url"], "sha256_url": sums, "strip_components": 1}
    stage(given)
    (root / "store" / f"uv-1.0-{sha(first)[:12]}" / "README").unlink()
    server.put("/sums", f"{sha(second)}  uv.tar.gz\n".encode())
    source(second)
    for check in (True, False):
        result = stage(given, check=check)
        assert f"Expected sha256 `{sha(first)}` for uv 1.0" in result["msg"]
        assert sha(second) in result["msg"]
    assert store(root) == [f"uv-1.0-{sha(first)[:12]}"]
