"""Sources are asked once, in parallel, and say why they can't be used."""

import json
import socket
import time

import pytest
from ansible.module_utils.armstage.staging import probe as probing
from ansible.module_utils.armstage.staging import transport
from ansible.module_utils.armstage.staging.probe import probe

JSON = "application/vnd.pypi.simple.v1+json"


def test_what_answers_and_what_does_not(server, tmp_path):
    there = server.put("/a.tar.gz", b"x")
    here = tmp_path / "b.tar.gz"
    here.write_text("x")
    answers = probe([there, f"{server.base}/gone", str(here), f"file://{here}", "/no/such/file", "http://[bad/x"])
    assert list(answers) == [
        there,
        f"{server.base}/gone",
        str(here),
        f"file://{here}",
        "/no/such/file",
        "http://[bad/x",
    ]
    assert [answer["reachable"] for answer in answers.values()] == [True, False, True, True, False, False]
    assert answers[there]["reason"] == "answers"
    assert answers[f"{server.base}/gone"]["reason"] == "HTTP 404 Not Found"
    assert answers["/no/such/file"]["reason"].startswith("No such file")


def test_nothing_is_downloaded(server):
    probe([server.put("/a.tar.gz", b"x" * 1000)])
    assert server.asked("GET") == []
    assert server.asked("HEAD") == ["/a.tar.gz"]


@pytest.mark.parametrize("status", [403, 405, 501])
def test_a_server_that_refuses_head_is_asked_for_one_byte(server, reply, status):
    url = server.put("/a.tar.gz", reply(b"x" * 1000, head_status=status))
    assert probe([url])[url]["reachable"]
    assert [headers.get("Range") for verb, _path, headers in server.requests if verb == "GET"] == ["bytes=0-0"]


def test_a_server_in_trouble_is_asked_again_and_a_silent_one_is_not(server, reply, monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF", 0.0)
    server.put("/a", reply(b"", 503), reply(b"x"))
    assert not probe([f"{server.base}/a"])[f"{server.base}/a"]["reachable"]
    assert len(server.asked("HEAD")) == transport.RETRIES + 1
    assert not server.asked("GET")


def test_one_host_in_lasting_trouble_is_not_waited_for_again(server, reply, monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF", 0.0)
    urls = [server.put(f"/{number}", reply(b"", 503)) for number in range(5)]
    answers = probe(urls)
    assert {answers[url]["reason"] for url in urls} == {"HTTP 503 Service Unavailable"}
    assert set(server.asked("HEAD")) == {"/0"}


def test_a_file_of_the_index(server):
    name = "uv-0.10.0-py3-none-any.whl"
    files = [{"filename": name, "url": "/files/uv.whl", "hashes": {}}]
    server.put("/simple/uv/", json.dumps({"files": files}).encode(), content_type=JSON)
    url, gone = f"pypi:uv/0.10.0/{name}", "pypi:uv/0.10.0/uv-0.10.0-py2-none-any.whl"
    answers = probe([url, gone, "pypi:uv"], index_url=f"{server.base}/simple")
    assert answers[url] == {"reachable": False, "reason": "HTTP 404 Not Found"}, "listed, but its file is not there"
    server.put("/files/uv.whl", b"x")
    assert probe([url], index_url=f"{server.base}/simple")[url]["reachable"]
    assert "lists no file `uv-0.10.0-py2" in answers[gone]["reason"]
    assert "Expected `pypi:" in answers["pypi:uv"]["reason"]


@pytest.fixture
def silent():
    """Addresses of hosts that accept a connection and never answer."""
    sockets = []

    def make():
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sockets.append(listener)
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield make
    for listener in sockets:
        listener.close()


def test_silent_hosts_cost_one_time_limit_together(silent, server):
    hosts = [silent() for _ in range(4)]
    urls = [f"{host}/{name}" for host in hosts for name in ("a", "b", "c")]
    there = server.put("/a", b"x")
    started = time.monotonic()
    answers = probe([*urls, there], timeout=0.5)
    assert time.monotonic() - started < 1.5
    assert {answers[url]["reason"] for url in urls} == {"`127.0.0.1` did not answer in time"}
    assert answers[there]["reachable"]


def test_a_name_that_takes_for_ever_to_resolve_is_left_behind(monkeypatch, server):
    really = socket.getaddrinfo

    def slow(host, *arguments, **options):
        if host == "slow.invalid":
            time.sleep(5)
        return really(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    there = server.put("/a", b"x")
    started = time.monotonic()
    answers = probe(["http://slow.invalid/a", "http://slow.invalid/b", there], timeout=0.3)
    assert time.monotonic() - started < 0.3 + probing.SLACK + 1
    assert answers["http://slow.invalid/b"] == {"reachable": False, "reason": "no answer within 0.3 s"}
    assert answers[there]["reachable"]


def test_slow_answers_of_one_host_do_not_add_up_to_silence(server):
    urls = [server.put(f"/{number}", b"x") for number in range(20)]
    assert all(answer["reachable"] for answer in probe(urls, timeout=1).values())


def test_nothing_to_ask():
    assert probe([]) == {}


def test_a_folder_is_a_wheel_indexs_page(tmp_path):
    (tmp_path / "whl/cu130/torch").mkdir(parents=True)
    there, gone = f"file://{tmp_path}/whl/cu130/torch/", f"file://{tmp_path}/whl/cu132/torch/"
    answers = probe([there, gone])
    assert [answers[url]["reachable"] for url in (there, gone)] == [True, False]
