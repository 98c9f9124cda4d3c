"""report.json: what the preflight of every host said, and from that what to do first. Plain JSON types.

The shape is that of docs/report.schema.json; ``SCHEMA`` rises when it changes for readers.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..model import BLOCKED, FAIL, READY, WARN, WARNINGS

SCHEMA = 1

UNKNOWN = "unknown"
"""The verdict of a host that gave no answer: neither ready nor blocked, and never counted as ready."""

GRAVEST_FIRST = (BLOCKED, UNKNOWN, WARNINGS, READY)

PAGE_CACHE_KEYS = ("changed", "helped", "freed_bytes", "message", "before", "after")

Results = Mapping[str, Mapping[str, Any]]
"""Host -> what preflight_info returned; of a host that gave no answer ``msg``, as Ansible says it, and with it maybe
``hint``, and ``asked`` False where that was meant to be so."""


def report(results: Results, generated: datetime.datetime | None = None) -> dict[str, Any]:
    """The whole report, the hosts in most need first."""
    hosts = sorted((host(name, result) for name, result in results.items()), key=_need)
    verdicts = [each["verdict"] for each in hosts]
    now = generated or datetime.datetime.now(datetime.timezone.utc)
    return {
        "schema": SCHEMA,
        "generated": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "verdict": next((verdict for verdict in GRAVEST_FIRST if verdict in verdicts), UNKNOWN),
        "counts": {verdict: verdicts.count(verdict) for verdict in GRAVEST_FIRST},
        "checks": columns(hosts),
        "actions": actions(hosts),
        "hosts": hosts,
    }


def text(report: Mapping[str, Any]) -> str:
    """The content of report.json."""
    return json.dumps(report, indent=2, sort_keys=True) + "\n"


def host(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """One host; ``error`` says why it has no checks and ``hint`` what to do, else they are empty."""
    answered = "checks" in result and "verdict" in result
    dropped = result.get("page_cache")
    return {
        "name": name,
        "verdict": result["verdict"] if answered else UNKNOWN,
        "error": "" if answered else str(result.get("msg") or "It gave no answer"),
        "hint": "" if answered else str(result.get("hint") or "Reach the node, and run again"),
        "asked": bool(result.get("asked", True)),
        "checks": [dict(check) for check in result["checks"]] if answered else [],
        "host": dict(result.get("host") or {}),
        "page_cache": {key: dropped[key] for key in PAGE_CACHE_KEYS if key in dropped} if dropped else None,
    }


def _need(host: Mapping[str, Any]) -> tuple[int, int, int, str]:
    counts = [sum(check["status"] == status for check in host["checks"]) for status in (FAIL, WARN)]
    return GRAVEST_FIRST.index(host["verdict"]), -counts[0], -counts[1], natural(host["name"])


def natural(name: str) -> str:
    """A name as people order it: node9 before node10."""
    return re.sub(r"\d+", lambda number: number[0].zfill(12), name)


def columns(hosts: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The checks that any host ran, in the order of their numbers."""
    names = {check["id"]: check["name"] for host in hosts for check in host["checks"]}
    return [
        {"id": number, "name": names[number]} for number in sorted(names, key=lambda each: (each[0], int(each[1:])))
    ]


def actions(hosts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is to be done, the gravest and widest first: one entry for all hosts on which the same is to be done."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for host in hosts:
        if host["error"]:
            status, what = (FAIL, "no answer") if host["asked"] else (WARN, "not asked")
            entry = _action(found, status, "", what, host["error"], host["hint"])
            entry["hosts"].append(host["name"])
        for check in host["checks"]:
            if check["status"] in (FAIL, WARN):
                entry = _action(found, check["status"], check["id"], check["name"], check["detail"], check["hint"])
                entry["hosts"].append(host["name"])
    return sorted(
        found.values(),
        key=lambda each: (each["status"] != FAIL, -len(each["hosts"]), each["id"][:1] or "Z", int(each["id"][1:] or 0)),
    )


def _action(
    found: dict[tuple[str, str, str], dict[str, Any]], status: str, number: str, name: str, detail: str, hint: str
) -> dict[str, Any]:
    entry = {"status": status, "id": number, "name": name, "detail": detail, "hint": hint, "hosts": []}
    return found.setdefault((status, number, hint), entry)
