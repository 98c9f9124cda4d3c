"""Which source is used, and what is said of the others."""

import os
import shutil

import pytest

from .looking import same, store


def test_the_first_source_that_answers(stage, source, program, server):
    busy = {"url": server.put("/busy", b"", status=503), "sha256": "1" * 64}
    down = {"url": "http://no-such-host.invalid/x", "sha256": "2" * 64, "kind": "mirror"}
    last = source(program("z"), "/z.tar.gz")
    result = stage(busy, down, source(program()), last)
    assert [skipped["kind"] for skipped in result["skipped_sources"]] == ["upstream", "mirror"]
    assert result["skipped_sources"][0] == {
        "url": busy["url"],
        "kind": "upstream",
        "reason": "HTTP 503 Service Unavailable",
    }
    assert "does not resolve" in result["skipped_sources"][1]["reason"]
    assert result["actions"][0] == f"skip upstream `{busy['url']}`: HTTP 503 Service Unavailable"
    assert "/z.tar.gz" not in server.asked()


def test_a_source_known_to_be_unreachable_is_not_asked(stage, source, program, server):
    known = source(program("a"), "/a.tar.gz")
    result = stage(known, source(program("b"), "/b.tar.gz"), unreachable={known["url"]: "no route to host"})
    assert result["skipped_sources"] == [{"url": known["url"], "kind": "upstream", "reason": "no route to host"}]
    assert not any(path == "/a.tar.gz" for _verb, path, _headers in server.requests)


def test_what_is_in_the_cache_needs_no_source(stage, source, program, root, server):
    given = source(program())
    stage(given)
    shutil.rmtree(root / "store")
    server.requests.clear()
    unreachable = {given["url"]: "offline"}
    predicted = stage(given, unreachable=unreachable, check=True)
    assert same(predicted, stage(given, unreachable=unreachable))
    assert server.requests == []
    assert store(root)


@pytest.mark.parametrize("check", [True, False])
def test_no_source_at_all(stage, server, root, check):
    sources = [{"url": f"{server.base}/{name}", "sha256": "0" * 64, "kind": name} for name in ("mirror", "pypi")]
    result = stage(*sources, check=check)
    assert result["failed"]
    assert result["msg"] == (
        f"No source of uv 1.0 can be used: mirror `{server.base}/mirror`: HTTP 404 Not Found; "
        f"pypi `{server.base}/pypi`: HTTP 404 Not Found"
    )
    assert "mirror" in result["hint"]
    assert not root.exists()


@pytest.mark.parametrize("check", [True, False])
def test_no_source_where_none_is_required(stage, server, root, check):
    result = stage({"url": f"{server.base}/x", "sha256": "0" * 64}, required=False, check=check)
    assert (result["changed"], result["available"], result["release"]["path"]) == (False, False, "")
    assert len(result["skipped_sources"]) == 1
    assert not root.exists()


def test_one_that_is_staged_is_available_whatever_the_sources_say(stage, source, program):
    given = source(program())
    stage(given, replace=[{"path": "README", "old": "x", "new": "y"}])
    result = stage(given, required=False, unreachable={given["url"]: "offline"}, check=True)
    assert result["available"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "other host"])
def test_what_is_no_file_of_this_host_is_passed_over_in_check_mode_as_in_a_run(stage, source, program, tmp_path, kind):
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it
    (tmp_path / "folder").mkdir()
    place, why = {
        "folder": (str(tmp_path / "folder"), "Is a directory"),
        "pipe": (str(tmp_path / "pipe"), "expected a file, but found a pipe or device"),
        "device": ("/dev/null", "expected a file, but found a pipe or device"),
        "other host": ("file://srv/uv.tar.gz", "names another, `srv`"),
    }[kind]
    given = [{"url": place, "sha256": "1" * 64}, source(program())]
    predicted = stage(*given, check=True)
    assert why in predicted["skipped_sources"][0]["reason"]
    assert same(predicted, stage(*given))
