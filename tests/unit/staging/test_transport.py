"""The way to a server: redirects, hosts out of reach, credentials, proxies and certificates."""

import shutil
import socket
import ssl
import subprocess
import threading
import urllib.parse

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging import access, transport
from ansible.module_utils.armstage.staging.fetch import Refused, fetch
from ansible.module_utils.armstage.staging.transport import Limits, TransportError, file_name, without_credentials

from .downloads import BODY, OTHER, QUICK, SHA, held


@pytest.mark.parametrize(
    ("url", "name"),
    [("https://h/a/cpython-3.12.12%2B20260203.tar.gz?x=1#y", "cpython-3.12.12+20260203.tar.gz"), ("https://h/", "")],
)
def test_the_file_name_of_a_url(url, name):
    assert file_name(url) == name


@pytest.mark.parametrize("name", ["a b.tar.gz", "d\u00e9p\u00f4t.tar.gz"])
def test_an_address_with_a_space_or_an_accent(server, cache, name):
    server.put(f"/{urllib.parse.quote(name)}", BODY)
    assert fetch(f"{server.base}/{name}", cache, SHA).size == len(BODY)


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
