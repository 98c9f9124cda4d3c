"""Indexes and sources: which is asked, and which answer counts."""

import hashlib
import http.server
import io
import re
import threading

import pytest

from .looking import env, nothing_published
from .wheels import LINUX, tool, torch


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A server of simple indexes: `/NAME/` lists the wheels of the folder NAME. Yields (address, folder)."""
    folder = tmp_path_factory.mktemp("indexes")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_arguments):
            pass

        def send_head(self):
            parts = self.path.strip("/").split("/")
            if len(parts) != 2 or parts[1].endswith(".whl"):
                return super().send_head()
            found = [path for path in (folder / parts[0]).glob("*.whl") if name_of(path) == parts[1]]
            if not found:
                return self.send_error(404)
            links = "".join(
                f'<a href="/{parts[0]}/{path.name}#sha256={digest(path)}">{path.name}</a>\n' for path in found
            )
            page = f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            return io.BytesIO(page)

    def name_of(path):
        return re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower()

    def digest(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


@pytest.fixture
def two_indexes(index, monkeypatch):
    """A PyTorch index with an old tool, and a default index with a new one and a CPU build of torch."""
    address, folder = index
    if not folder.joinpath("whl").exists():
        (folder / "whl").mkdir()
        (folder / "pypi").mkdir()
        torch(folder / "whl", requires=("tool",))
        tool(folder / "whl", "0.9")
        torch(folder / "pypi", build="cpu", version="2.10.0", requires=())
        tool(folder / "pypi", "1.0")
        tool(folder / "pypi", "2.0")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/pypi")
    return address


def test_the_index_comes_first_and_the_default_index_has_what_it_lacks(run, root, two_indexes):
    result = run(mirror=None, index_url=f"{two_indexes}/whl", requirements=["torch", "tool>=1,<2"])
    assert result["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    assert result["release"]["source"]["url"] == f"{two_indexes}/whl"
    lock = (env(root) / "share/armstage/lock.txt").read_text().splitlines()
    assert lock[0] == f"# {two_indexes}/pypi/tool-1.0-py3-none-any.whl"
    assert result["origins"] == {two_indexes.partition("//")[2]: 2}
    assert lock[2] == f"# {two_indexes}/whl/torch-2.11.0-{LINUX}.whl"


def test_what_the_index_has_is_taken_from_it_though_the_default_index_has_a_newer_one(run, two_indexes):
    result = run(mirror=None, index_url=f"{two_indexes}/whl", requirements=["torch"])
    assert result["installed"] == {"torch": "2.11.0", "tool": "0.9"}


def test_a_mirror_that_is_an_index_replaces_the_others(run, two_indexes, monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:1/simple")
    result = run(mirror=f"{two_indexes}/whl", index_url="http://127.0.0.1:1/whl")
    assert result["installed"] == {"torch": "2.11.0", "tool": "0.9"}


def test_settings_that_would_change_the_outcome_are_not_seen(run, tmp_path, monkeypatch):
    torch(tmp_path, build="cpu", version="2.11.0.post1", requires=())
    for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("UV_TORCH_BACKEND", "cpu")
    monkeypatch.setenv("UV_EXCLUDE_NEWER", "2001-01-01")
    monkeypatch.setenv("UV_CONSTRAINT", "/no/such/file")
    assert run(requirements=["torch>=2.11"])["installed"] == {"torch": "2.11.0", "tool": "1.0"}


DOWN = "http://127.0.0.1:1/whl"


def test_the_first_source_that_answers_is_used_and_the_others_are_said(run, two_indexes):
    sources = [
        {"kind": "mirror", "index_url": f"{two_indexes}/known-down"},
        {"kind": "upstream", "index_url": DOWN},
        {"kind": "pypi", "index_url": f"{two_indexes}/whl"},
    ]
    result = run(mirror=None, sources=sources, unreachable={f"{two_indexes}/known-down": "no answer within 5 s"})
    assert result["installed"]["torch"] == "2.11.0"
    assert result["release"]["source"]["kind"] == "pypi"
    assert [(item["kind"], item["url"]) for item in result["skipped_sources"]] == [
        ("mirror", f"{two_indexes}/known-down"),
        ("upstream", DOWN),
    ]
    assert result["skipped_sources"][0]["reason"] == "no answer within 5 s"
    assert "Connection refused" in result["skipped_sources"][1]["reason"]
    assert result["actions"][0] == f"skip mirror `{two_indexes}/known-down`: no answer within 5 s"
    back = run(mirror=None, sources=sources, uv="/no/such/uv")
    assert (back["changed"], back["skipped_sources"]) == (False, [])


def test_an_index_that_is_down_is_named(run, root):
    result = run(mirror=None, index_url=DOWN)
    assert result["msg"] == f"`{DOWN}/torch/` can't be reached: Connection refused (os error 111)"
    assert nothing_published(root)


def test_without_network_what_is_missing_is_named(run, root, tmp_path, two_indexes):
    options = {"mirror": None, "index_url": f"{two_indexes}/whl", "offline": True, "cache_dir": str(tmp_path / "cache")}
    assert run(**options)["msg"] == "`torch` is not in uv's cache, and the network is off"
    assert nothing_published(root)
    run(**{**options, "offline": False, "dest": str(tmp_path / "other")})
    assert run(**options)["installed"]["torch"] == "2.11.0"
