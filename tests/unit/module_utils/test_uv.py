"""uv as a tool: what it is told, which of this host's settings it sees, and what its messages mean."""

import os
import sys
import time
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging.uv import Places, Uv, doing, environment
from ansible.module_utils.armstage.staging.uv_errors import Attempt, UvError, explain

FIXTURES = Path(__file__).parents[2] / "fixtures" / "uv"
EXPECTED = yaml.safe_load((FIXTURES / "expected.yml").read_text())
MESSAGES = sorted(FIXTURES.glob("*.txt"))
ATTEMPT = Attempt("/usr/bin/uv", str(Places(index="https://index.test")), "aarch64-manylinux_2_28", "3.13")


@pytest.mark.parametrize("path", MESSAGES, ids=lambda path: path.stem)
def test_a_message_of_uv_is_explained(path):
    expected = EXPECTED[path.name.partition(".")[0]]
    error = explain(ATTEMPT, path.read_text(), 1)
    assert error.message.startswith(expected.get("begins") or expected["message"])
    assert error.message == expected.get("message", error.message)
    assert expected.get("names", "") in error.message
    assert error.unreachable is expected.get("unreachable", False)
    assert error.hint
    assert "{" not in error.message + error.hint
    assert error.detail == "\n".join(path.read_text().strip().splitlines()[-15:])


def test_every_recorded_message_is_expected_from_both_versions():
    assert {path.name for path in MESSAGES} == {f"{case}.{uv}.txt" for case in EXPECTED for uv in ("0.10.0", "0.13.9")}


def test_a_message_that_is_not_known_keeps_its_words():
    error = explain(ATTEMPT, "error: a new kind of trouble\n", 2)
    assert error.message == "uv failed with exit status 2: a new kind of trouble"
    assert error.detail == "error: a new kind of trouble"
    assert explain(ATTEMPT, "", 3).message == "uv failed with exit status 3"


def test_a_signal_is_named():
    assert explain(ATTEMPT, "Resolved 2 packages in 1ms", -9).message == "uv was ended by signal 9"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("error: Could not acquire lock for `/nfs/.cache/uv` cause: Function not implemented (os error 38)", "38"),
        ("error: failed to lock `/nfs/.cache/uv/.lock`: Unknown error 524 (os error 524)", "524"),
    ],
)
def test_a_filesystem_without_flock_is_told_from_other_trouble(text, name):
    assert explain(ATTEMPT, text, 2).message.startswith("uv can't lock its cache: ")
    assert name in explain(ATTEMPT, text, 2).message


PANIC = (
    "thread 'main2' panicked at crates/uv-configuration/src/threading.rs:68:10:\n"
    "failed to initialize global rayon pool: ThreadPoolBuildError { kind: IOError(Os { code: 11, kind: WouldBlock, "
    'message: "Resource temporarily unavailable" }) }\n'
)
"""astral-sh/uv#14462, on a login node; it then aborts."""


def test_a_limit_of_threads_is_told_from_too_little_memory():
    error = explain(ATTEMPT, PANIC, -6)
    assert error.message.startswith("uv could not start its threads")
    assert "UV_CONCURRENT_INSTALLS" in error.hint


def test_uv_is_not_given_a_thread_a_core(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(288)))
    assert environment({})["UV_CONCURRENT_INSTALLS"] == "16"
    assert environment({"UV_CONCURRENT_INSTALLS": "40"})["UV_CONCURRENT_INSTALLS"] == "40"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 5})
    assert environment({})["UV_CONCURRENT_INSTALLS"] == "2"


@pytest.mark.parametrize(
    ("text", "path", "why"),
    [
        (
            "error: Failed to install: dill-0.4.0-py3-none-any.whl (dill==0.4.0)\n"
            "  Caused by: failed to remove directory `/work/u/.venv/lib/python3.12/site-packages/dill-0.4.0.data`: "
            "Directory not empty (os error 39)\n",
            "/work/u/.venv/lib/python3.12/site-packages/dill-0.4.0.data",
            "Directory not empty (os error 39)",
        ),
        (
            "error: failed to remove `/work/u/.cache/uv/.tmpX/y`\n  Caused by: Device or resource busy (os error 16)\n",
            "/work/u/.cache/uv/.tmpX/y",
            "Device or resource busy (os error 16)",
        ),
        (
            "error: failed to open file `/work/u/.cache/uv/z`: Stale file handle (os error 116)\n",
            "/work/u/.cache/uv/z",
            "Stale file handle (os error 116)",
        ),
    ],
)
def test_a_network_filesystem_that_gets_in_the_way(text, path, why):
    """astral-sh/uv#12036."""
    error = explain(ATTEMPT, text, 2)
    assert error.message == f"The filesystem did not let uv finish with `{path}`: {why}"
    assert "local disk" in error.hint


def test_a_limit_of_open_files_is_named():
    text = (
        "error: Failed to install: torch\n  Caused by: failed to open file `/x/y`: Too many open files (os error 24)\n"
    )
    assert explain(ATTEMPT, text, 2).message.startswith("uv ran out of open files")


KEPT = {
    "HTTPS_PROXY": "http://proxy.test",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "HOME": "/home/u",
    "UV_DEFAULT_INDEX": "https://pypi.test/simple",
    "UV_INDEX": "corp=https://corp.test/simple",
    "UV_INDEX_CORP_USERNAME": "u",
    "UV_INDEX_CORP_PASSWORD": "p",
    "UV_EXTRA_INDEX_URL": "https://extra.test",
    "UV_SYSTEM_CERTS": "1",
    "UV_NATIVE_TLS": "1",
    "UV_HTTP_TIMEOUT": "300",
    "UV_CACHE_DIR": "/scratch/uv",
    "UVX_LIKE": "not uv's",
    "PIPELINE": "not pip's",
}
DROPPED = {
    "UV_TORCH_BACKEND": "auto",
    "UV_FIND_LINKS": "/opt/wheels",
    "UV_CONSTRAINT": "c.txt",
    "UV_OVERRIDE": "o.txt",
    "UV_EXCLUDE_NEWER": "2024-01-01",
    "UV_RESOLUTION": "lowest",
    "UV_PRERELEASE": "allow",
    "UV_NO_VERIFY_HASHES": "1",
    "UV_INDEX_STRATEGY": "unsafe-best-match",
    "UV_LINK_MODE": "symlink",
    "UV_PYTHON": "3.9",
    "UV_OFFLINE": "1",
    "UV_NO_CACHE": "1",
    "PIP_FIND_LINKS": "/opt/wheels",
    "PYTHONPATH": "/opt/lib",
    "PYTHONHOME": "/opt",
    "VIRTUAL_ENV": "/opt/venv",
    "CONDA_PREFIX": "/opt/conda",
}


def test_settings_that_say_how_to_get_to_packages_are_kept_and_those_that_say_which_are_not():
    seen = environment({**KEPT, **DROPPED})
    assert seen.items() >= KEPT.items()
    assert not seen.keys() & DROPPED.keys()


def test_a_mirror_replaces_every_index():
    seen = environment(KEPT, mirror=True)
    assert set(KEPT) - set(seen) == {"UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL"}


@pytest.mark.parametrize(
    ("places", "arguments", "words"),
    [
        (Places(), [], "the default index"),
        (
            Places(index="https://user:secret@index.test/whl/cu130"),
            ["--index", "https://user:secret@index.test/whl/cu130", "--index-strategy", "unsafe-first-match"],
            "the index `https://index.test/whl/cu130` or the default index",
        ),
        (
            Places(index="https://index.test", mirror="/srv/wheels"),
            ["--no-config", "--no-index", "--find-links", "/srv/wheels"],
            "the mirror `/srv/wheels`",
        ),
        (
            Places(mirror="https://mirror.test/wheels.html", find_links=("/srv/own",)),
            [
                "--no-config",
                "--no-index",
                "--find-links",
                "https://mirror.test/wheels.html",
                "--find-links",
                "/srv/own",
            ],
            "the mirror `https://mirror.test/wheels.html`",
        ),
        (
            Places(mirror="https://mirror.test/simple"),
            ["--no-config", "--default-index", "https://mirror.test/simple"],
            "the mirror `https://mirror.test/simple`",
        ),
    ],
)
def test_places_become_arguments_and_words(places, arguments, words):
    assert places.arguments() == arguments
    assert str(places) == words


@pytest.mark.parametrize(
    ("messages", "label"),
    [
        ("", "resolving"),
        ("Resolved 34 packages in 207ms\n", "preparing"),
        ("Resolved 2 packages in 1ms\nDownloading torch (400.9MiB)\n", "downloading torch"),
        (
            "Downloading torch (400.9MiB)\nDownloading nvidia-cublas (500.1MiB)\nDownloading numpy (14.6MiB)\n"
            "Downloading sympy (6.0MiB)\n Downloaded numpy\n",
            "downloading torch, nvidia-cublas and 1 more",
        ),
        ("Downloading numpy (14.6MiB)\n Downloaded numpy\nPrepared 1 package in 2ms\n", "linking"),
        ("Prepared 1 package in 2ms\nInstalled 1 package in 4ms\n + numpy==2.5.5\n", "linked"),
    ],
)
def test_a_label_says_what_is_going_on(messages, label):
    assert doing(messages) == label


def program(folder, body):
    """An executable that stands for uv where uv itself would have to misbehave."""
    path = folder / "uv"
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return str(path)


def test_progress_is_told_while_uv_runs_and_it_is_ended_when_its_time_is_over(tmp_path):
    uv = program(
        tmp_path,
        "import sys, time\n"
        "open(__file__ + '.out', 'w').write('x' * 5000)\n"
        "print('Downloading torch (400.9MiB)', file=sys.stderr, flush=True)\n"
        "time.sleep(60)\n",
    )
    told = []
    asked = Uv(uv, "aarch64-manylinux_2_28", "3.13", timeout=1.5, progress=lambda *news: told.append(news))
    started = time.monotonic()
    with pytest.raises(UvError) as failure:
        asked.resolve(tmp_path / "requirements.txt")
    assert time.monotonic() - started < 5
    assert failure.value.message == "uv had not finished after 2 s; it was fetching from the default index"
    assert failure.value.detail == "Downloading torch (400.9MiB)"
    assert [label for _written, label in told] == ["downloading torch"]
    assert told[0][0] >= 5000


def test_uv_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ArmstageError) as failure:
        Uv(str(tmp_path / "none"), "aarch64-manylinux_2_28", "3.13").resolve(tmp_path / "requirements.txt")
    assert failure.value.message == f"Failed to start uv at `{tmp_path}/none`: No such file or directory"
