"""`./armstage verify --fleet`: one srun, what the real program answers on each node, and the report made of that.

srun alone stands in: it runs each task here, under the node's name, and passes its output on as srun does, in labelled
pieces of 1024 bytes that arrive in any order.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from ansible.module_utils.armstage.preflight import bundle
from ansible.module_utils.armstage.staging.publish import Store
from ansible.module_utils.armstage.staging.record import Release

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text())

SRUN = """\
#!{python}
import itertools, os, subprocess, sys
sys.path.insert(0, {utils!r})
from armstage.slurm import hostlist
words = sys.argv[1:]
options, command = words[: words.index("/bin/sh")], words[words.index("/bin/sh") :]
assert "--label" in options
if "--lost" in options:
    sys.exit("srun: error: Node failure on gb01")
[names] = [word.partition("=")[2] for word in options if word.startswith("--nodelist=")]
pieces = []
for task, name in enumerate(hostlist.expand(names)):
    path = {hung!r} * (name == "gb02") + "/usr/local/bin:/usr/bin:/bin"
    environ = {{"SLURMD_NODENAME": name, "PATH": path, "HOME": "/nonexistent"}}
    text = subprocess.run(command, env=environ, stdout=subprocess.PIPE).stdout.decode()
    cut = [text[at : at + 1024] for at in range(0, len(text), 1024)]
    pieces.append([f"{{task}}: {{line}}" for piece in cut for line in piece.splitlines()])
for lines in itertools.zip_longest(*pieces):
    print(*filter(None, lines), sep="\\n")
"""

INVENTORY = {
    "all": {
        "vars": {"armstage_root": "{{ base }}/root"},
        "hosts": {
            "gb01": {"slurm_state": "IDLE", "slurm_states": ["idle"], "slurm_unusable": ""},
            "gb02": {"slurm_state": "IDLE", "slurm_states": ["idle"], "slurm_unusable": ""},
            "gb03": {"slurm_state": "UNKNOWN", "slurm_states": ["unknown"], "slurm_unusable": "never registered"},
            "gb04": {"slurm_state": "ALLOCATED", "slurm_states": ["allocated"], "slurm_unusable": ""},
        },
    }
}


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A staged root with the program as the role builds it, an inventory, and `verify --fleet` with them."""
    base = tmp_path_factory.mktemp("fleet")
    program(base / "root/bin/armstage-preflight", bundle.build())
    store = Store(base / "root")
    release = Release("uv", "0.10.0", "ab" * 32, {"kind": "pypi"}, "2026-11-30T12:00:00Z", seconds=74.2)
    with store.lock(), store.begin("uv") as partial:
        (partial / "uv").write_text("x" * 1000)
        store.publish(partial, release)
    (base / "root/envs").mkdir()
    # A node on which Python itself hangs, as on a filesystem that is gone.
    program(base / "hung/python3", "#!/bin/sh\nexec sleep 60\n")
    program(
        base / "bin/srun", SRUN.format(python=sys.executable, utils=str(ROOT / "module_utils"), hung=f"{base}/hung:")
    )
    (base / "hosts.json").write_text(json.dumps(INVENTORY))

    def call(*arguments):
        folder = tmp_path_factory.mktemp("called")
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
            "PATH": f"{base}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        }
        command = [sys.executable, str(ROOT / "scripts/playbook.py"), "verify", "--fleet"]
        done = subprocess.run(
            [*command, "-i", str(base / "hosts.json"), "-e", f"base={base}", "--timeout", "5", *arguments],
            **{"cwd": folder, "env": environ, "capture_output": True, "text": True, "timeout": 120, "check": False},
        )
        return done, folder

    call.program = base / "root/bin/armstage-preflight"
    return call


@pytest.fixture(scope="module")
def asked(fleet):
    """The whole fleet, asked once: the process, and the folder it ran in."""
    return fleet("--json", "fleet.json")


def test_every_node_is_in_the_table_and_in_the_file(asked):
    done, folder = asked
    assert (done.returncode, done.stderr) == (2, "")
    answers = {answer["node"]: answer for answer in json.loads((folder / "fleet.json").read_text())["nodes"]}
    assert list(answers) == ["gb01", "gb02", "gb03", "gb04"]
    assert all(set(answer) == {"node", "verdict", "detail", "result"} for answer in answers.values())
    verdicts = {name: answer["verdict"] for name, answer in answers.items()}
    assert verdicts.pop("gb01") in ("ready", "warnings", "blocked")
    assert verdicts == {"gb02": "timed out", "gb03": "unusable", "gb04": "busy"}
    first, *_table, last = done.stdout.splitlines()
    assert first == "asking gb[01-02]: up to 600 s for the nodes to be had, 5 s for each"
    assert last == f"report: {folder}/armstage-report/report.html"


def test_the_report_is_that_of_the_preflight(asked, fleet):
    folder = asked[1] / "armstage-report"
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "report.json"]
    report = json.loads((folder / "report.json").read_text())
    assert list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(report)) == []
    hosts = {host["name"]: host for host in report["hosts"]}
    own = json.loads(subprocess.run([fleet.program, "--json"], capture_output=True, check=False, timeout=60).stdout)
    assert [check["id"] for check in hosts["gb01"]["checks"]] == [check["id"] for check in own["checks"]]
    assert len(own["checks"]) == 15
    assert (hosts["gb01"]["error"], hosts["gb01"]["hint"], hosts["gb01"]["asked"]) == ("", "", True)
    (release,) = hosts["gb01"]["host"]["staged"]["releases"]
    assert (release["size"], release["created"], release["seconds"]) == (1000, "2026-11-30T12:00:00Z", 74.2)
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "1 min 14 s" in page
    assert "timed out after 5 s" in page


def test_a_node_without_an_answer_is_in_it_with_the_reason(asked):
    report = json.loads((asked[1] / "armstage-report/report.json").read_text())
    lost = {host["name"]: host for host in report["hosts"] if host["verdict"] == "unknown"}
    assert {name: (host["error"], host["asked"]) for name, host in lost.items()} == {
        "gb02": ("timed out after 5 s", True),
        "gb03": ("unusable: never registered", False),
        "gb04": ("busy: all of it is allocated to jobs", False),
    }
    todo = [(action["status"], action["name"], action["hosts"]) for action in report["actions"] if not action["id"]]
    assert todo == [
        ("FAIL", "no answer", ["gb02"]),
        ("WARN", "not asked", ["gb03"]),
        ("WARN", "not asked", ["gb04"]),
    ]
    assert all(action["hint"] for action in report["actions"])


def test_where_no_node_answers_there_is_a_report_that_says_so(fleet):
    done, folder = fleet("--srun=--lost", "--json", "fleet.json")
    assert (done.returncode, done.stderr) == (2, "")
    assert re.search("^no answer +2  gb.01-02.  Node failure on gb01$", done.stdout, re.MULTILINE)
    hosts = json.loads((folder / "armstage-report/report.json").read_text())["hosts"]
    assert {host["name"]: (host["error"].partition(":")[0], host["asked"]) for host in hosts} == {
        "gb01": ("no answer", True),
        "gb02": ("no answer", True),
        "gb03": ("unusable", False),
        "gb04": ("busy", False),
    }
    assert len(json.loads((folder / "fleet.json").read_text())["nodes"]) == 4


@pytest.mark.parametrize(("value", "written"), [("", ""), ("there/{{ 'in' }}", "there/in"), ("{folder}/x", "x")])
def test_the_report_goes_where_preflight_report_says(fleet, tmp_path, value, written):
    value = value.replace("{folder}", str(tmp_path))
    done, folder = fleet("--nodes", "gb[03-04]", "-e", json.dumps({"preflight_report": value}))
    assert (done.returncode, done.stderr) == (1, "")
    place = tmp_path if value.startswith("/") else folder
    assert sorted(str(path.parent.relative_to(place)) for path in place.rglob("report.*")) == [written] * (
        2 if written else 0
    )
    assert ("report: " in done.stdout) == bool(written)


def test_a_folder_that_cannot_be_made_is_an_error_without_a_traceback(fleet):
    done, _folder = fleet("--nodes", "gb03", "-e", "preflight_report=/dev/null/x")
    assert done.returncode == 3
    assert "armstage: Failed to write `/dev/null/x/report.json`: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_variable_that_is_not_there_is_refused_before_any_node_is_asked(fleet):
    done, folder = fleet("-e", "armstage_rot=/x", "--json", "fleet.json")
    assert done.returncode == 3
    assert done.stderr.startswith("armstage: There is no variable `armstage_rot`\nhint: Give `armstage_root` instead")
    assert list(folder.iterdir()) == []
