"""The filters of the role preflight, and what the callback says of its results."""

import base64
import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.plugins.loader import callback_loader, filter_loader

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def filters():
    filter_loader.add_directory(str(ROOT / "filter_plugins"))
    return {
        name: filter_loader.get(name).j2_function
        for name in ("preflight_program", "preflight_report", "preflight_json", "preflight_page")
    }


def check(number="G1", status="PASS", detail="fine", hint=""):
    return {
        "id": number,
        "name": "x",
        "status": status,
        "detail": detail,
        "hint": hint,
        "source": "",
        "facts": [],
        "data": {},
        "seconds": 0,
    }


def result(status="PASS", **changes):
    verdict = {"PASS": "ready", "WARN": "ready-with-warnings", "FAIL": "blocked"}[status]
    return {
        "checks": [check(status=status, **changes)],
        "lines": [f"G1 {status}: fine"],
        "verdict": verdict,
        "host": {},
    }


def test_the_program_is_a_zip_file_behind_a_shell_script(filters, tmp_path):
    (tmp_path / "p").write_bytes(base64.b64decode(filters["preflight_program"](str(ROOT / "module_utils"))))
    assert (tmp_path / "p").read_bytes().startswith(b"#!/bin/sh\n")
    assert "armstage/preflight/cli.py" in zipfile.ZipFile(tmp_path / "p").namelist()


def test_a_report_of_hostvars(filters):
    memory = {"MemTotal": 1, "MemFree": 1, "in_no_counter": 0}
    hostvars = {
        "good": {
            "__preflight_result": result(),
            "__preflight_page_cache": {"before": memory, "after": memory, "changed": True},
        },
        "bad": {"__preflight_result": result("FAIL")},
        "broken": {"__preflight_result": {"failed": True, "msg": "Expected numbers"}},
        "lost": {},
    }
    report = filters["preflight_report"](hostvars, ["good", "bad", "broken", "lost"])
    assert {host["name"]: host["verdict"] for host in report["hosts"]} == {
        "good": "ready",
        "bad": "blocked",
        "broken": "unknown",
        "lost": "unknown",
    }
    assert next(host for host in report["hosts"] if host["name"] == "good")["page_cache"]["after"] == memory
    checked = filters["preflight_report"](hostvars, ["good"], True)
    assert checked["hosts"][0]["page_cache"] is None
    assert next(host for host in report["hosts"] if host["name"] == "broken")["error"] == "Expected numbers"
    assert json.loads(filters["preflight_json"](report)) == report
    assert filters["preflight_page"](report).startswith("<!doctype html>")


class TestCallback:
    @pytest.fixture
    def callback(self):
        callback_loader.add_directory(str(ROOT / "callback_plugins"))
        plugin = callback_loader.get("armstage_summary")
        plugin.lines = []
        plugin._display = SimpleNamespace(display=lambda text, color=None: plugin.lines.append((text, color)))
        return plugin

    def say(self, host, content, action="preflight_info"):
        return SimpleNamespace(
            _host=SimpleNamespace(get_name=lambda: host), _result=content, _task=SimpleNamespace(action=action)
        )

    def stats(self):
        return SimpleNamespace(processed={}, failures={}, dark={})

    def test_lines_verdict_and_what_to_do(self, callback):
        callback.v2_runner_on_ok(self.say("n1", result("FAIL", hint="do this")))
        callback.v2_runner_on_ok(self.say("n1", {"ansible_facts": {"preflight_page": "/x/report.html"}}, "set_fact"))
        callback.v2_playbook_on_stats(self.stats())
        assert callback.lines == [
            ("G1 FAIL: fine", "red"),
            ("", None),
            ("verdict: blocked", "red"),
            ("1. G1 x: do this", "red"),
            ("report: /x/report.html", None),
        ]

    def test_a_host_that_cannot_be_reached_is_counted(self, callback):
        callback.v2_runner_on_unreachable(self.say("n2", {"unreachable": True, "msg": "timed out"}, "setup"))
        callback.v2_runner_on_ok(self.say("n1", result()))
        callback.v2_playbook_on_stats(self.stats())
        texts = [text for text, _color in callback.lines]
        assert "verdict: no answer (2 hosts: 1 no answer, 1 ready)" in texts

    def test_other_runs_say_nothing_of_it(self, callback):
        callback.v2_runner_on_unreachable(self.say("n2", {"unreachable": True, "msg": "timed out"}, "setup"))
        callback.v2_playbook_on_stats(self.stats())
        assert not [text for text, _color in callback.lines if text]
