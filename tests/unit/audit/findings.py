"""What the audit finds in texts: `line rule`, in the order of the lines."""

from ansible.module_utils.armstage.audit.facts import Facts, read_compatibility
from ansible.module_utils.armstage.audit.project import audit_texts

FACTS = Facts(read_compatibility())


def rules(**texts):
    named = {name.replace("__", "/").replace("_", ".", 1): text for name, text in texts.items()}
    return [f"{finding.line} {finding.rule}" for finding in audit_texts(named, FACTS).findings]


def shell(text, name="run.sh"):
    found = audit_texts({name: text}, FACTS)
    assert not found.unread
    return [f"{finding.line} {finding.rule}" for finding in found.findings]


def python(text):
    found = audit_texts({"a.py": text}, FACTS)
    assert not found.unread
    return [f"{finding.line} {finding.rule}" for finding in found.findings]
