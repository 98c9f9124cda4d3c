"""Downloads from servers that behave, and from servers that don't."""

import errno
import gzip
import hashlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging import access, transport
from ansible.module_utils.armstage.staging.checksums import find_checksum
from ansible.module_utils.armstage.staging.fetch import Fetched, Refused, fetch
from ansible.module_utils.armstage.staging.space import full, human, require_space
from ansible.module_utils.armstage.staging.transport import Limits, TransportError, file_name, without_credentials

BODY = os.urandom(300_000)
SHA = hashlib.sha256(BODY).hexdigest()
OTHER = "0" * 64
QUICK = Limits(connect=2, read=0.5)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF", 0.0)


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def held(cache):
    return sorted(entry.name for entry in cache.iterdir())


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


def test_a_redirect_is_followed(server, cache, reply):
    target = server.put("/real", BODY)
    url = server.put("/a.tar.gz", reply(b"", 302, headers={"Location": target}))
    assert fetch(url, cache, SHA).path.read_bytes() == BODY


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_each_kind_of_redirect_is_followed(server, cache, reply, status):
    url = server.put("/a.tar.gz", reply(b"", status, headers={"Location": "/real"}))
    server.put("/real", BODY)
    assert fetch(url, cache, SHA).size == len(BODY)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("/a.tar.gz", "HTTP 302 redirects in a circle"),
        ("ftp://127.0.0.1/a", "redirects to `ftp://127.0.0.1/a`, expected http or https"),
        ("file:///etc/passwd", "'file:///etc/passwd' is not allowed"),
    ],
)
def test_a_redirect_that_leads_nowhere(server, cache, reply, location, reason):
    url = server.put("/a.tar.gz", reply(b"", 302, headers={"Location": location}))
    with pytest.raises(TransportError, match=reason) as failed:
        fetch(url, cache, SHA)
    assert "\n" not in failed.value.reason


def test_a_download_that_was_packed_for_the_way_is_called_so(server, cache, reply):
    url = server.put("/a.tar.gz", reply(gzip.compress(BODY), headers={"Content-Encoding": "gzip"}))
    with pytest.raises(Refused, match=r"packed for the way \(Content-Encoding: gzip\)"):
        fetch(url, cache, SHA)


@pytest.mark.parametrize("name", ["a b.tar.gz", "d\u00e9p\u00f4t.tar.gz"])
def test_an_address_with_a_space_or_an_accent(server, cache, name):
    server.put(f"/{urllib.parse.quote(name)}", BODY)
    assert fetch(f"{server.base}/{name}", cache, SHA).size == len(BODY)


def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:{port}/a", "Connection refused"),
        ("http://no-such-host.invalid/a", "the name `no-such-host.invalid` does not resolve"),
        ("ftp://127.0.0.1/a", "expected http, https or file, but found `ftp`"),
        ("http://127.0.0.1:99999/a", "not a usable URL"),
        ("http://[::1/a", "not a usable URL"),
    ],
)
def test_why_a_host_is_out_of_reach(cache, url, reason):
    with pytest.raises(TransportError, match=reason):
        fetch(url.format(port=unused_port()), cache, SHA, limits=QUICK)
    assert held(cache) == []


def test_a_host_that_accepts_and_says_nothing(cache):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(TransportError, match="did not answer in time"):
            fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/a", cache, SHA, limits=Limits(0.2, 0.2))


def test_a_host_that_talks_something_else(cache):
    with socket.socket() as talker:
        talker.bind(("127.0.0.1", 0))
        talker.listen()

        def talk():
            for _ in range(4):
                connection, _address = talker.accept()
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                connection.close()

        threading.Thread(target=talk, daemon=True).start()
        with pytest.raises(TransportError, match=r"broke off|reset"):
            fetch(f"http://127.0.0.1:{talker.getsockname()[1]}/a", cache, SHA, limits=QUICK)


def test_credentials_are_sent_and_not_said(server, cache):
    url = server.put("/a.tar.gz", BODY).replace("http://", "http://me:se%40cret@")
    assert fetch(url, cache, SHA).size == len(BODY)
    assert server.requests[0][2]["Authorization"] == "Basic bWU6c2VAY3JldA=="
    with pytest.raises(Refused) as refused:
        fetch(url, cache, OTHER)
    assert "cret" not in refused.value.message
    assert without_credentials(url) in refused.value.message


NETRC = "machine 127.0.0.1 login me password se@cret\ndefault login anybody password no\n"


@pytest.mark.parametrize("where", ["NETRC", "HOME"])
def test_credentials_of_netrc_are_sent_to_their_host_only(server, cache, tmp_path, monkeypatch, where):
    (tmp_path / ".netrc").write_text(NETRC)
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv(where, str(tmp_path / ".netrc" if where == "NETRC" else tmp_path))
    assert fetch(server.put("/a.tar.gz", BODY), cache, SHA).size == len(BODY)
    assert server.requests[0][2]["Authorization"] == "Basic bWU6c2VAY3JldA=="
    assert access.credentials("elsewhere.invalid") is None


@pytest.mark.parametrize("content", [b"machine", b"\xff\xfe", b"machine 127.0.0.1 login\n"])
def test_a_netrc_that_is_none_stops_nothing(server, cache, tmp_path, monkeypatch, content):
    (tmp_path / "netrc").write_bytes(content)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert fetch(server.put("/a.tar.gz", BODY), cache, SHA).size == len(BODY)


def test_what_to_do_without_credentials(server, cache):
    with pytest.raises(TransportError) as failed:
        fetch(server.put("/a.tar.gz", b"", status=401), cache, SHA)
    assert "~/.netrc" in failed.value.hint


PROXIES = {
    "dead": (
        "http_proxy",
        "http://me:secret@127.0.0.1:{port}",
        r"the proxy `http://127.0.0.1:\d+` \(http_proxy\): Conn",
    ),
    "dead, for everything": ("ALL_PROXY", "127.0.0.1:{port}", r"the proxy `127.0.0.1:\d+` \(ALL_PROXY\): Connection"),
    "unknown": ("http_proxy", "http://proxy.invalid:1", "the name `proxy.invalid` of the proxy .* does not resolve"),
    "of another kind": ("http_proxy", "socks5h://127.0.0.1:{port}", "`socks5h://.*` .http_proxy. is not an HTTP proxy"),
    "nonsense": ("http_proxy", "127.0.0.1:abc", "not a usable URL: .*the proxy `127.0.0.1:abc`"),
}


@pytest.mark.parametrize("case", PROXIES)
def test_a_proxy_that_does_not_serve_is_what_is_at_fault(cache, monkeypatch, case):
    variable, address, reason = PROXIES[case]
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, address.format(port=unused_port()))
    with pytest.raises(TransportError, match=reason) as failed:
        fetch("http://mirror.invalid/a.tar.gz", cache, SHA, limits=QUICK)
    assert "secret" not in failed.value.reason


def test_the_proxy_of_the_environment_is_used(server, cache, monkeypatch):
    monkeypatch.setenv("http_proxy", server.base)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.put("http://mirror.invalid/a.tar.gz", BODY)
    assert fetch("http://mirror.invalid/a.tar.gz", cache, SHA).size == len(BODY)


@pytest.mark.parametrize("variable", transport.CERTIFICATE_VARIABLES)
def test_a_variable_that_names_no_certificates(variable, monkeypatch, tmp_path):
    transport.trusted_context.cache_clear()
    monkeypatch.setenv(variable, str(tmp_path / "gone.pem"))
    try:
        with pytest.raises(ArmstageError, match=f"`{variable}` names: `.*gone.pem`"):
            transport.trusted_context()
    finally:
        transport.trusted_context.cache_clear()


@pytest.fixture
def tls(server, tmp_path):
    """The server behind TLS, with a certificate of its own making; the certificate's path."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl(1) to make a certificate")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key]
    subprocess.run(["openssl", "req", *kind, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.listen_with(context)
    transport.trusted_context.cache_clear()
    yield certificate
    transport.trusted_context.cache_clear()


@pytest.fixture
def untrusting(monkeypatch):
    for variable in transport.CERTIFICATE_VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("tls", "untrusting")
def test_a_certificate_nobody_vouches_for(server, cache):
    with pytest.raises(TransportError, match=r"the certificate of `127.0.0.1` is not trusted") as failed:
        fetch(server.put("/a", BODY), cache, SHA)
    assert "SSL_CERT_FILE" in failed.value.hint
    assert server.requests == []


@pytest.mark.usefixtures("untrusting")
@pytest.mark.parametrize("variable", [name for name in transport.CERTIFICATE_VARIABLES if name != "SSL_CERT_DIR"])
def test_a_certificate_that_a_variable_names(server, cache, tls, monkeypatch, variable):
    monkeypatch.setenv(variable, str(tls))
    sums = server.put("/sums", f"{SHA}  a".encode())
    assert fetch(server.put("/a", BODY), cache, sha256_url=sums).size == len(BODY)


@pytest.mark.usefixtures("untrusting")
@pytest.mark.parametrize("variable", ["SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
def test_a_certificate_in_a_folder_that_a_variable_names(server, cache, tls, monkeypatch, tmp_path, variable):
    folder = tmp_path / "certificates"
    folder.mkdir()
    digest = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", tls], check=True, capture_output=True, text=True
    )
    (folder / f"{digest.stdout.strip()}.0").write_bytes(tls.read_bytes())
    monkeypatch.setenv(variable, f"{tmp_path}:{folder}")
    assert fetch(server.put("/a", BODY), cache, SHA).size == len(BODY)


# Digests that are not in our data.

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
    "bare, with the kind of digest": (f"sha256:{SHA}\n", SHA),
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


# Room.


def test_room_is_asked_for_before_the_first_byte(server, cache, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((4096, 4096, 9, 9, 9, 9, 9, 9, 0, 255)))
    with pytest.raises(ArmstageError, match=r"Not enough .*: 300.0 kB needed and 67.1 MB to spare, 36.9 kB free"):
        fetch(server.put("/a.tar.gz", BODY), cache, SHA)
    assert held(cache) == []


def test_room_for_more_than_there_is(tmp_path):
    require_space(tmp_path, 1, "for a test")
    with pytest.raises(ArmstageError, match=r"1152921504.6 GB needed"):
        require_space(tmp_path, 2**60, "for a test")


def test_full_disks_and_quotas_are_called_so(tmp_path):
    assert "disk was full" in full(OSError(errno.ENOSPC, "x"), tmp_path, "then").message
    assert "disk quota was full" in full(OSError(errno.EDQUOT, "x"), tmp_path, "then").message
    assert full(OSError(errno.EIO, "x"), tmp_path, "then") is None


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (4_600_000_000, "4.6 GB"),
        (36_864, "36.9 kB"),
        (5e12, "5000.0 GB"),
    ],
)
def test_sizes_as_people_write_them(size, text):
    assert human(size) == text


@pytest.mark.parametrize(
    ("url", "name"),
    [("https://h/a/cpython-3.12.12%2B20260203.tar.gz?x=1#y", "cpython-3.12.12+20260203.tar.gz"), ("https://h/", "")],
)
def test_the_file_name_of_a_url(url, name):
    assert file_name(url) == name
