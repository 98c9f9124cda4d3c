"""`./armstage indexes` against index pages served here, in the form of the real ones."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "indexes.py"
DATA = yaml.safe_load((ROOT / "vars" / "compatibility.yml").read_text())["armstage_compatibility"]
RECORDED = (ROOT / "tests/fixtures/wheel_index/torch-cu128.html").read_text()
ROW = next(line for line in RECORDED.splitlines() if "cp312-cp312-manylinux_2_28_aarch64" in line)


def row(name, version, tag, python="cp312", abi=None, platform="manylinux_2_28_aarch64"):
    file = f"{name}-{version}{f'+{tag}' if tag else ''}-{python}-{abi or python}-{platform}.whl"
    line = ROW.replace("torch-2.7.0%2Bcu128-cp312-cp312-manylinux_2_28_aarch64.whl", file.replace("+", "%2B"))
    return line.replace("torch-2.7.0+cu128-cp312-cp312-manylinux_2_28_aarch64.whl", file)


def pythons(name, version):
    rows = DATA["torch"]
    if name == "torchvision":
        fact = next(fact for fact in rows.values() if version in fact["torchvision"])
    else:
        fact = DATA[name][version]
    oldest, newest = (int(end.split(".")[1]) for end in fact["pythons"].split("-"))
    return [f"cp3{minor}" for minor in range(oldest, newest + 1)]


class Index:
    """The pages of every index, as the data has them; ``rows`` can be changed before they are served."""

    def __init__(self, server):
        self.server = server
        self.rows = {}
        for tag, index in DATA["indexes"].items():
            for name in ("torch", "torchvision", "torchcodec"):
                wheels = [
                    row(name, version, tag, python) for version in index[name] for python in pythons(name, version)
                ]
                # What is there too and counts for nothing.
                noise = [
                    row(name, "2.99.0", tag, platform="manylinux_2_28_x86_64"),
                    row(name, "2.99.0", tag, platform="win_amd64"),
                    row(name, "2.99.0", ""),
                    row(name, "2.99.0.dev20261101", tag),
                    row(name, "2.99.0", tag, abi="cp312t"),
                    row(name, "0.0.9", tag),
                    row(name, "2.99.0", "cu118"),
                ]
                self.rows[tag, name] = wheels + noise

    def run(self, *options):
        for (tag, name), rows in self.rows.items():
            page = RECORDED[: RECORDED.index("    <a ")] + "\n".join(rows) + "\n  </body>\n</html>\n"
            self.server.put(f"/whl/{tag}/{name}/", page.encode(), content_type="text/html")
        return refresh(f"{self.server.base}/whl", *options)


def refresh(base):
    command = [sys.executable, str(SCRIPT), "--refresh", "--base-url", base]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def index(server):
    return Index(server)


def found(run):
    """The lines after the pages that were read."""
    return [line for line in run.stdout.splitlines() if not line.startswith("read ")]


def test_the_table_has_every_index_with_its_date():
    run = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0
    assert DATA["date"] in run.stdout
    for tag, fact in DATA["indexes"].items():
        assert f"{tag}  CUDA {fact['cuda']}, driver " in run.stdout
        assert " ".join(fact["torch"]) in run.stdout
    assert "cu130  CUDA 13.0, driver 580 or newer, GPUs 8.0 9.0 10.0 11.0 12.0+PTX" in run.stdout


def test_nothing_differs_where_the_pages_are_as_the_data_says(index):
    run = index.run()
    assert (run.returncode, found(run)) == (0, [f"Nothing differs from the data of {DATA['date']}"]), run.stderr


def test_what_differs_is_named(index):
    index.rows["cu132", "torch"] += [row("torch", "2.16.0", "cu132", python) for python in ("cp312", "cp311")]
    index.rows["cu128", "torch"] = [line for line in index.rows["cu128", "torch"] if "torch-2.9.1" not in line]
    index.rows["cu130", "torchvision"] = [
        line for line in index.rows["cu130", "torchvision"] if "0.27.0" not in line or "cp314" not in line
    ]
    index.rows["cu134", "torch"] = [row("torch", "2.15.0", "cu134")]
    run = index.run()
    assert run.returncode == 2
    assert found(run) == [
        "cu132: torch 2.16.0 is not in the data (Python 3.11, 3.12)",
        "cu130: torchvision 0.27.0 is for Python 3.10, 3.11, 3.12, 3.13; the data says 3.10-3.14",
        "cu128: torch 2.9.1 is in the data, but not in the index",
        "cu134: torch 2.15.0 is not in the data (Python 3.12)",
    ]


def test_a_wheel_for_every_python_is_one(index):
    lines = index.rows["cu132", "torchvision"]
    index.rows["cu132", "torchvision"] = [line for line in lines if "0.29.2" not in line]
    index.rows["cu132", "torchvision"].append(row("torchvision", "0.29.2", "cu132", "py3", "none"))
    assert index.run().returncode == 0


def test_an_index_that_only_holds_old_builds_is_no_news(index):
    index.rows["cu134", "torch"] = [row("torch", "2.0.0", "cu134")]
    assert index.run().returncode == 0


def test_a_page_that_fails_once_is_asked_again(index, reply):
    run = index.run()
    page = index.server.replies["/whl/cu132/torch/"][0]
    index.server.replies["/whl/cu132/torch/"] = [reply(b"busy", 503, "text/plain"), page]
    run = refresh(f"{index.server.base}/whl")
    assert run.returncode == 0
    assert index.server.asked().count("/whl/cu132/torch/") == 3


def test_offline_is_one_line_and_exit_status_1():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = refresh(f"http://127.0.0.1:{port}/whl")
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert f"`http://127.0.0.1:{port}/whl/cu132/torch/` can't be read: ConnectionError" in run.stderr
    assert DATA["date"] in run.stderr


@pytest.mark.parametrize(("body", "status"), [(b"<html>Please log in</html>", 200), (b"broken", 500)])
def test_a_page_that_is_no_index_is_not_taken_for_an_empty_one(index, body, status):
    index.run()
    index.server.put("/whl/cu130/torch/", body, status=status, content_type="text/html")
    run = refresh(f"{index.server.base}/whl")
    assert run.returncode == 1
    assert "/whl/cu130/torch/" in run.stderr
