"""`pypi:` URLs through indexes of both forms, found where this host has its own configured."""

import hashlib
import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging.fetch import Refused, fetch
from ansible.module_utils.armstage.staging.index import configured_index, list_files, parse, pip_files, resolve
from ansible.module_utils.armstage.staging.transport import TransportError

MODULE_UTILS = Path(__file__).resolve().parents[3] / "module_utils"
NAME = "uv-0.10.0-py3-none-manylinux_2_28_aarch64.whl"
URL = f"pypi:uv/0.10.0/{NAME}"
BODY = b"wheel" * 1000
SHA = hashlib.sha256(BODY).hexdigest()
JSON = "application/vnd.pypi.simple.v1+json"


def as_json(location, digest=SHA, name=NAME):
    hashes = {"sha256": digest} if digest else {}
    files = [
        {"filename": f"{name}.metadata", "url": "x", "hashes": {}},
        {"filename": name, "url": location, "hashes": hashes},
    ]
    return json.dumps({"meta": {"api-version": "1.1"}, "name": "uv", "files": files}).encode()


def as_html(location, digest=SHA, name=NAME, base=""):
    fragment = f"#sha256={digest}" if digest else ""
    return f"""<!DOCTYPE html><html><head><title>Links</title>{base}</head><body>
<a href="../../other.whl#md5=abc">other.whl</a><br/>
<A class="x" HREF="{location}{fragment}" data-requires-python="&gt;=3.8">{name}</A><br/>
</body></html>""".encode()


FORMS = {
    "JSON": (as_json, JSON),
    "HTML": (as_html, "text/html"),
    "HTML as PEP 691": (as_html, JSON.replace("json", "html")),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("https://files.invalid/a/{name}", "https://files.invalid/a/{name}"),
        ("../../files/{name}", "{base}/files/{name}"),
        ("/files/{name}", "{base}/files/{name}"),
        ("{name}", "{base}/simple/uv/{name}"),
    ],
    ids=["absolute", "relative", "from the host's top", "beside the page"],
)
@pytest.mark.parametrize("digest", [SHA, None])
def test_a_file_is_found(server, form, location, expected, digest):
    make, content_type = FORMS[form]
    server.put("/simple/uv/", make(location.format(name=NAME), digest), content_type=content_type)
    found = resolve(URL, f"{server.base}/simple/")
    assert found == (expected.format(name=NAME, base=server.base), digest)
    assert JSON in server.requests[0][2]["Accept"]


def test_the_base_of_a_page_counts():
    page = as_html(NAME, base='<base href="https://files.invalid/deep/">').decode()
    assert list_files(page, "text/html", "https://index.invalid/simple/uv/")[NAME] == (
        f"https://files.invalid/deep/{NAME}",
        SHA,
    )


@pytest.mark.parametrize(
    ("anchor", "digest"),
    [
        (f'<A HREF=" w.whl#sha256={SHA.upper()} " data-yanked="bad">', SHA),
        (f'<a href="w.whl#sha256={SHA}&amp;egg=w">', SHA),
        (f'<a href="w.whl#egg=w&sha256={SHA}">', SHA),
        ('<a href="w.whl#sha256=abc">', None),
        ('<a href="w.whl#md5=' + "0" * 32 + '">', None),
        ('<a href="http://[bad/x.whl">x</a><a href="w.whl">', None),
    ],
)
def test_every_way_to_write_a_link(anchor, digest):
    files = list_files(f"<html>{anchor}w.whl</a></html>", "text/html", "https://index.test/simple/w/")
    assert files == {"w.whl": ("https://index.test/simple/w/w.whl", digest)}


@pytest.mark.parametrize(
    ("hashes", "digest"),
    [({"sha256": SHA.upper()}, SHA), (None, None), ({}, None), ({"sha256": 5}, None), ({"sha256": "abc"}, None)],
)
def test_every_way_to_give_hashes(hashes, digest):
    page = json.dumps({"files": [{"filename": "w.whl", "url": "../w.whl", "hashes": hashes, "yanked": "bad"}]})
    files = list_files("\ufeff" + page, JSON, "https://index.test/simple/w/")
    assert files == {"w.whl": ("https://index.test/simple/w.whl", digest)}


@pytest.mark.parametrize("page", ["[]", '{"files": ["w.whl"]}', '{"files": [{"filename": "w", "url": 5}]}'])
def test_json_that_is_no_project_page(page):
    with pytest.raises(TransportError, match="is not a project page"):
        list_files(page, JSON, "https://index.test/simple/w/")


def test_names_in_urls_are_decoded():
    name = "torch-2.11.0+cu130-cp312-cp312-manylinux_2_28_aarch64.whl"
    page = as_html(name.replace("+", "%2B"), name=name).decode()
    assert name in list_files(page, "text/html", "https://index.invalid/whl/torch/")


def test_the_project_is_asked_for_by_its_normal_name(server):
    name = "nvidia_npp-13.0.1.2-py3-none-any.whl"
    server.put("/simple/nvidia-npp/", as_json("x", name=name), content_type=JSON)
    assert resolve(f"pypi:NVIDIA_.npp/13.0.1.2/{name}", f"{server.base}/simple")[1] == SHA


def test_an_index_of_files(tmp_path):
    page = tmp_path / "simple" / "uv" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_bytes(as_html(f"../../files/{NAME}"))
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / NAME).write_bytes(BODY)
    for index in (f"{tmp_path}/simple", f"file://{tmp_path}/simple/"):
        location, digest = resolve(URL, index)
        assert digest == SHA
        assert Path(location.removeprefix("file://")).read_bytes() == BODY


def test_a_file_that_is_not_listed(server):
    server.put("/simple/uv/", as_json("x", name="uv-0.10.0-py3-none-win32.whl"), content_type=JSON)
    with pytest.raises(TransportError, match=r"lists no file `uv-0.10.0-py3") as failed:
        resolve(URL, f"{server.base}/simple")
    assert failed.value.status == 404


@pytest.mark.parametrize("content", [b"{", b'{"files": 3}', b'{"message": "x"}'])
def test_a_page_that_is_none(server, content):
    server.put("/simple/uv/", content, content_type=JSON)
    with pytest.raises(TransportError, match="is not a project page"):
        resolve(URL, f"{server.base}/simple")


def test_credentials_go_to_the_same_host_only_and_into_no_message(server):
    index = server.base.replace("http://", "http://me:secret@") + "/simple"
    server.put("/simple/uv/", as_json(f"/files/{NAME}"), content_type=JSON)
    assert resolve(URL, index)[0] == f"http://me:secret@{server.base[7:]}/files/{NAME}"
    server.put("/simple/uv/", as_json(f"https://files.invalid/{NAME}"), content_type=JSON)
    assert resolve(URL, index)[0] == f"https://files.invalid/{NAME}"
    with pytest.raises(TransportError) as failed:
        resolve(URL.replace("aarch64", "riscv64"), index)
    assert "secret" not in failed.value.reason


def test_a_digest_from_an_index_without_tls_is_not_believed(server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.base)
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    server.put("http://index.invalid/simple/uv/", as_json("x"), content_type=JSON)
    assert resolve(URL, "http://index.invalid/simple")[1] is None


@pytest.mark.parametrize(
    "url", ["pypi:uv", "pypi:uv/0.10.0", f"pypi:uv/0.9.9/{NAME}", "pypi:uv/0.10.0/", "pypi:../0/a-0"]
)
def test_a_malformed_url_is_explained(url):
    with pytest.raises(ArmstageError, match="Expected `pypi:<project>") as refused:
        parse(url)
    assert url in refused.value.message
    assert "For example" in refused.value.hint


def test_fetching_takes_the_index_s_digest_and_holds_it_against_ours(server, tmp_path):
    server.put("/simple/uv/", as_json(f"/files/{NAME}"), content_type=JSON)
    server.put(f"/files/{NAME}", BODY)
    assert fetch(URL, tmp_path, index_url=f"{server.base}/simple").sha256 == SHA
    server.requests.clear()
    assert fetch(URL, tmp_path, SHA, index_url=f"{server.base}/simple").sha256 == SHA
    assert server.requests == []
    with pytest.raises(Refused, match="the index lists another digest"):
        fetch(URL, tmp_path, "0" * 64, index_url=f"{server.base}/simple")


# Which index.

CONF = "[global]\nindex-url = https://{}.invalid/simple\n"


@pytest.fixture
def home(tmp_path):
    """A home and an /etc with a pip.conf in every place pip looks in."""
    for path in pip_files({"XDG_CONFIG_DIRS": str(tmp_path / "xdg")}, tmp_path / "home", tmp_path / "etc"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CONF.format(path.parent.parent.name + "-" + path.parent.name))
    return tmp_path


def chosen(tmp_path, **environment):
    environment.setdefault("XDG_CONFIG_DIRS", str(tmp_path / "xdg"))
    return configured_index(environment, tmp_path / "home", tmp_path / "etc")


def test_the_order_of_places(home):
    environment = {
        "UV_DEFAULT_INDEX": "https://one.invalid",
        "UV_INDEX_URL": "https://two.invalid",
        "PIP_INDEX_URL": "https://three.invalid",
        "PIP_CONFIG_FILE": str(home / "own.conf"),
    }
    (home / "own.conf").write_text(CONF.format("four"))
    order = []
    for variable in list(environment):
        order.append(chosen(home, **environment))
        del environment[variable]
    for path in pip_files({"XDG_CONFIG_DIRS": str(home / "xdg")}, home / "home", home / "etc"):
        order.append(chosen(home))
        path.unlink()
    assert order == [
        "https://one.invalid",
        "https://two.invalid",
        "https://three.invalid",
        "https://four.invalid/simple",
        "https://.config-pip.invalid/simple",
        "https://home-.pip.invalid/simple",
        f"https://{home.name}-etc.invalid/simple",
        "https://xdg-pip.invalid/simple",
    ]


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("[global]\nindex_url=https://a.invalid\n", "https://a.invalid"),
        ("[install]\nindex-url = https://b.invalid\n[global]\nindex-url = https://a.invalid\n", "https://b.invalid"),
        ("[global]\ntimeout = 60\n[list]\nindex-url = https://c.invalid\n", "https://machine.invalid/simple"),
        ("[global]\nindex-url = https://me:p%40ss@d.invalid/%(x)s\n", "https://me:p%40ss@d.invalid/%(x)s"),
    ],
)
def test_the_forms_of_pip_conf(tmp_path, text, index):
    path = tmp_path / "home" / ".config" / "pip" / "pip.conf"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "pip.conf").write_text(CONF.format("machine"))
    assert chosen(tmp_path) == index


def test_a_broken_pip_conf_is_named(tmp_path):
    path = tmp_path / "etc" / "pip.conf"
    path.parent.mkdir()
    path.write_text("index-url = x\n")
    with pytest.raises(ArmstageError, match=r"pip's configuration `.*etc/pip.conf`"):
        chosen(tmp_path)


def test_a_named_uv_index(tmp_path):
    assert chosen(tmp_path, UV_DEFAULT_INDEX="corp=https://a.invalid/x?y=z") == "https://a.invalid/x?y=z"


@pytest.mark.parametrize("python", ["this one", "one without pip"])
def test_without_any_configuration_what_pip_itself_uses(tmp_path, python):
    """In a Python of its own: pip's wheel inside ensurepip will do where pip is not installed."""
    pip = pytest.importorskip("pip._internal.models.index")
    if python == "one without pip":
        pytest.importorskip("ensurepip")
        venv.create(tmp_path / "venv", with_pip=False)
        program = tmp_path / "venv" / "bin" / "python"
    else:
        program = sys.executable
    code = (
        "import pathlib, sys; from armstage.staging.index import configured_index; before = list(sys.path);"
        "print(configured_index({'XDG_CONFIG_DIRS': '/no'}, pathlib.Path('/no'), pathlib.Path('/no')));"
        "assert sys.path == before"
    )
    said = subprocess.run([program, "-c", code], env={"PYTHONPATH": str(MODULE_UTILS)}, capture_output=True, text=True)
    assert said.stdout.strip() == pip.PyPI.simple_url, said.stderr


def test_without_pip_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pip._internal.models.index", None)
    with pytest.raises(ArmstageError, match="No package index is configured") as refused:
        chosen(tmp_path)
    assert "PIP_INDEX_URL" in refused.value.hint


def test_without_pip_the_control_nodes_index_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr("ansible.module_utils.armstage.staging.index._pip_default", lambda: "")
    environment = {"ARMSTAGE_DEFAULT_INDEX": "https://index.example/simple"}
    assert configured_index(environment, tmp_path, tmp_path) == "https://index.example/simple"
