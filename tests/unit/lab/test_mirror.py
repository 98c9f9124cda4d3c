"""The mirror that tests serve: whole files, ranges, and each fault as a client meets it."""

import http.client
import io
import tarfile
import urllib.error
import urllib.request

import pytest
from lab import archives, packing
from lab.mirror import PAGE, Mirror

DATA = bytes(range(256)) * 400
PATH = "github.com/owner/name/releases/download/1.0+2/file.tar.gz"


@pytest.fixture
def mirror(tmp_path):
    file = tmp_path / "mirror" / PATH
    file.parent.mkdir(parents=True)
    file.write_bytes(DATA)
    (tmp_path / "secret").write_text("outside")
    with Mirror(tmp_path / "mirror") as served:
        yield served


def get(mirror, path=PATH, timeout=5, **headers):
    request = urllib.request.Request(f"{mirror.url}/{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.status, answer.headers, answer.read()


def test_a_file_is_served_whole_under_its_decoded_name(mirror):
    status, headers, body = get(mirror, PATH.replace("+", "%2B"))
    assert (status, body) == (200, DATA)
    assert headers["Content-Length"] == str(len(DATA))
    assert mirror.requests == [("GET", f"/{PATH}")]


def test_a_download_resumes(mirror):
    status, headers, body = get(mirror, Range="bytes=100-")
    assert (status, body) == (206, DATA[100:])
    assert headers["Content-Range"] == f"bytes 100-{len(DATA) - 1}/{len(DATA)}"
    with pytest.raises(urllib.error.HTTPError, match="416"):
        get(mirror, Range=f"bytes={len(DATA)}-")


def test_nothing_outside_the_folder_is_served(mirror):
    connection = http.client.HTTPConnection("127.0.0.1", mirror.server.server_port, timeout=5)
    for path in ("/../secret", "/%2e%2e/secret", "/github.com/../../secret", "//etc/hostname"):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 404
    connection.close()


@pytest.mark.parametrize(("fault", "status"), [("missing", 404), ("error", 503)])
def test_refusals(mirror, fault, status):
    mirror.faults["file.tar.gz"] = fault
    with pytest.raises(urllib.error.HTTPError, match=str(status)):
        get(mirror)


def test_a_page_in_place_of_the_file(mirror):
    mirror.faults["owner/"] = "html"
    _status, headers, body = get(mirror)
    assert (headers["Content-Type"], body) == ("text/html", PAGE)


def test_as_many_bytes_but_others(mirror):
    mirror.faults["file"] = "wrong"
    body = get(mirror)[2]
    assert len(body) == len(DATA)
    assert body != DATA


def test_a_connection_that_ends_early(mirror):
    mirror.faults["file"] = "truncated"
    with pytest.raises(http.client.IncompleteRead):
        get(mirror)


def test_a_connection_that_stalls(mirror):
    mirror.faults["file"] = "stalled"
    with pytest.raises(TimeoutError):
        get(mirror, timeout=0.2)


def test_an_archive_with_a_member_outside(mirror):
    mirror.faults["file"] = "escape"
    with tarfile.open(fileobj=io.BytesIO(get(mirror)[2]), mode="r:gz") as tar:
        assert tar.getnames() == ["../escaped"]


def test_a_fault_ends_when_it_is_taken_away(mirror):
    mirror.faults["file"] = "missing"
    with pytest.raises(urllib.error.HTTPError):
        get(mirror)
    mirror.faults.clear()
    assert get(mirror)[2] == DATA


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar.xz"])
def test_packing_is_the_same_each_time_and_keeps_links(tmp_path, name):
    folder = tmp_path / "folder"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/liba.so.1.2").write_bytes(b"ELF")
    (folder / "lib/liba.so.1").symlink_to("liba.so.1.2")
    packing.pack(folder, "top", tmp_path / name)
    first = packing.sha256_of(tmp_path / name)
    (folder / "lib/liba.so.1.2").touch()
    packing.pack(folder, "top", tmp_path / name)
    assert packing.sha256_of(tmp_path / name) == first
    with tarfile.open(tmp_path / name) as tar:
        assert tar.getnames() == ["top", "top/lib", "top/lib/liba.so.1", "top/lib/liba.so.1.2"]
        assert tar.getmember("top/lib/liba.so.1").linkname == "liba.so.1.2"
        assert {member.uname for member in tar} == {"root"}


def test_the_roles_get_sources_by_the_upstreams_own_address():
    address = "github.com/o/n/releases/download/1/cpython-3.13.5+1-x.tar.gz"
    archive = archives.Archive("cpython", "3.13.5", address, "ab" * 32)
    assert archives.extra_vars([archive], "http://127.0.0.1:8000") == {
        "armstage_mirror": "http://127.0.0.1:8000",
        "armstage_cpython_version": "3.13.5",
        "armstage_cpython_sources": [
            {
                "kind": "upstream",
                "url": "https://github.com/o/n/releases/download/1/cpython-3.13.5%2B1-x.tar.gz",
                "sha256": "ab" * 32,
                "strip_components": 1,
            }
        ],
    }
