"""The table of playbooks/page_cache.yml, and the script behind `./armstage drop-cache`."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
GIB = 1024**3


def load(path):
    spec = importlib.util.spec_from_file_location(f"under_test_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILTERS = load(ROOT / "filter_plugins/page_cache.py").FilterModule().filters()
SCRIPT = load(ROOT / "scripts/drop_cache.py")


def result(before=26.5, after=62.7, **changes):
    return {
        "changed": True,
        "reason": "",
        "helped": after > before,
        "before": {"MemFree": int(before * GIB)},
        "after": {"MemFree": int(after * GIB)},
        "freed_bytes": int(max(0, after - before) * GIB),
        "message": "Freed",
        "hint": "",
        "verdict": {"answer": "helps"},
        "evicted": {"left": []},
        **changes,
    }


def test_every_host_is_in_the_table_whatever_became_of_it():
    hostvars = {
        "spark1": {"__page_cache_user": result(), "__page_cache_root": {"skipped": True, "changed": False}},
        "spark-with-a-long-name": {
            "__page_cache_user": {"reason": "denied", "msg": "denied"},
            "__page_cache_root": result(3.0, 39.0, verdict={"answer": "cannot help"}, message="said", hint="reboot"),
        },
        "spark3": {"__page_cache_user": result(100, 100, changed=False, message="Nothing to do: enough", helped=False)},
        "spark4": {"__page_cache_user": result(5, 5, reason="busy", msg="The GPU is in use", hint="Wait")},
        "spark5": {
            "__page_cache_user": result(7, 7, reason="denied", msg="Permission denied", hint="Run as root"),
            "__page_cache_root": {
                "failed": True,
                "msg": "Task failed:\n>>> Standard Error\nsudo: a password is required",
            },
        },
        "spark6": {"__page_cache_user": {"failed": True, "msg": "No Python"}},
        "gone": {"__page_cache_user": {"unreachable": True, "msg": "No route to host"}},
    }
    lines = FILTERS["page_cache_table"](hostvars, list(hostvars))
    assert lines == [
        "host                    MemFree before  after      freed     helped  verdict",
        "spark1                  26.5 GiB        62.7 GiB   36.2 GiB  yes     helps",
        "spark-with-a-long-name  3.0 GiB         39.0 GiB   36.0 GiB  yes     cannot help",
        "spark3                  100.0 GiB       100.0 GiB  -         -       nothing to do",
        "spark4                  5.0 GiB         5.0 GiB    -         -       helps, but busy",
        "spark5                  7.0 GiB         7.0 GiB    -         -       helps, but denied",
        "spark6                  -               -          -         -       failed",
        "gone                    -               -          -         -       unreachable",
        "spark-with-a-long-name: said",
        "spark-with-a-long-name: reboot",
        "spark3: Nothing to do: enough",
        "spark4: The GPU is in use",
        "spark4: Wait",
        "spark5: Permission denied; as root: sudo: a password is required",
        "spark5: Run as root",
        "spark6: No Python",
    ]


def test_in_check_mode_it_says_what_would_be():
    hostvars = {
        "a": {"__page_cache_user": result()},
        "b": {"__page_cache_user": result(5, 5, reason="busy", msg="The GPU is in use")},
        "c": {"__page_cache_user": result(100, 100, changed=False, message="Nothing to do: enough")},
    }
    assert FILTERS["page_cache_table"](hostvars, list(hostvars), True)[:4] == [
        "host  MemFree    would be        would free      helped  verdict",
        "a     26.5 GiB   up to 62.7 GiB  up to 36.2 GiB  -       helps",
        "b     5.0 GiB    5.0 GiB         -               -       helps, but busy",
        "c     100.0 GiB  100.0 GiB       -               -       nothing to do",
    ]


def test_files_that_stayed_are_named():
    left = [{"path": "/models/a", "resident_bytes": 2 * GIB, "reason": "mapped by `python3` (pid 7)"}]
    lines = FILTERS["page_cache_table"]({"a": {"__page_cache_user": result(evicted={"left": left})}}, ["a"])
    assert lines[-1] == "a: /models/a: 2.0 GiB stayed, mapped by `python3` (pid 7)"


@pytest.fixture
def calls(monkeypatch):
    """The commands the script would start, and the exit statuses they get."""
    made, statuses = [], {}

    def call(command):
        made.append(command)
        return statuses.get(len(made), 0)

    monkeypatch.setattr(SCRIPT.subprocess, "call", call)
    return made, statuses


PLAYBOOK = str(ROOT / "playbooks" / "page_cache.yml")
HERE = ["-i", str(ROOT / "inventory" / "localhost")]


def test_without_an_inventory_it_is_this_host(calls):
    assert SCRIPT.main(["--diff"]) == 0
    assert calls[0] == [["ansible-playbook", PLAYBOOK, *HERE, "--diff"]]


def test_options_of_ansible_go_through(calls):
    SCRIPT.main(["-i", "a", "-i", "b", "-l", "x", "-C", "-K", "-e", "page_cache_only_below=100"])
    expected = ["-i", "a", "-i", "b", "--limit", "x", "--check", "-K", "-e", "page_cache_only_below=100"]
    assert calls[0] == [["ansible-playbook", PLAYBOOK, *expected]]


def test_the_cache_is_dropped_before_each_run(calls, capsys):
    assert SCRIPT.main(["--run", "bench 1", "--run", "bench 2 && true"]) == 0
    drop = ["ansible-playbook", PLAYBOOK, *HERE]
    assert calls[0] == [drop, ["sh", "-c", "bench 1"], drop, ["sh", "-c", "bench 2 && true"]]
    printed = capsys.readouterr().out
    assert "== run 1 of 2: bench 1" in printed
    assert "== bench 2 && true: 0.0 s, exit status 0" in printed


def test_with_an_inventory_the_runs_are_there_and_nothing_in_them_is_a_template(calls):
    SCRIPT.main(["-i", "inventory/spark", "--limit", "spark1", "--run", "echo '{{ x }}' chdir=/tmp"])
    words = json.loads(calls[0][1].pop())
    assert calls[0][1] == [
        *["ansible", "all", "-i", "inventory/spark", "--limit", "spark1"],
        *["-m", "ansible.builtin.shell", "-a"],
    ]
    assert words == {"cmd": "{% raw %}echo '{{ x }}' chdir=/tmp{% endraw %}"}


def test_a_drop_that_fails_stops_its_run_and_the_first_failure_is_the_exit_status(calls, capsys):
    calls[1].update({1: 2, 3: 7})
    assert SCRIPT.main(["--run", "first", "--run", "second"]) == 2
    assert [command[0] for command in calls[0]] == ["ansible-playbook", "ansible-playbook", "sh"][:3]
    assert "== first: not run, since the page cache could not be dropped" in capsys.readouterr().out


def test_check_runs_nothing(calls, capsys):
    assert SCRIPT.main(["--check", "--run", "rm -rf ."]) == 0
    assert [command[0] for command in calls[0]] == ["ansible-playbook"]
    assert "not run, as --check asked" in capsys.readouterr().out
