"""`./armstage project audit`: what it prints, and how it ends."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROJECTS = ROOT / "tests" / "fixtures" / "projects"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("project", ROOT / "scripts" / "project.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script, capsys, *arguments):
    try:
        status = script.main(["audit", *map(str, arguments)])
    except SystemExit as ended:
        status = ended.code
    return status, *capsys.readouterr()


def test_findings_are_shown_by_file(script, capsys):
    status, out, err = run(script, capsys, PROJECTS / "cpu-index")
    assert status == 2
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "pyproject.toml"
    assert lines[1] == '  20: error index-fixed: url = "https://download.pytorch.org/whl/cpu"'
    assert lines[2].startswith("      cpu does not serve the aarch64 nodes")
    assert lines[3].startswith("      fix: ")
    assert lines[-1] == "2 errors and 0 warnings in 2 files read"
    assert "\033" not in out


def test_the_exit_status_says_the_worst(script, capsys):
    assert run(script, capsys, PROJECTS / "clean-uv")[0] == 0
    assert run(script, capsys, PROJECTS / "spark-pair")[0] == 1
    assert run(script, capsys, PROJECTS / "x86-only")[0] == 2
    assert run(script, capsys, PROJECTS / "none")[0] == 3
    assert run(script, capsys)[0] == 3
    assert run(script, capsys, "--rule", "none", PROJECTS / "x86-only")[0] == 3


def test_failures_have_a_hint(script, capsys):
    _status, out, err = run(script, capsys, PROJECTS / "none")
    assert out == ""
    assert err.splitlines() == [
        f"armstage: There is no project at `{PROJECTS / 'none'}`",
        "hint: Give the folder that holds pyproject.toml or the scripts",
    ]


def test_what_was_taken_back_and_what_was_not_read_is_counted(script, capsys, tmp_path):
    assert run(script, capsys, PROJECTS / "clean-ignores")[1] == (
        "0 errors and 0 warnings in 4 files read, 6 findings taken back by comments\n"
    )
    (tmp_path / "job.sh").write_text("if true\n")
    assert run(script, capsys, tmp_path)[1].splitlines()[0].startswith("not read: job.sh:2: expected `then`")


def test_json(script, capsys):
    status, out, _err = run(script, capsys, "--json", PROJECTS / "cpu-index")
    found = json.loads(out)
    assert status == 2
    assert [(finding["file"], finding["line"]) for finding in found["findings"]] == [
        ("pyproject.toml", 20),
        ("uv.lock", 20),
    ]


def test_colour_only_where_asked(script):
    found = script.project.audit(str(PROJECTS / "cpu-index"), script.Facts(script.read_compatibility()))
    plain = script.report(found)
    coloured = script.report(found, colour=True)
    assert "\033[31merror\033[0m" in coloured
    for code in (*script.COLOURS.values(), "\033[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_sarif(script, capsys, tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "requirements.txt").write_text("torch==2.4.1\ntorchcodec>=0.5\n")
    (tmp_path / "old.py").write_text("import torchvision\nprint 1\n")
    _status, out, _err = run(script, capsys, "--sarif", tmp_path)
    document = json.loads(out)
    (ran,) = document["runs"]
    rules = ran["tool"]["driver"]["rules"]
    assert document["version"] == "2.1.0"
    assert [result["ruleId"] for result in ran["results"]] == ["torch-bounds", "torchcodec-floor"]
    for result in ran["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {"uri": "a%20b/requirements.txt", "uriBaseId": "PROJECT"}
    assert [result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in ran["results"]] == [1, 2]
    (notification,) = ran["invocations"][0]["toolExecutionNotifications"]
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "old.py"
