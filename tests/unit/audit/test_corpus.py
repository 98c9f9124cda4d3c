"""Small projects with planted faults, each found at its line, and clean ones without a finding."""

import pytest
import yaml
from ansible.module_utils.armstage.audit.facts import Facts, node_facts, read_compatibility
from ansible.module_utils.armstage.audit.project import audit, audit_texts
from ansible.module_utils.armstage.audit.rules import CATALOGUE

from tests.conftest import FIXTURES

PROJECTS = FIXTURES / "projects"
EXPECTED = yaml.safe_load((PROJECTS / "expected.yml").read_text())


def findings(name, cuda=""):
    found = audit(str(PROJECTS / name), Facts(read_compatibility(), node_facts({}, cuda)))
    assert not found.unread
    return [f"{finding.file}:{finding.line} {finding.rule}" for finding in found.findings]


@pytest.mark.parametrize("name", sorted(path.name for path in PROJECTS.iterdir() if path.is_dir()))
def test_every_fault_is_found_at_its_line_and_nothing_else(name):
    assert sorted(findings(name)) == sorted(EXPECTED[name])


def test_the_corpus_is_large_enough():
    clean = [name for name in EXPECTED if name.startswith("clean-")]
    assert len(clean) >= 6
    assert len(EXPECTED) - len(clean) >= 12
    assert all(EXPECTED[name] == [] for name in clean)


def test_every_rule_is_planted_somewhere():
    planted = {line.split()[1] for lines in EXPECTED.values() for line in lines}
    assert {rule.id for rule in CATALOGUE} <= planted


@pytest.mark.parametrize(
    ("cuda", "expected"),
    [
        ("12.8", []),  # cu128 is the index for that driver
        ("13.0", ["pyproject.toml:12 index-fixed"]),
        ("12.6", ["pyproject.toml:12 index-fixed"]),
    ],
)
def test_an_index_is_held_against_the_driver(cuda, expected):
    found = findings("mixed-lock", cuda)
    assert [line for line in found if line.endswith("index-fixed")] == expected


def rules(texts, cuda):
    found = audit_texts(texts, Facts(read_compatibility(), cuda))
    return [finding.rule for finding in found.findings]


def test_bounds_are_held_against_the_driver():
    newer = {"requirements.txt": "torch>=2.12\n"}
    assert rules(newer, {}) == []
    assert rules(newer, node_facts({}, "13.2")) == []
    assert rules(newer, node_facts({}, "13.0")) == ["torch-without-index"]  # PyPI's newest is for CUDA 13.2
    hopper = {"status": "ok", "arch": "aarch64", "cuda_version": "12.8", "gpus": [{"compute_capability": "9.0"}]}
    gb200 = {**hopper, "gpus": [{"compute_capability": "10.0"}]}
    assert rules(newer, hopper) == ["torch-without-index"]  # cu126 holds it
    assert rules(newer, gb200) == ["torch-bounds", "torch-without-index"]
    assert rules({"requirements.txt": "torch==2.11.0\n"}, node_facts({}, "13.0")) == []


def test_facts_of_a_host_that_is_not_aarch64_are_not_used():
    assert node_facts({"arch": "x86_64", "status": "ok", "cuda_version": "12.4"}, "") == {}
