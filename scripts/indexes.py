# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`./armstage indexes`: the PyTorch wheel indexes known here.

`--refresh` lists the real index pages and shows what differs from `vars/compatibility.yml`; it changes nothing.
Exit status: 0 nothing differs, 1 an index can't be read, 2 something differs, 3 usage.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import requests
import yaml
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "module_utils"))

from armstage.command_line import Parser  # noqa: E402
from armstage.compatibility import PACKAGES, Compatibility  # noqa: E402
from armstage.errors import ArmstageError  # noqa: E402
from armstage.staging.index import list_files  # noqa: E402
from armstage.versions import release, within  # noqa: E402

CONNECT_SECONDS, READ_SECONDS = 5, 30

ABSENT = (403, 404)
"""What the index's store answers where there is no such page."""

# Final releases for ordinary CPython: no nightlies, no free-threaded builds, no CPU builds (which have no +cuNNN).
WHEEL = re.compile(r"(\w+)-(\d+(?:\.\d+)*)\+(cu\d+)-(?:cp3(\d+)-cp3\4|py3-none)-\S*aarch64\.whl")

Held = Mapping[str, set[str]]
"""Versions that an index holds for aarch64, each with its Pythons; ``3`` stands for every one."""


def open_session() -> requests.Session:
    session = requests.Session()
    retries = Retry(total=3, connect=1, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504))
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retries))
    return session


def read_page(session: requests.Session, url: str) -> list[str]:
    """The names of the files that an index page lists; none where there is no such page."""
    try:
        answer = session.get(url, timeout=(CONNECT_SECONDS, READ_SECONDS))
        if answer.status_code in ABSENT:
            return []
        answer.raise_for_status()
    except requests.RequestException as error:
        raise ArmstageError(f"`{url}` can't be read: {type(error).__name__}") from error
    files = list(list_files(answer.text, "text/html", url))
    if not files:
        raise ArmstageError(f"Expected an index page at `{url}`, but it lists no files")
    return files


def held(files: Iterable[str], name: str, tag: str) -> Held:
    """The versions of a package among the files of its page."""
    found: dict[str, set[str]] = {}
    for file in files:
        match = WHEEL.fullmatch(file)
        if match and match.group(1, 3) == (name, tag):
            python = match.group(4)
            found.setdefault(match.group(2), set()).add(f"3.{python}" if python else "3")
    return found


def differences(tag: str, name: str, real: Held, known: Compatibility) -> Iterator[str]:
    """What an index holds of a package and the data doesn't say, from the data's oldest version on, and the reverse."""
    recorded = known.data["indexes"].get(tag, {name: []})[name]
    oldest = release(known.versions(name)[-1])
    for version in sorted(real, key=release):
        pythons = sorted(real[version], key=release)
        if release(version) < oldest:
            continue
        if version not in recorded:
            yield f"{tag}: {name} {version} is not in the data (Python {', '.join(pythons)})"
        elif "3" not in pythons and not any(_covers(pythons, span) for span in known.pythons(name, version)):
            said = " or ".join(known.pythons(name, version))
            yield f"{tag}: {name} {version} is for Python {', '.join(pythons)}; the data says {said}"
    for version in recorded:
        if version not in real:
            yield f"{tag}: {name} {version} is in the data, but not in the index"


def _covers(pythons: list[str], span: str) -> bool:
    """True when the Pythons are exactly those of the span."""
    return all(within(python, span) for python in pythons) and {pythons[0], pythons[-1]} == set(span.split("-"))


def candidates(known: Compatibility) -> list[str]:
    """Indexes that may have come since: one for each CUDA version of a driver, newer than the oldest index."""
    oldest = release(known.indexes()[-1][1]["cuda"])
    versions = [driver["cuda"] for driver in known.data["driver_cuda"].values()]
    tags = [f"cu{version.replace('.', '')}" for version in versions if release(version) > oldest]
    return [tag for tag in tags if tag not in known.data["indexes"]]


def refresh(known: Compatibility, base_url: str) -> int:
    session = open_session()
    found = []
    for tag, index in known.indexes():
        address = f"{base_url}/{tag}" if base_url else index["url"]
        for name in PACKAGES:
            real = held(read_page(session, f"{address}/{name}/"), name, tag)
            found += differences(tag, name, real, known)
        print(f"read {address}", flush=True)
    base_url = base_url or known.indexes()[0][1]["url"].rpartition("/")[0]
    for tag in candidates(known):
        real = held(read_page(session, f"{base_url}/{tag}/torch/"), "torch", tag)
        found += differences(tag, "torch", real, known)
    print("\n".join(found) or f"Nothing differs from the data of {known.data['date']}")
    return 2 if found else 0


def table(known: Compatibility) -> str:
    lines = [f"PyTorch wheel indexes with CUDA builds for aarch64, as of {known.data['date']} (vars/compatibility.yml)"]
    drivers = {driver["cuda"]: branch for branch, driver in known.data["driver_cuda"].items()}
    for tag, index in known.indexes():
        built_for = [gpu + "+PTX" * (gpu == index["ptx"]) for gpu in index["architectures"]]
        lines += [
            "",
            f"{tag}  CUDA {index['cuda']}, driver {drivers[index['cuda']]} or newer, GPUs {' '.join(built_for)}",
        ]
        lines += [f"       {name:<12} {' '.join(index[name]) or 'none'}" for name in PACKAGES]
    return "\n".join(lines)


def main() -> int:
    parser = Parser(prog="./armstage indexes", description=__doc__.splitlines()[0])
    parser.add_argument("--refresh", action="store_true", help="compare with the real index pages")
    parser.add_argument("--base-url", default="", help="read the pages below this address, such as a mirror's")
    options = parser.parse_args()
    data = yaml.safe_load((PROJECT / "vars" / "compatibility.yml").read_text())
    known = Compatibility(data["armstage_compatibility"])
    if not options.refresh:
        print(table(known))
        return 0
    try:
        return refresh(known, options.base_url.rstrip("/"))
    except ArmstageError as error:
        print(f"armstage: {error.message}; what is known stays that of {known.data['date']}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
