"""Every rule finds its own bad example and leaves its good one alone; the page shows what the code says."""

import importlib.util
from pathlib import Path

import pytest
from ansible.module_utils.armstage.audit.facts import Facts, node_facts, read_compatibility
from ansible.module_utils.armstage.audit.ignore import RULE
from ansible.module_utils.armstage.audit.model import ERROR, WARNING
from ansible.module_utils.armstage.audit.project import audit_texts
from ansible.module_utils.armstage.audit.rules import CATALOGUE

ROOT = Path(__file__).resolve().parents[3]
RULES = (*CATALOGUE, RULE)


def found(rule, example):
    audit = audit_texts(example, Facts(read_compatibility(), node_facts({}, rule.cuda)))
    assert not audit.unread
    return [finding for finding in audit.findings if finding.rule == rule.id]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_finds_its_bad_example_once(rule):
    (finding,) = found(rule, rule.bad)
    assert finding.file in rule.bad
    assert finding.text == rule.bad[finding.file].splitlines()[finding.line - 1].strip()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_leaves_its_good_example_alone(rule):
    assert found(rule, rule.good) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_speaks_in_sentences(rule):
    assert rule.level in (ERROR, WARNING)
    for text in (rule.title, rule.why, rule.fix):
        assert text
        assert not text.endswith(".")


def test_names_are_unique():
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_the_page_is_what_the_rules_say():
    spec = importlib.util.spec_from_file_location("rules_page", ROOT / "scripts" / "rules_page.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.page(), "write it again: ./armstage exec python scripts/rules_page.py"
