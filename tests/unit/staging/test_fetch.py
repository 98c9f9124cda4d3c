"""Downloads from servers that behave, and from servers that don't."""

import gzip
import hashlib
import time

import pytest
from ansible.module_utils.armstage.staging.fetch import Fetched, Refused, fetch
from ansible.module_utils.armstage.staging.transport import TransportError

from .downloads import BODY, QUICK, SHA, held


def test_a_download_is_kept_under_its_digest(server, cache):
    seen = []
    url = server.put("/a.tar.gz", BODY)
    got = fetch(url, cache, SHA, progress=lambda done, total: seen.append((done, total)))
    assert got == Fetched(cache / SHA, SHA, len(BODY))
    assert got.path.read_bytes() == BODY
    assert held(cache) == [SHA]
    assert seen[-1] == (len(BODY), len(BODY))


def test_what_is_in_the_cache_costs_no_request(server, cache):
    url = server.put("/a.tar.gz", BODY)
    fetch(url, cache, SHA)
    server.requests.clear()
    assert fetch(url, cache, SHA).path.read_bytes() == BODY
    assert server.requests == []


def test_a_damaged_file_in_the_cache_is_fetched_again(server, cache):
    (cache / SHA).write_bytes(BODY[:-1] + b"?")
    assert fetch(server.put("/a.tar.gz", BODY), cache, SHA).path.read_bytes() == BODY


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_file_of_this_host(tmp_path, cache, form):
    path = tmp_path / "with space+plus.tar.gz"
    path.write_bytes(BODY)
    url = form.format(str(path).replace(" ", "%20") if form.startswith("file") else path)
    assert fetch(url, cache, SHA).path.read_bytes() == BODY


def test_a_path_that_is_not_there(tmp_path, cache):
    with pytest.raises(TransportError, match=r"No such file or directory: `.*gone.tar.gz`"):
        fetch(str(tmp_path / "gone.tar.gz"), cache, SHA)
    assert held(cache) == []


# Content that is not what was asked for: refused with both digests, nothing kept.

HTML = b"<!DOCTYPE html>\n<html><head>\n<title> Sign in \xe2\x80\x93 Proxy </title></head><body>...</body></html>"
WRONG = {
    "another file": (BODY[::-1], "application/gzip", "binary content, 300.0 kB"),
    "HTML": (HTML, "text/html; charset=utf-8", "an HTML page titled `Sign in \u2013 Proxy`"),
    "HTML called an archive": (b"\n<html><body>x</body></html>", "application/gzip", "an HTML page"),
    "an error body": (b'{"message": "Bad credentials"}', "application/json", 'begins `{"message": "Bad credentials"}`'),
    "an S3 error": (b"<?xml version='1.0'?><Error><Code>AccessDenied", "text/xml", "a text that begins `<?xml"),
    "nothing": (b"", "application/gzip", "an empty answer, 0 bytes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_other_content_is_named_and_not_kept(server, cache, case):
    body, content_type, named = WRONG[case]
    url = server.put("/a.tar.gz", body, content_type=content_type)
    with pytest.raises(Refused) as refused:
        fetch(url, cache, SHA)
    for part in (SHA, hashlib.sha256(body).hexdigest(), url, named):
        assert part in refused.value.message
    assert refused.value.hint
    assert held(cache) == []
    assert len(server.asked()) == 1


def test_a_download_that_was_packed_for_the_way_is_called_so(server, cache, reply):
    url = server.put("/a.tar.gz", reply(gzip.compress(BODY), headers={"Content-Encoding": "gzip"}))
    with pytest.raises(Refused, match=r"packed for the way \(Content-Encoding: gzip\)"):
        fetch(url, cache, SHA)


# Failures on the way.


@pytest.mark.parametrize("status", [403, 404, 410, 401])
def test_what_the_server_denies_is_not_asked_twice(server, cache, status):
    url = server.put("/a.tar.gz", b"no", status=status)
    with pytest.raises(TransportError, match=f"HTTP {status}") as failed:
        fetch(url, cache, SHA)
    assert failed.value.status == status
    assert len(server.asked()) == 1
    assert held(cache) == []


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_server_in_trouble_is_asked_again(server, cache, reply, status):
    url = server.put("/a.tar.gz", reply(b"busy", status), reply(b"busy", status), reply(BODY))
    assert fetch(url, cache, SHA).path.read_bytes() == BODY
    assert len(server.asked()) == 3


@pytest.mark.parametrize("asked", ["0", "1", "Wed, 21 Oct 2015 07:28:00 GMT", "soon", ""])
def test_a_wait_that_a_server_asks_for_is_kept(server, cache, reply, asked):
    headers = {"Retry-After": asked}
    url = server.put("/a.tar.gz", reply(b"busy", 429, headers=headers), reply(BODY))
    started = time.monotonic()
    assert fetch(url, cache, SHA).size == len(BODY)
    assert (time.monotonic() - started >= 1) == (asked == "1")


@pytest.mark.parametrize("asked", ["3600", "Thu, 21 Oct 2100 07:28:00 GMT"])
def test_a_wait_that_is_too_long_is_said(server, cache, reply, asked):
    url = server.put("/a.tar.gz", reply(b"busy", 429, headers={"Retry-After": asked}))
    with pytest.raises(TransportError, match=r"HTTP 429 .*, and asks to be left alone for \d+ s") as failed:
        fetch(url, cache, SHA)
    assert failed.value.hint
    assert len(server.asked()) == 1


def test_a_server_in_lasting_trouble_is_given_up(server, cache):
    with pytest.raises(TransportError, match="HTTP 503"):
        fetch(server.put("/a.tar.gz", b"busy", status=503), cache, SHA)
    assert len(server.asked()) == 4


def ranges_asked(server):
    return [headers.get("Range") for verb, _path, headers in server.requests if verb == "GET"]


def test_a_broken_connection_is_resumed_where_it_broke(server, cache, reply):
    url = server.put("/a.tar.gz", reply(BODY, cut=100_000), reply(BODY, cut=50_000), reply(BODY))
    assert fetch(url, cache, SHA).path.read_bytes() == BODY
    assert ranges_asked(server) == [None, "bytes=100000-", "bytes=150000-"]


def test_a_broken_connection_to_a_server_without_ranges_starts_over(server, cache, reply):
    url = server.put("/a.tar.gz", reply(BODY, cut=100_000, ranges=False), reply(BODY, ranges=False))
    assert fetch(url, cache, SHA).path.read_bytes() == BODY
    assert ranges_asked(server) == [None, "bytes=100000-"]


def test_always_cut_short_is_said_with_both_lengths(server, cache):
    url = server.put("/a.tar.gz", BODY, cut=1000, ranges=False)
    with pytest.raises(TransportError, match="ended after 1000 of 300000 bytes"):
        fetch(url, cache, SHA)
    assert held(cache) == [f"{SHA}.part"], "kept to be resumed"


def test_a_later_run_resumes(server, cache):
    (cache / f"{SHA}.part").write_bytes(BODY[:123_456])
    assert fetch(server.put("/a.tar.gz", BODY), cache, SHA).path.read_bytes() == BODY
    assert ranges_asked(server) == ["bytes=123456-"]


def test_a_whole_part_needs_no_request(server, cache):
    (cache / f"{SHA}.part").write_bytes(BODY)
    assert fetch(server.put("/a.tar.gz", BODY), cache, SHA).path.read_bytes() == BODY
    assert server.requests == []


@pytest.mark.parametrize("part", [b"something else", BODY + b"longer than the file"])
def test_a_part_of_another_file_costs_one_fresh_start(server, cache, part):
    (cache / f"{SHA}.part").write_bytes(part)
    assert fetch(server.put("/a.tar.gz", BODY), cache, SHA).path.read_bytes() == BODY
    assert ranges_asked(server) == [f"bytes={len(part)}-", None]


def test_a_part_that_does_not_help_is_not_tried_for_ever(server, cache):
    (cache / f"{SHA}.part").write_bytes(b"something else")
    with pytest.raises(Refused):
        fetch(server.put("/a.tar.gz", BODY[::-1]), cache, SHA)
    assert len(server.asked()) == 2
    assert held(cache) == []


def test_a_server_that_stops_sending(server, cache, reply):
    url = server.put("/a.tar.gz", reply(BODY, pause=1.5), reply(BODY))
    started = time.monotonic()
    assert fetch(url, cache, SHA, limits=QUICK).path.read_bytes() == BODY
    assert time.monotonic() - started < 5


def test_a_body_of_unannounced_length(server, cache):
    assert fetch(server.put("/a.tar.gz", BODY, announce=False), cache, SHA).size == len(BODY)
