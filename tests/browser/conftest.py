"""A headless Chromium, from the system's packages; installed where this is root on Debian or Ubuntu."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ansible.module_utils
import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]

sys.path.append(str(ROOT / "tests" / "unit"))
if str(ROOT / "module_utils") not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(str(ROOT / "module_utils"))


def find():
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install():
    """Debian's chromium; where that can't be had, the tests are skipped with the reason."""
    if os.geteuid() or not shutil.which("apt-get"):
        pytest.skip("no Chromium on PATH, and this is not root on Debian or Ubuntu: install the package chromium")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = "apt-get install -y -qq chromium || { apt-get update -qq && apt-get install -y -qq chromium; }"
    done = subprocess.run(["sh", "-c", command], env=environ, capture_output=True, text=True, timeout=600, check=False)
    if not find():
        pytest.skip(f"no Chromium, and it could not be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright

    if not find():
        install()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as home:
        # an empty home: what the browser keeps goes with the run
        browser = playwright.chromium.launch(executable_path=find(), args=QUIET, env={**os.environ, "HOME": home})
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """The pages of three and of two hundred hosts, and one whose hosts mean ill: name -> path."""
    from ansible.module_utils.armstage.preflight.report import build, html
    from preflight import reports

    folder = tmp_path_factory.mktemp("pages")
    three = reports.three(folder / "3")
    evil = "<script>document.title='owned'</script><img src=http://example.org/x onerror=\"document.title='owned'\">"
    hostile = {evil: {**three["spark-1"], "host": {}}, "n2": {"msg": evil}}
    for check in hostile[evil]["checks"]:
        check["detail"] = f"{check['detail']} {evil}"
    written = {}
    for name, results in {"three": three, "many": reports.two_hundred(folder / "200"), "hostile": hostile}.items():
        written[name] = folder / f"{name}.html"
        written[name].write_text(html.page(build.report(results)), encoding="utf-8")
    return written
