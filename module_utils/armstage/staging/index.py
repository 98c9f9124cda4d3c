"""`pypi:<project>/<version>/<file name>`: one file of a package index, wherever this site's index is."""

from __future__ import annotations

import configparser
import glob
import json
import os
import re
import sys
import sysconfig
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit, urlunsplit

from ..errors import ArmstageError
from .transport import (
    Limits,
    Response,
    TransportError,
    file_name,
    is_local,
    local_path,
    open_url,
    patiently,
    without_credentials,
)

SCHEME = "pypi:"
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
FALLBACK = "ARMSTAGE_DEFAULT_INDEX"
PIP_SECTIONS = ("install", "download", "global")

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{JSON_TYPE}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
"""PEP 691: JSON where the index has it, else PEP 503's page."""

MAX_PAGE = 64 * 1024 * 1024


def is_pypi(url: str) -> bool:
    return url.startswith(SCHEME)


def resolve(url: str, index_url: str = "", limits: Limits = Limits()) -> tuple[str, str | None]:  # noqa: B008
    """Where the file of a `pypi:` URL lies and its sha256, where the index gives one over TLS.

    Raises TransportError when the index can't be had or lists no such file, ArmstageError when the
    URL is malformed or no index is configured.
    """
    project, _version, name = parse(url)
    base = (index_url or configured_index(os.environ, Path.home())).rstrip("/")
    page = f"{base}/{re.sub(r'[-_.]+', '-', project).lower()}/"
    if is_local(page):
        page = str(local_path(page) / "index.html")
    answer, text = patiently(lambda: _read(page, limits), longest=limits.connect)
    page = _with_credentials_of(page, answer.url)
    files = list_files(text, answer.content_type, page)
    if name not in files:
        raise TransportError(f"`{without_credentials(base)}` lists no file `{name}` for `{project}`", status=404)
    location, digest = files[name]
    return _with_credentials_of(page, location), digest if answer.trusted else None


def _read(page: str, limits: Limits) -> tuple[Response, str]:
    with open_url(page, limits, accept=ACCEPT) as answer:
        return answer, answer.read_all(MAX_PAGE).decode("utf-8", "replace")


def parse(url: str) -> tuple[str, str, str]:
    """Project, version and file name of a `pypi:` URL."""
    match = re.fullmatch(r"pypi:([A-Za-z0-9][A-Za-z0-9._-]*)/([^/]+)/([^/]+)", url)
    if match is None or f"-{match[2]}" not in match[3]:
        raise ArmstageError(
            f"Expected `pypi:<project>/<version>/<file name of that version>`, but received: `{url}`",
            hint="For example: pypi:uv/0.10.0/uv-0.10.0-py3-none-manylinux_2_28_aarch64.whl",
        )
    return match[1], match[2], match[3]


def configured_index(environment: Mapping[str, str], home: Path, system: Path = Path("/etc")) -> str:
    """The package index this site uses: uv's and pip's variables, pip's files, what pip itself uses here, and at
    last what it uses on the control node, which the playbook passes on (FALLBACK)."""
    for variable in INDEX_VARIABLES:
        if environment.get(variable):
            return re.sub(r"^[\w.-]+=(?=[a-z]+:)", "", environment[variable])  # uv allows `name=URL`
    for path in pip_files(environment, home, system):
        index = _pip_file_index(path)
        if index:
            return index
    default = _pip_default() or environment.get(FALLBACK, "")
    if default:
        return default
    raise ArmstageError(
        "No package index is configured for `pypi:` URLs",
        hint="Set index_url, or PIP_INDEX_URL, or index-url in /etc/pip.conf on the host that stages",
    )


def _pip_default() -> str:
    """What pip uses where nothing is configured: an installed pip's, else that of the wheel from which
    Python's ensurepip would install it. Empty without either."""
    bundled = (
        sysconfig.get_config_var("WHEEL_PKG_DIR"),
        os.path.join(sysconfig.get_path("stdlib"), "ensurepip/_bundled"),
    )
    wheels = [wheel for folder in filter(None, bundled) for wheel in sorted(glob.glob(f"{folder}/pip-*.whl"))]
    before = list(sys.path)
    sys.path += wheels
    try:
        from pip._internal.models.index import PyPI  # type: ignore[import-not-found,unused-ignore]

        return str(PyPI.simple_url)
    except (ImportError, AttributeError):
        return ""
    finally:
        sys.path[:] = before


def pip_files(environment: Mapping[str, str], home: Path, system: Path = Path("/etc")) -> list[Path]:
    """pip's configuration files, the one that decides first: the user's before the machine's."""
    folders = [Path(environment.get("XDG_CONFIG_HOME") or home / ".config")]
    machine = [Path(folder) for folder in environment.get("XDG_CONFIG_DIRS", "").split(":") if folder]
    return [
        *([Path(environment["PIP_CONFIG_FILE"])] if environment.get("PIP_CONFIG_FILE") else []),
        *(folder / "pip" / "pip.conf" for folder in folders),
        home / ".pip" / "pip.conf",
        system / "pip.conf",
        *(folder / "pip" / "pip.conf" for folder in machine or [system / "xdg"]),
    ]


def _pip_file_index(path: Path) -> str:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ArmstageError(
            f"Failed to read pip's configuration `{path}`: {str(error).splitlines()[0]}", hint=f"Correct `{path}`"
        ) from error
    for section in PIP_SECTIONS:
        for key in ("index-url", "index_url"):
            if parser.has_option(section, key):
                return parser.get(section, key).strip()
    return ""


def list_files(text: str, content_type: str, page: str) -> dict[str, tuple[str, str | None]]:
    """The files of a project page (PEP 691 JSON or PEP 503 HTML): name -> URL, sha256 or None."""
    text = text.lstrip("\ufeff")
    if content_type == JSON_TYPE or text.lstrip().startswith("{"):
        return _list_json(text, page)
    parser = _Anchors()
    parser.feed(text)
    files = {}
    for reference in parser.references:
        try:
            location, fragment = urldefrag(urljoin(urljoin(page, parser.base), reference))
        except ValueError:
            continue  # no address at all, so no file either
        digest = re.search(r"(?:^|&)sha256=([^&]*)", fragment)
        files[file_name(location)] = (location, _sha256(digest and digest[1]))
    return files


def _list_json(text: str, page: str) -> dict[str, tuple[str, str | None]]:
    try:
        return {
            item["filename"]: (urljoin(page, item["url"]), _sha256((item.get("hashes") or {}).get("sha256")))
            for item in json.loads(text)["files"]
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TransportError(
            f"`{without_credentials(page)}` is not a project page (PEP 691): {type(error).__name__}"
        ) from error


def _sha256(given: object) -> str | None:
    """A digest in lower case; None for what is none."""
    return given.lower() if isinstance(given, str) and re.fullmatch("[0-9a-fA-F]{64}", given) else None


class _Anchors(HTMLParser):
    """The targets of a page's links and the base that they are relative to."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = (dict(attrs).get("href") or "").strip()
        if tag == "a" and target:
            self.references.append(target)
        elif tag == "base" and not self.base:
            self.base = target


def _with_credentials_of(base: str, url: str) -> str:
    """``url`` with the credentials of ``base`` where both are on one host: an index that asks for them
    asks for them again for its files."""
    ours, theirs = urlsplit(base), urlsplit(url)
    if "@" in theirs.netloc or "@" not in ours.netloc or ours.netloc.rpartition("@")[2] != theirs.netloc:
        return url
    return urlunsplit(theirs._replace(netloc=ours.netloc))
