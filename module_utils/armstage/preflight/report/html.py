"""The report as one self-contained page: no network, no library, readable without a script and on paper.

What comes from nodes is escaped by ``markup``; should anything slip through, the page's own policy
lets no script run but the one whose hash it names.
"""

from __future__ import annotations

import base64
import hashlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Any

from ..model import BLOCKED, FAIL, INFO, PASS, READY, SKIP, WARN, WARNINGS
from .build import UNKNOWN
from .markup import Markup, element, prose
from .node import KINDS, MARKS, VERDICTS, badge, node

Report = Mapping[str, Any]

SHOWN_ACTIONS, SHOWN_HOSTS = 3, 4

FOLD = 8
"""More ready nodes than this are folded."""


def page(report: Report) -> str:
    """The whole document."""
    style, script = asset("page.css"), asset("page.js")
    allowed = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{allowed}'; base-uri 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"armstage preflight: {headline(report)}"),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("a", "Skip to the nodes", href="#nodes", class_="jump"),
        element("main", _top(report), _actions(report), _nodes(report)),
        _bottom(report),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def asset(name: str) -> str:
    """A file beside this one, also out of a zip file."""
    data = pkgutil.get_data(__package__ or "", name)
    assert data is not None
    return data.decode("utf-8")


def headline(report: Report) -> str:
    counts, total = report["counts"], len(report["hosts"])
    good = counts[READY] + counts[WARNINGS]
    if total == 1:
        return f"{report['hosts'][0]['name']} is {SINGLE[report['verdict']]}"
    return (
        f"{'all' if good == total else good if good else 'none'} of {total} nodes {'is' if good == 1 else 'are'} ready"
    )


SINGLE = {BLOCKED: "blocked", UNKNOWN: "not answering", WARNINGS: "ready, with warnings", READY: "ready"}


def _top(report: Report) -> Markup:
    day, time = report["generated"].rstrip("Z").split("T")
    chips = [
        element("span", element("b", count), VERDICTS[verdict], class_=f"chip {KINDS[verdict]}")
        for verdict, count in report["counts"].items()
        if count
    ]
    return element(
        "header",
        element(
            "p", "armstage preflight", element("time", f"{day} {time} UTC", datetime=report["generated"]), class_="over"
        ),
        element("h1", headline(report)),
        element("p", chips, class_="chips") if len(report["hosts"]) > 1 else None,
        class_=f"top {KINDS[report['verdict']]}",
    )


def _actions(report: Report) -> Markup:
    actions = report["actions"]
    if not actions:
        return element(
            "section", element("h2", "What to fix first"), element("p", "Nothing.", class_="none"), id="first"
        )
    several = len(report["hosts"]) > 1
    rest = actions[SHOWN_ACTIONS:]
    folded = element(
        "details",
        element("summary", f"{len(rest)} more"),
        element("ol", [_action(each, several) for each in rest], start=SHOWN_ACTIONS + 1, class_="todo"),
    )
    return element(
        "section",
        element("h2", "What to fix first"),
        element("ol", [_action(each, several) for each in actions[:SHOWN_ACTIONS]], class_="todo"),
        folded if rest else None,
        id="first",
    )


def _action(action: Mapping[str, Any], several: bool) -> Markup:
    title = f"{action['id']} {action['name']}".strip()
    return element(
        "li",
        element("h3", badge(action["status"]), title, _where(action["hosts"]) if several else None),
        element("p", prose(action["detail"]), class_="detail"),
        element("p", prose(action["hint"]), class_="hint") if action["hint"] else None,
        class_=action["status"].lower(),
    )


def _where(names: Sequence[str]) -> Markup:
    """The nodes of an action: some by name, all on demand."""
    if len(names) <= SHOWN_HOSTS:
        return element("span", ", ".join(names), class_="where")
    return element(
        "details",
        element("summary", f"{', '.join(names[:2])} and {len(names) - 2} more"),
        element("span", ", ".join(names[2:])),
        class_="where",
    )


def _nodes(report: Report) -> Markup:
    hosts = report["hosts"]
    numbered = list(enumerate(hosts))
    needy = [each for each in numbered if each[1]["verdict"] != READY]
    ready = [each for each in numbered if each[1]["verdict"] == READY]
    folded = len(ready) > FOLD and len(hosts) > FOLD
    shown = needy if folded else numbered
    rows = [node(number, host, report["checks"], len(hosts) == 1) for number, host in shown]
    hidden = [node(number, host, report["checks"], False) for number, host in ready] if folded else []
    return element(
        "section",
        element("h2", "Nodes", element("small", f"{len(hosts)}, {len(report['checks'])} checks each"))
        if len(hosts) > 1
        else element("h2", "Checks"),
        _tools(report) if len(hosts) > 1 else None,
        _columns(report),
        element("div", rows, class_="rows"),
        element(
            "details",
            element("summary", f"{len(ready)} nodes are ready"),
            element("div", hidden, class_="rows"),
            class_="fold",
        )
        if folded
        else None,
        element("p", "No node matches.", id="nothing", hidden=True),
        id="nodes",
        style=f"--checks:{max(1, len(report['checks']))}",
    )


def _tools(report: Report) -> Markup:
    """Search and filters: hidden until the script is there to serve them."""
    toggles = [
        element(
            "button",
            VERDICTS[verdict],
            element("b", count),
            type="button",
            data_verdict=KINDS[verdict],
            aria_pressed="true",
        )
        for verdict, count in report["counts"].items()
        if count
    ]
    return element(
        "form",
        element(
            "input",
            type="search",
            id="search",
            placeholder="Search nodes, checks, messages",
            aria_label="Search the nodes",
        ),
        element("span", toggles, class_="toggles", role="group", aria_label="Show nodes that are"),
        element("button", "Open all", type="button", id="open"),
        element("output", id="count", aria_live="polite"),
        id="tools",
        hidden=True,
        role="search",
    )


def _columns(report: Report) -> Markup:
    """The heads of the columns; each filters by its check once the script is there."""
    heads = []
    for check in report["checks"]:
        statuses = [each["status"] for host in report["hosts"] for each in host["checks"] if each["id"] == check["id"]]
        worst = next((status for status in (FAIL, WARN) if status in statuses), "")
        count = statuses.count(worst) if worst else 0
        label = f"{check['id']} {check['name']}" + (f": {worst} on {count} nodes" if worst else "")
        heads.append(
            element(
                "button",
                check["id"],
                element("i", count, aria_hidden="true") if count and len(report["hosts"]) > 1 else None,
                type="button",
                class_=worst.lower() or None,
                title=label,
                aria_label=label,
                aria_pressed="false",
                data_check=check["id"],
            )
        )
    return element(
        "div", element("span", "node", class_="who"), heads, class_="columns", role="group", aria_label="Checks"
    )


def _bottom(report: Report) -> Markup:
    meaning = {
        FAIL: "a run would fail or do harm",
        WARN: "a run may be slow or fail later",
        INFO: "to know",
        PASS: "looked at and right",
        SKIP: "not judged here, and why",
    }
    legend = [
        element(
            "span",
            element("span", MARKS[status], class_=f"cell {status.lower()}", aria_hidden="true"),
            f"{status}: {words}",
        )
        for status, words in meaning.items()
    ]
    return element(
        "footer",
        element("p", legend, class_="legend"),
        element("p", f"Made from report.json (schema {report['schema']}). Nothing here is loaded from anywhere."),
    )
