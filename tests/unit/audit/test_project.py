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
