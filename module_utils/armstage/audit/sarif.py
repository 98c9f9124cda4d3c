"""An audit as SARIF 2.1.0, which code review tools show beside the lines (OASIS, 2020-03-27)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from .ignore import RULE
from .project import Audit, Finding
from .rules import CATALOGUE

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
RULES_PAGE = "docs/rules.md"


def document(audit: Audit) -> dict[str, Any]:
    rules = (*CATALOGUE, RULE)
    position = {rule.id: number for number, rule in enumerate(rules)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "armstage",
                        "rules": [
                            {
                                "id": rule.id,
                                "shortDescription": {"text": rule.title},
                                "fullDescription": {"text": f"{rule.why}."},
                                "help": {"text": f"{rule.fix}. See {RULES_PAGE}."},
                                "defaultConfiguration": {"level": rule.level},
                            }
                            for rule in rules
                        ],
                    }
                },
                "originalUriBaseIds": {"PROJECT": {"description": {"text": "The project's folder."}}},
                "results": [_result(finding, position[finding.rule]) for finding in audit.findings],
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [
                            {
                                "level": "warning",
                                "message": {"text": f"Not read: {unread.reason}"},
                                "locations": [_location(unread.file, max(unread.line, 1))],
                            }
                            for unread in audit.unread
                        ],
                    }
                ],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _result(finding: Finding, position: int) -> dict[str, Any]:
    return {
        "ruleId": finding.rule,
        "ruleIndex": position,
        "level": finding.level,
        "message": {"text": f"{finding.why}. {finding.fix}."},
        "locations": [_location(finding.file, finding.line, finding.text)],
    }


def _location(file: str, line: int, text: str = "") -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": line}
    if text:
        region["snippet"] = {"text": text}
    return {"physicalLocation": {"artifactLocation": {"uri": quote(file), "uriBaseId": "PROJECT"}, "region": region}}
