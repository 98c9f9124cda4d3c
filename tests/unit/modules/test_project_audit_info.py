"""project_audit_info through its JSON, and as a task."""

import json
import subprocess
import sys
from pathlib import Path

import project_audit_info

ROOT = Path(__file__).resolve().parents[3]


def test_findings_are_plain(run_module, fixtures):
    result = run_module(project_audit_info, path=str(fixtures / "projects" / "robot-policy"))
    assert result["changed"] is False
    assert set(result["findings"][0]) == {"rule", "level", "file", "line", "text", "why", "fix"}
    assert [(finding["line"], finding["rule"]) for finding in result["findings"]][:2] == [
        (8, "torch-bounds"),
        (9, "marker-excludes-aarch64"),
    ]
    assert result["read"] == {"pyproject": 1}
    assert result["unread"] == []


def test_check_mode_is_the_same(run_module, fixtures):
    options = {"path": str(fixtures / "projects" / "slurm-train"), "rules": ["conda-leak"]}
    result = run_module(project_audit_info, check=True, diff=True, **options)
    assert result == run_module(project_audit_info, **options)
    assert {finding["rule"] for finding in result["findings"]} == {"conda-leak"}


def test_the_driver_of_the_node(run_module, fixtures):
    path = str(fixtures / "projects" / "mixed-lock")
    facts = {"status": "ok", "arch": "aarch64", "cuda_version": "12.8", "gpus": [{"compute_capability": "10.0"}]}

    def fixed(**options):
        found = run_module(project_audit_info, path=path, rules=["index-fixed"], **options)["findings"]
        return [finding["why"] for finding in found]

    assert fixed(cuda=facts) == []
    assert fixed(cuda_version="12.8") == []
    assert "cu130 is the index" in fixed(cuda_version="13.0")[0]
    assert "ends at" in fixed()[0] or "end at torch 2.11.0" in fixed()[0]
    assert fixed(cuda={**facts, "arch": "x86_64"}) == fixed()


def test_failures(run_module, tmp_path):
    result = run_module(project_audit_info, path=str(tmp_path / "none"))
    assert result["failed"]
    assert result["msg"] == f"There is no project at `{tmp_path / 'none'}`"
    assert result["hint"]
    assert run_module(project_audit_info, path=str(tmp_path), rules=["x"])["msg"] == "There is no rule `x`"


def test_odd_names_and_bytes_are_returned(run_module, tmp_path):
    (tmp_path / b"odd\xff".decode("utf-8", "surrogateescape")).mkdir()
    odd = tmp_path / b"odd\xff".decode("utf-8", "surrogateescape") / "requirements.txt"
    odd.write_bytes(b"torch==2.4.1 # \xff\n")
    (finding,) = run_module(project_audit_info, path=str(tmp_path))["findings"]
    assert finding["file"] == "odd\\udcff/requirements.txt"
    assert finding["line"] == 1


def test_as_a_task_it_has_the_data_and_the_facts_of_the_host(fixtures, tmp_path):
    playbook = tmp_path / "play.yml"
    facts = {"status": "ok", "arch": "aarch64", "cuda_version": "12.8", "gpus": []}
    task = {
        "project_audit_info": {"path": str(fixtures / "projects" / "mixed-lock"), "rules": ["index-fixed"]},
        "register": "found",
    }
    show = {"ansible.builtin.debug": {"msg": "{{ found.findings | length }}"}}
    remember = {"ansible.builtin.set_fact": {"cuda": facts, "cacheable": True}}
    plays = [{"hosts": "localhost", "gather_facts": False, "tasks": [task, show, remember, task, show]}]
    playbook.write_text(json.dumps(plays))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    argv = [program, "-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}", playbook]
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line.strip() for line in ran.stdout.splitlines() if '"msg"' in line] == ['"msg": 1', '"msg": 0']
