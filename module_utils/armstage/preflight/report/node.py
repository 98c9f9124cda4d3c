"""One node of the page: a row of the matrix, and everything about the node behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..model import BLOCKED, FAIL, INFO, PASS, READY, SKIP, WARN, WARNINGS
from ..thresholds import THRESHOLDS
from . import plot
from .build import UNKNOWN
from .markup import Markup, element, prose

MARKS = {FAIL: "✕", WARN: "!", INFO: "i", PASS: "✓", SKIP: "·"}

VERDICTS = {BLOCKED: "blocked", UNKNOWN: "no answer", WARNINGS: "with warnings", READY: "ready"}

KINDS = {BLOCKED: "fail", UNKNOWN: "lost", WARNINGS: "warn", READY: "pass"}
"""Classes of the page, by verdict."""

ORDER = (FAIL, WARN, INFO, PASS, SKIP)


def badge(status: str) -> Markup:
    return element("span", status, class_=f"badge {status.lower()}")


def node(number: int, host: Mapping[str, Any], columns: Sequence[Mapping[str, str]], opened: bool) -> Markup:
    checks = {check["id"]: check for check in host["checks"]}
    cells = [_cell(number, column, checks.get(column["id"])) for column in columns]
    wanting = [check for check in host["checks"] if check["status"] in (FAIL, WARN)]
    spoken = ", ".join(f"{check['id']} {check['status']}" for check in wanting)
    kind = KINDS[host["verdict"]]
    verdict = f"{VERDICTS[host['verdict']]}{', ' + spoken if spoken else ''}"
    return element(
        "details",
        element(
            "summary",
            element(
                "span",
                element("span", host["name"], class_="name"),
                element("span", about(host), class_="about"),
                element("span", f", {verdict}", class_="spoken"),
                class_="who",
            ),
            cells,
        ),
        element("div", _inside(number, host), class_="inside"),
        class_=f"node {kind}",
        id=f"n{number}",
        data_verdict=kind,
        data_wanting=" ".join(check["id"] for check in wanting),
        open=opened or None,
    )


def about(host: Mapping[str, Any]) -> str:
    """A node in a few words: its GPUs and driver, or why it says nothing."""
    if host["error"]:
        return "no answer" if host["asked"] else "not asked"
    cuda = host["host"].get("cuda") or {}
    names = [gpu.get("name") or "GPU" for gpu in cuda.get("gpus", ())]
    gpus = [f"{names.count(name)}x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    driver = f"driver {cuda['kernel_driver']}" if cuda.get("kernel_driver") else "no driver" if cuda else ""
    return ", ".join(part for part in (*gpus, driver) if part)


def _cell(number: int, column: Mapping[str, str], check: Mapping[str, Any] | None) -> Markup:
    status = check["status"] if check else SKIP
    said = f"{column['id']} {column['name']}: {status if check else 'not run'}"
    return element(
        "span",
        MARKS[status],
        class_=f"cell {status.lower()}",
        title=f"{said}. {check['detail']}" if check else said,
        data_go=f"n{number}-{column['id']}",
        aria_hidden="true",
    )


def _inside(number: int, host: Mapping[str, Any]) -> Iterable[Markup]:
    if host["error"]:
        yield element("p", prose(host["error"]), class_="detail")
        yield element("p", prose(host["hint"]), class_="hint")
        return
    by_status = {status: [check for check in host["checks"] if check["status"] == status] for status in ORDER}
    open_ones = by_status[FAIL] + by_status[WARN]
    quiet = by_status[INFO] + by_status[PASS] + by_status[SKIP]
    if open_ones:
        yield element("ul", [_check(number, check) for check in open_ones], class_="checks")
    counted = ", ".join(
        f"{len(by_status[status])} {word}"
        for status, word in ((PASS, "passed"), (INFO, "for information"), (SKIP, "not applicable"))
        if by_status[status]
    )
    if quiet:
        listed = element("ul", [_check(number, check) for check in quiet], class_="checks")
        yield element("details", element("summary", counted), listed, class_="quiet", open=not open_ones or None)
    figures = list(_figures(host))
    if figures:
        yield element("div", figures, class_="figures")
    yield from _staged(host)
    yield from _facts(host)


def _check(number: int, check: Mapping[str, Any]) -> Markup:
    status = check["status"].lower()
    return element(
        "li",
        element("h4", badge(check["status"]), element("b", check["id"]), check["name"]),
        element("p", prose(check["detail"]), class_="detail"),
        element("p", prose(check["hint"]), class_="hint")
        if check["hint"] and check["status"] in (FAIL, WARN, SKIP)
        else None,
        element("p", "source: ", prose(check["source"]), class_="source") if check["source"] else None,
        class_=status,
        id=f"n{number}-{check['id']}",
        tabindex="-1",
    )


def _figures(host: Mapping[str, Any]) -> Iterable[Markup]:
    series = next((check["data"]["samples"] for check in host["checks"] if check["data"].get("samples")), None)
    if series:
        spark = (host["host"].get("cuda") or {}).get("platform") == "spark"
        yield plot.samples(series, {"sm_mhz": THRESHOLDS["clock_floor"]["spark_mhz"]} if spark else {})
    dropped = host["page_cache"]
    now = host["host"].get("memory")
    if dropped and "before" in dropped and "after" in dropped:
        yield plot.memory([("before dropping the page cache", dropped["before"]), ("after", dropped["after"])])
    elif now:
        yield plot.memory([("now", now)])


def _staged(host: Mapping[str, Any]) -> Iterable[Markup]:
    """What is staged, each with its size as a bar, when it was staged, and how long that took."""
    staged = host["host"].get("staged") or {}
    releases = staged.get("releases") or []
    if not releases:
        return
    largest = max(release["size"] or 1 for release in releases)
    rows = [
        element(
            "tr",
            element("th", release["name"], scope="row"),
            element("td", release["version"]),
            element(
                "td",
                element("span", style=f"width:{100 * (release['size'] or 0) / largest:.1f}%", class_="size"),
                decimal(release["size"] or 0),
                class_="number",
            ),
            element("td", duration(release.get("seconds"))),
            element("td", str(release["created"])[:16].replace("T", " ")),
            element("td", (release["source"] or {}).get("kind", "")),
            element("td", element("code", str((release["source"] or {}).get("sha256") or release["digest"])[:12])),
        )
        for release in releases
    ]
    heads = [
        element("th", name, scope="col")
        for name in ("component", "version", "size", "took", "staged (UTC)", "source", "sha256")
    ]
    yield element(
        "details",
        element("summary", "Staged in ", element("code", staged["root"])),
        element(
            "div",
            element("table", element("thead", element("tr", heads)), element("tbody", rows), class_="staged"),
            class_="scroll",
        ),
        class_="quiet",
    )


def decimal(count: float) -> str:
    """4791221245 -> ``4.79 GB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def duration(seconds: float | None) -> str:
    """74.2 -> ``1 min 14 s``; empty where a root is older than the record of it."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _facts(host: Mapping[str, Any]) -> Iterable[Markup]:
    """Every value a check went by, and where it stood."""
    described = host["host"]
    cuda = described.get("cuda") or {}
    rows = [
        ("kernel", described.get("kernel"), "/proc/sys/kernel/osrelease"),
        ("glibc", described.get("glibc"), "platform.libc_ver()"),
        (
            "environment",
            (described.get("environment") or {}).get("path"),
            (described.get("environment") or {}).get("from"),
        ),
    ]
    sources = cuda.get("sources") or {}
    for name in ("status", "kernel_driver", "user_driver", "flavour", "cuda_version", "platform"):
        origin = sources.get(name) or {}
        rows.append(
            (
                name.replace("_", " "),
                cuda.get(name),
                ": ".join(filter(None, (origin.get("source"), origin.get("line")))),
            )
        )
    for check in host["checks"]:
        rows += [(fact["name"], fact["value"], fact["source"]) for fact in check["facts"]]
    known = [row for row in dict.fromkeys(rows) if row[1]]
    if known:
        body = [
            element(
                "tr", element("th", name, scope="row"), element("td", value), element("td", source, class_="source")
            )
            for name, value, source in known
        ]
        heads = [element("th", name, scope="col") for name in ("fact", "value", "read from")]
        yield element(
            "details",
            element("summary", f"{len(known)} facts and where each was read"),
            element(
                "div", element("table", element("thead", element("tr", heads)), element("tbody", body)), class_="scroll"
            ),
            class_="quiet",
        )
