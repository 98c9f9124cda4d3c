"""`./armstage drop-cache` as a person runs it: the script, the playbook, the module and the table together.

Only named files are evicted and check mode is used, so that this host's cache stays.
"""

import os
import shutil
import subprocess
import sys

import pytest

from .page_cache_host import PROJECT, cached_file, real_disk


@pytest.fixture
def disk():
    folder = real_disk()
    yield folder
    shutil.rmtree(folder)


def drop_cache(*arguments):
    environment = {**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    command = [sys.executable, str(PROJECT / "scripts/drop_cache.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def hosts_file(folder, *lines):
    path = folder / "hosts.ini"
    path.write_text("\n".join([*lines, "[all:vars]", f"ansible_python_interpreter={sys.executable}"]) + "\n")
    return path


def test_several_hosts_one_table_and_each_run_after_an_eviction(disk):
    model = cached_file(disk / "model", 64)
    hosts = hosts_file(disk, "spark1 ansible_connection=local", "spark2 ansible_connection=local")
    options = ["-i", hosts, "-e", f'{{"page_cache_paths": ["{model}"]}}']
    done = drop_cache(*options, "--run", f"cat {model} | wc -c", "--run", "false")
    assert "spark1: nothing" not in done.stdout
    assert done.stdout.count("\nhost    MemFree before") == 2
    assert done.stdout.count("67108864") == 2
    assert f"== cat {model} | wc -c: " in done.stdout
    assert done.returncode != 0
    assert "false: " in done.stdout.splitlines()[-1]


def test_check_shows_what_would_be_freed():
    done = drop_cache("--check", "-e", "page_cache_busy=ignore")
    if "read-only" in done.stdout:
        pytest.skip("a container, whose cache is its host's")
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout[done.stdout.index("\nhost ") :].splitlines()[1:]
    assert table[0].split("  ")[-1] == "verdict"
    assert table[1].startswith("localhost  ")
    assert "freed" not in table[0]
    assert "yes" not in table[1]


def test_a_host_that_fails_or_is_away_is_in_the_table_and_fails_the_run(disk):
    hosts = hosts_file(
        disk,
        "here ansible_connection=local",
        "away ansible_host=127.0.0.1 ansible_port=1 ansible_connection=ssh",
    )
    done = drop_cache("-i", hosts, "-e", '{"page_cache_paths": ["/nonexistent/model"]}')
    assert done.returncode != 0
    assert "\nhere  -               -      -      -       failed\n" in done.stdout
    assert "\naway  -               -      -      -       unreachable\n" in done.stdout
    assert "here: Failed to find the file or folder `/nonexistent/model`: No such file or directory" in done.stdout
