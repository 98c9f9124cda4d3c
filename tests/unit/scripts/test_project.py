"""`./armstage project`: what the audit prints and how it ends, and what a fix runs."""

import importlib.util
import json
import os
import platform
import subprocess
import sys
import zipfile
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
    assert lines[-2] == "2 errors and 0 warnings in 2 files read"
    assert lines[-1] == f"next: ./armstage project fix {PROJECTS / 'cpu-index'} --lock own"
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
    assert run(script, capsys, PROJECTS / "clean-ignores")[1].splitlines()[-1] == (
        "0 errors and 0 warnings in 4 files read, 6 findings taken back by comments"
    )
    (tmp_path / "job.sh").write_text("if true\n")
    assert run(script, capsys, tmp_path)[1].splitlines()[0].startswith("not read: job.sh:2: expected `then`")


NEXT = [
    ("cpu-index/uv.lock", ""),  # alone it has no pyproject.toml
    ("cpu-index/pyproject.toml", "cpu-index"),
    ("mixed-lock", "mixed-lock"),
    ("robot-policy", "robot-policy"),
    ("robot-policy/pyproject.toml", "robot-policy"),
    ("clean-uv", ""),
    ("slurm-train", ""),  # scripts only
    ("pinned-requirements", ""),
    ("poetry-app", ""),
]


@pytest.mark.parametrize(("path", "fixed"), NEXT)
def test_what_can_be_mended_names_the_command(script, capsys, path, fixed):
    shown = run(script, capsys, PROJECTS / path)[1].splitlines()
    expected = [f"next: ./armstage project fix {PROJECTS / fixed} --lock own"] if fixed else []
    assert [line for line in shown if line.startswith("next: ")] == expected


def test_the_path_is_quoted_for_the_shell(script, capsys, tmp_path):
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "a"\ndependencies = ["torch==2.4.1"]\n')
    assert run(script, capsys, folder)[1].splitlines()[-1] == f"next: ./armstage project fix '{folder}' --lock own"


def test_what_was_not_looked_at_is_said(script, capsys, tmp_path):
    (tmp_path / "requirements.txt").write_text("decord\n")
    (tmp_path / "Dockerfile").write_text("RUN pip install decord\n")
    status, out, _err = run(script, capsys, tmp_path)
    assert status == 0
    assert out.splitlines()[:2] == [
        "not read: Dockerfile: the audit has no reader for it",
        "not checked: whether what requirements.txt asks for has aarch64 wheels: that takes a uv.lock",
    ]
    (tmp_path / "requirements-dev.txt").write_text("numpy\n")
    (tmp_path / "setup.cfg").write_text("[options]\ninstall_requires = numpy\n")
    assert "requirements-dev.txt and 2 other files ask for" in run(script, capsys, tmp_path)[1]


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


# ./armstage project fix


def extra(argv):
    return json.loads(argv[argv.index("--extra-vars") + 1])


def test_fix_is_a_run_of_the_playbook(script, tmp_path):
    options = script.parse(
        ["fix", str(tmp_path), "--lock", "shared", "-i", "hosts", "-C", "-D", "--extra", "a", "--limit", "b"]
    )
    argv = script.playbook(options, options.inventory, {})
    assert argv[:2] == ["ansible-playbook", str(ROOT / "playbooks" / "project.yml")]
    assert argv[-6:] == ["-i", "hosts", "--check", "--diff", "--limit", "b"]
    assert extra(argv) == {
        "project_path": str(tmp_path),
        "project_lock": "shared",
        "project_index": "auto",
        "project_selection": ["--extra=a"],
    }


@pytest.mark.skipif(platform.machine() == "aarch64", reason="this machine could be a node")
def test_a_machine_that_asks_no_node_says_which_driver_it_takes(script, monkeypatch, capsys, tmp_path):
    ran = []
    monkeypatch.setattr(script.subprocess, "call", lambda argv: ran.append((argv, Path(argv[-1]).read_text())) or 0)
    assert script.main(["fix", str(tmp_path), "--lock", "own"]) == 0
    ((argv, inventory),) = ran
    assert extra(argv)["armstage_cuda_version"] == "13.0"
    assert json.loads(inventory)["nodes"] == {}
    assert "its driver is taken to run CUDA 13.0" in capsys.readouterr().out
    script.main(["fix", str(tmp_path), "--lock", "own", "--cuda", "12.8"])
    assert extra(ran[1][0])["armstage_cuda_version"] == "12.8"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "arguments", [["fix", "."], ["fix", ".", "--lock", "none"], ["fix"], ["mend", "."], ["audit", ".", "--x"]]
)
def test_usage_errors_have_their_own_status(script, arguments):
    with pytest.raises(SystemExit) as ended:
        script.main(arguments)
    assert ended.value.code == 3


def test_the_playbook_mends_a_lock_on_a_machine_without_nodes(script, tmp_path, capfd, monkeypatch):
    """The whole way, but for the network: a project whose packages lie in a folder."""
    project, wheels = tmp_path / "demo", tmp_path / "wheels"
    make_project(project, wheels)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(ROOT / "ansible.cfg"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setattr(script.platform, "machine", lambda: "x86_64")
    assert script.main(["fix", str(project), "--lock", "own", "--index", "pypi", "--diff"]) == 0
    shown = capfd.readouterr().out
    assert "+    \"torch>=2.11.0,<2.12; platform_machine == 'aarch64'\"," in shown
    assert "-aarch64 torch 2.10.0" in shown
    assert "uv.lock, x86_64: all 2 stay as they are" in shown
    assert 'version = "2.11.0"' in (project / "uv.lock").read_text()
    assert "# ours" in (project / "pyproject.toml").read_text()


def make_project(project, wheels):
    project.mkdir()
    wheels.mkdir()
    for version in ("2.10.0", "2.11.0"):
        for machine in ("aarch64", "x86_64"):
            write_wheel(wheels / f"torch-{version}-py3-none-manylinux_2_28_{machine}.whl", "torch", version, machine)
    (project / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\n'
        'dependencies = [\n    "torch<2.11",  # ours\n]\n\n'
        f'[tool.uv]\nno-index = true\nfind-links = ["{wheels}"]\n'
    )
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "lock", "--quiet", "--python", sys.executable], cwd=project, check=True)


def write_wheel(path, name, version, machine):
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-manylinux_2_28_{machine}\n"
        )
        archive.writestr(f"{info}/RECORD", "")
