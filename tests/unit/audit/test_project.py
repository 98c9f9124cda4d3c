"""Which files are read, what can't be, and the shape of what comes out."""

import pytest
from ansible.module_utils.armstage.audit import project
from ansible.module_utils.armstage.audit.facts import Facts, read_compatibility
from ansible.module_utils.armstage.errors import ArmstageError

FACTS = Facts(read_compatibility())


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo\n')
    (tmp_path / "old.py").write_text("import torchvision\nprint 'hello'\n")
    (tmp_path / "job.sh").write_text("uv sync --torch-backend=auto\nif true; then\n")
    (tmp_path / "requirements.txt").write_bytes(b"torch==2.4.1 \xff\xfe\n")
    found = project.audit(str(tmp_path), FACTS)
    assert [(unread.file, unread.line) for unread in found.unread] == [
        ("job.sh", 3),
        ("old.py", 2),
        ("pyproject.toml", 2),
    ]
    assert all(unread.reason for unread in found.unread)
    assert found.findings == ()


def test_folders_of_environments_and_builds_are_not_read(tmp_path):
    bad = "torch==2.4.1\n"
    for folder in (".venv", "venv", "node_modules/x", "build", "dist", ".git", "mine", "src"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "requirements.txt").write_text(bad)
    (tmp_path / "mine" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "link").symlink_to(tmp_path / "src", target_is_directory=True)
    (tmp_path / "linked.txt").symlink_to(tmp_path / "src" / "requirements.txt")
    found = project.audit(str(tmp_path), FACTS)
    assert [finding.file for finding in found.findings] == ["src/requirements.txt"]


def test_one_file_can_be_audited(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("torch==2.4.1\n")
    (finding,) = project.audit(str(path), FACTS).findings
    assert (finding.file, finding.line, finding.rule, finding.level) == ("requirements.txt", 1, "torch-bounds", "error")


def test_a_script_is_known_by_its_first_line(tmp_path):
    for name, first in (
        ("run", "#!/bin/sh"),
        ("go", "#!/usr/bin/env -S bash -e"),
        ("data", "uv sync"),
        ("x", "#!/usr/bin/python3"),
    ):
        (tmp_path / name).write_text(f"{first}\nuv sync --torch-backend=auto\n")
    assert [finding.file for finding in project.audit(str(tmp_path), FACTS).findings] == ["go", "run"]


def test_only_the_rules_asked_for(tmp_path):
    (tmp_path / "requirements.txt").write_text("torch==2.4.1\nflash-attn\n")
    found = project.audit(str(tmp_path), FACTS, ["flash-attn-build"])
    assert [finding.rule for finding in found.findings] == ["flash-attn-build"]


def test_what_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ArmstageError, match="There is no project at `/none`"):
        project.audit("/none", FACTS)
    with pytest.raises(ArmstageError, match="There is no rule `flash`") as error:
        project.audit(str(tmp_path), FACTS, ["flash"])
    assert "flash-attn-build" in error.value.hint


def test_an_empty_project_has_nothing(tmp_path):
    found = project.audit(str(tmp_path), FACTS)
    assert found.result() == {"findings": [], "unread": [], "read": {}, "ignored": 0}


def test_deep_nesting_is_unread_and_not_a_crash(tmp_path):
    (tmp_path / "deep.sh").write_text("echo " + "$(echo " * 3000 + ")" * 3000)
    (tmp_path / "pyproject.toml").write_text("x = " + "[" * 5000 + "]" * 5000)
    found = project.audit(str(tmp_path), FACTS)
    assert {unread.file for unread in found.unread} == {"deep.sh", "pyproject.toml"}


@pytest.mark.parametrize("text", ["\ufeff[project]\r\ndependencies = [\r\n  'torch==2.4.1',\r\n]\r\n"])
def test_windows_line_ends_and_a_byte_order_mark_keep_the_lines(tmp_path, text):
    (tmp_path / "pyproject.toml").write_bytes(text.encode())
    (finding,) = project.audit(str(tmp_path), FACTS).findings
    assert (finding.line, finding.text) == (3, "'torch==2.4.1',")


UNREAD = [
    ("Dockerfile", "RUN pip install torch\n", True),
    ("docker/Dockerfile.gpu", "RUN uv sync\n", True),
    ("train.dockerfile", "FROM --platform=linux/amd64 x\n", True),
    ("Containerfile", "RUN conda create x\n", True),
    ("Makefile", "run:\n\tuv run x\n", True),
    ("a.ipynb", '{"cells": [{"source": ["import torchvision"]}]}', True),
    ("Pipfile", '[packages]\ntorch = "*"\n', True),
    ("poetry.lock", 'name = "torch"\n', True),
    ("Makefile", "run:\n\tcc -o x x.c\n", False),
    ("Dockerfile", "FROM scratch\nCOPY x /x\n", False),
    ("README.md", "pip install torch\n", False),
]


@pytest.mark.parametrize(("name", "text", "said"), UNREAD)
def test_what_installs_and_has_no_reader_is_said(tmp_path, name, text, said):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    found = project.audit(str(tmp_path), FACTS)
    assert [(unread.file, unread.line) for unread in found.unread] == ([(name, 0)] if said else [])


LOCK = 'version = 1\nrequires-python = ">=3.12"\n'
UNLOCKED = [
    ({"requirements.txt": "decord\n"}, ["requirements.txt"]),
    ({"a/requirements.txt": "decord\n", "b/requirements.txt": "numpy\n", "b/uv.lock": LOCK}, ["a/requirements.txt"]),
    ({"pyproject.toml": '[project]\ndependencies = ["decord"]\n'}, ["pyproject.toml"]),
    ({"environment.yml": "dependencies:\n  - pip:\n    - decord\n"}, ["environment.yml"]),
    ({"packages/a/pyproject.toml": '[project]\ndependencies = ["decord"]\n', "uv.lock": LOCK}, []),
    ({"requirements.txt": "torch==2.11.0\n"}, []),  # the rules know its wheels
    ({"requirements.txt": "decord; platform_machine == 'x86_64'\n"}, []),
    ({"constraints.txt": "decord==0.6.0\n"}, []),
    ({"pyproject.toml": '[build-system]\nrequires = ["hatchling"]\n'}, []),
    ({"a.sh": "echo\n"}, []),
]


@pytest.mark.parametrize(("files", "expected"), UNLOCKED)
def test_requirements_without_a_lock_are_said(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(project.audit(str(tmp_path), FACTS).unlocked) == expected
    assert project.audit(str(tmp_path), FACTS, ["torch-bounds"]).unlocked == ()


IGNORES = [
    ("torch==2.4.1  # armstage: ignore[torch-bounds] image", [], 1),
    ("# armstage: ignore[torch-bounds]: image\ntorch==2.4.1", [], 1),
    ("# armstage: ignore[torch-bounds, flash-attn-build] - image\n# more\ntorch==2.4.1", [], 1),
    ("# armstage: ignore[torch-bounds] image\n\ntorch==2.4.1", ["torch-bounds"], 0),
    ("# armstage: ignore[torch-bounds] image\nnumpy\ntorch==2.4.1", ["torch-bounds"], 0),
    ("numpy # armstage: ignore[torch-bounds] image\ntorch==2.4.1", ["torch-bounds"], 0),
    ("torch==2.4.1  # armstage: ignore[torch-bounds]", ["torch-bounds", "ignore-without-effect"], 0),
    ("torch==2.4.1  # armstage: ignore[torch-bounds] -", ["torch-bounds", "ignore-without-effect"], 0),
    ("torch==2.4.1  # armstage: ignore image", ["torch-bounds", "ignore-without-effect"], 0),
    ("torch==2.4.1  # armstage: ignore[] image", ["torch-bounds", "ignore-without-effect"], 0),
    ("torch==2.4.1  # armstage: ignore[no-such] image", ["torch-bounds", "ignore-without-effect"], 0),
    ("torch==2.4.1  # armstage: ignore[flash-attn-build] image", ["torch-bounds"], 0),
    ("torch==2.4.1  # armstage ignore[torch-bounds] image", ["torch-bounds"], 0),
]


@pytest.mark.parametrize(("text", "rules", "ignored"), IGNORES)
def test_an_ignore_needs_its_rule_its_place_and_a_reason(text, rules, ignored):
    found = project.audit_texts({"requirements.txt": text + "\n"}, FACTS)
    assert [finding.rule for finding in found.findings] == rules
    assert found.ignored == ignored
