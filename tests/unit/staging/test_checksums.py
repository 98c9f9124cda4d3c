"""Digests that are not in our data: the forms of checksum files, and the ways they come."""

import gzip

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging.checksums import find_checksum
from ansible.module_utils.armstage.staging.fetch import Refused, fetch
from ansible.module_utils.armstage.staging.transport import TransportError

from .downloads import BODY, OTHER, SHA

NAME = "ffmpeg-n7.1-linuxarm64.tar.xz"
CHECKSUMS = {
    "sha256sum": (f"{OTHER}  other.tar.xz\n{SHA}  {NAME}\n", SHA),
    "binary mode": (f"{SHA} *{NAME}\n", SHA),
    "bare": (f"{SHA}\n", SHA),
    "bare, upper case, CRLF": (f"{SHA.upper()}\r\n", SHA),
    "in a folder": (f"{SHA}  ./dist/{NAME}\n", SHA),
    "BSD": (f"SHA256 ({NAME}) = {SHA}\n", SHA),
    "openssl 3": (f"SHA2-256({NAME})= {SHA}\n", SHA),
    "one space": (f"{SHA} {NAME}\n", SHA),
    "a tab": (f"{SHA}\t{NAME}\n", SHA),
    "with the kind of digest": (f"sha256:{SHA}  {NAME}\n", SHA),
    "bare, behind a label": (f"SHA256: {SHA}\n", SHA),
    "bare, with the kind of digest": (f"sha256:{SHA}\n", SHA),
    "many spaces": (f"{SHA}      {NAME}\n", SHA),
    "in a folder, from Windows": (f"{SHA} *dist\\{NAME}\r\n", SHA),
    "through a pipe": (f"{SHA}  -\n", SHA),
    "openssl 1, lower case": (f"sha256({NAME})= {SHA}\n", SHA),
    "Debian's": (f"Checksums-Sha256:\n {SHA} 123456 {NAME}\n {OTHER} 99 other.tar.xz\n", SHA),
    "JSON": (f'{{\n  "other.tar.xz": "{OTHER}",\n  "{NAME}": "{SHA}"\n}}\n', SHA),
    "JSON in one line": (f'{{"{NAME}": "{SHA}"}}', SHA),
    "YAML": (f"'{NAME}': sha256:{SHA}\n", SHA),
    "TOML": (f'"{NAME}" = "{SHA}"\n', SHA),
    "a table": (f"| file | sha256 |\n|---|---|\n| `{NAME}` | `{SHA}` |\n| other | {OTHER} |\n", SHA),
    "a table, the digest first": (f"| {SHA} | {NAME} |\n", SHA),
    "a table of another": (f"| x{NAME} | {SHA} |\n", None),
    "JSON of another": (f'{{"{NAME}.asc": "{SHA}"}}', None),
    "Debian's, of another": (f" {SHA} 123456 x{NAME}\n", None),
    "three kinds of digest": (
        f"SHA1 ({NAME}) = {'c' * 40}\nSHA256 ({NAME}) = {SHA}\nSHA512 ({NAME}) = {'d' * 128}\n",
        SHA,
    ),
    "SHA-512 in JSON": (f'{{"{NAME}": "{"d" * 128}"}}', None),
    "the name first": (f"{NAME}: {SHA}\nother: {OTHER}\n", SHA),
    "the name first, of another": (f"x{NAME}: {SHA}\n", None),
    "SHA-512": (f"{'a' * 128}  {NAME}\n", None),
    "signed": (
        f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{SHA}  {NAME}\n-----BEGIN PGP SIGNATURE-----\nabc\n",
        SHA,
    ),
    "twice the same": (f"{SHA}  {NAME}\n{SHA} *{NAME}\n", SHA),
    "name is part of another": (f"{SHA}  {NAME}.asc\n{OTHER}  x{NAME}\n", None),
    "two digests": (f"{SHA}  {NAME}\n{OTHER}  {NAME}\n", None),
    "two bare": (f"{SHA}\n{OTHER}\n", None),
    "not there": (f"{OTHER}  other.tar.xz\n", None),
    "SHA-1": (f"{'a' * 40}  {NAME}\n", None),
    "empty": ("", None),
    "HTML": ("<html>", None),
}


@pytest.mark.parametrize("form", CHECKSUMS)
def test_the_forms_of_checksum_files(form):
    text, digest = CHECKSUMS[form]
    assert find_checksum(text, NAME) == digest


@pytest.mark.parametrize("packed", ["utf-8", "utf-8-sig", "utf-16", "gzip"])
def test_a_checksum_file_as_it_comes(server, cache, reply, packed):
    """Written on Windows, or packed for the way though that was declined."""
    text = f"{SHA} *a.tar.gz\r\n"
    content = gzip.compress(text.encode()) if packed == "gzip" else text.encode(packed)
    headers = {"Content-Encoding": "gzip"} if packed == "gzip" else {}
    sums = server.put("/sums", reply(content, headers=headers))
    assert fetch(server.put("/a.tar.gz", BODY), cache, sha256_url=sums).sha256 == SHA


def test_a_checksum_file_that_is_not_there_is_what_is_missing(server, cache):
    with pytest.raises(TransportError, match=r"its checksum file `.*/sums`: HTTP 404"):
        fetch(server.put("/a.tar.gz", BODY), cache, sha256_url=f"{server.base}/sums")


def test_a_checksum_file_of_a_server_in_trouble_is_asked_for_again(server, cache, reply):
    sums = server.put("/sums", reply(b"busy", 503), reply(f"{SHA}  a.tar.gz\n".encode()))
    assert fetch(server.put("/a.tar.gz", BODY), cache, sha256_url=sums).sha256 == SHA


@pytest.mark.usefixtures("untrusting")
def test_a_checksum_file_that_came_by_an_open_way_is_not_believed(server, cache, reply, monkeypatch):
    """The way ends at an address that is trusted, but anybody may have chosen it."""
    sums = server.put("/sums", f"{SHA}  a.tar.gz\n".encode())
    step = server.put("http://mirror.invalid/sums", reply(b"", 302, headers={"Location": sums}))
    assert step
    start = server.put("/start", reply(b"", 302, headers={"Location": "http://mirror.invalid/sums"}))
    for name, value in {"http_proxy": server.base, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ArmstageError, match=r"over TLS, but found `http://mirror\.invalid/sums`"):
        fetch(server.put("/a.tar.gz", BODY), cache, sha256_url=start)


def test_a_checksum_file_of_the_release(server, cache):
    checksums = server.put(
        "/r/checksums.sha256", f"{SHA}  cpython-3.12+2026.tar.gz\n".encode(), content_type="text/plain"
    )
    url = server.put("/r/cpython-3.12%2B2026.tar.gz", BODY)
    assert fetch(url, cache, sha256_url=checksums).sha256 == SHA
    assert server.asked() == ["/r/checksums.sha256", "/r/cpython-3.12%2B2026.tar.gz"]


@pytest.mark.parametrize(
    ("content", "named"),
    [(b"<html><title>404</title>", "an HTML page titled `404`"), (b"", "an empty answer"), (b"abc", "begins `abc`")],
)
def test_a_checksum_file_that_does_not_list_it(server, cache, content, named):
    with pytest.raises(Refused, match=f"one sha256 of `a.tar.gz` in `.*/sums`, but found .*{named}"):
        fetch(server.put("/a.tar.gz", BODY), cache, sha256_url=server.put("/sums", content))
    assert server.asked() == ["/sums"]


def test_a_checksum_file_not_over_tls(cache):
    with pytest.raises(ArmstageError, match=r"over TLS, but found `http://mirror.invalid/sums`"):
        fetch("https://mirror.invalid/a", cache, sha256_url="http://me:secret@mirror.invalid/sums")


def test_nothing_is_fetched_without_a_digest(server, cache):
    with pytest.raises(ArmstageError, match="No digest is known"):
        fetch(server.put("/a.tar.gz", BODY), cache)
    assert server.requests == []


@pytest.mark.parametrize("host", ["127.example.org", "localhost.example.org", "127.0.0.1.example.org"])
def test_a_name_that_begins_as_this_host_does_is_another_host(cache, host):
    with pytest.raises(ArmstageError, match=f"over TLS, but found `http://{host}/sums`"):
        fetch("https://mirror.invalid/a", cache, sha256_url=f"http://{host}/sums")
