"""What a run staged and proved, or in check mode would, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COLUMNS = ("component", "version", "source", "size", "sha256")


@dataclass(frozen=True)
class Line:
    """A line of the summary; ``color`` is one of Ansible's, or None."""

    text: str
    color: str | None = None


@dataclass
class Run:
    """What results of tasks said: gathered as they come, told at the end. With ``check`` they say what would be."""

    check: bool = False
    changed: bool = False
    releases: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    plans: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    proofs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    since: dict[str, Sequence[str]] = field(default_factory=dict)

    def note(self, host: str, result: Mapping[str, Any]) -> None:
        """Keep what matters of one task's result on one host."""
        self.changed = self.changed or bool(result.get("changed"))
        release = result.get("release")
        if isinstance(release, Mapping) and release.get("path"):
            self.releases = [
                known for known in self.releases if (known[0], known[1]["path"]) != (host, release["path"])
            ]
            self.releases.append((host, {**release, "changed": bool(result.get("changed"))}))
        for source in result.get("skipped_sources") or ():
            self.skipped[source["url"]] = source["reason"]
        facts = result.get("ansible_facts")
        if isinstance(facts, Mapping) and isinstance(facts.get("armstage_plan"), Mapping):
            self.plans[host] = facts["armstage_plan"]
        if "proof" in result:
            self.proofs[host] = result
        if "since_last_run" in result:
            self.since[host] = result["since_last_run"]


def lines(run: Run, failed: Sequence[str] = ()) -> list[Line]:
    """The whole summary; empty when nothing was staged or proved."""
    if not run.releases and not run.proofs:
        return []
    return [
        *_staged(run),
        *_since(run),
        *_unreachable(run),
        *_chosen(run),
        *_proved(run),
        *_next(run, failed),
    ]


def _staged(run: Run) -> Iterator[Line]:
    if not run.releases:
        return
    fate = _fate if run.check else _took
    rows = [(*_row(release), fate(release)) for _host, release in run.releases]
    heading, *lines = _aligned([(*COLUMNS, "would be" if run.check else "took"), *rows])
    yield Line("")
    yield Line(heading, "bright blue")
    for (_host, release), line in zip(run.releases, lines):
        yield Line(line, "yellow" if release["changed"] else "green")
    if not run.check:
        yield _counted(run)


def _counted(run: Run) -> Line:
    machines: dict[str, int] = {}
    for _host, release in run.releases:
        for machine, count in release.get("elf", {}).items():
            machines[machine] = machines.get(machine, 0) + count
    counted = ", ".join(f"{count} are {machine}" for machine, count in sorted(machines.items()))
    return Line(f"ELF files staged: {sum(machines.values())}; {counted or 'none'}; none was executed to stage them")


def _row(release: Mapping[str, Any]) -> tuple[str, ...]:
    source = release.get("source", {})
    return (
        str(release["name"]),
        str(release["version"]),
        str(source.get("kind", "")),
        bytes_text(release["size"]) if release.get("size") else "",
        str(source.get("sha256") or release.get("digest", ""))[:12],
    )


def _took(release: Mapping[str, Any]) -> str:
    return f"{release.get('seconds', 0):.1f} s" if release["changed"] else "unchanged"


def _fate(release: Mapping[str, Any]) -> str:
    """What a run would do; a release that is not there yet has no size."""
    if not release["changed"]:
        return "unchanged"
    return "brought up to date" if release.get("size") else "staged"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table, its heading first, without the columns that have nothing below it."""
    columns = [column for column in zip(*rows) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in zip(*columns)]


def _since(run: Run) -> Iterator[Line]:
    for sentences in run.since.values():
        if sentences:
            heading = "A run would note, since the last one:" if run.check else "Since the last run:"
            yield Line(heading, "bright blue")
        for sentence in sentences:
            yield Line(f"  {sentence}")


def _unreachable(run: Run) -> Iterator[Line]:
    for url, reason in run.skipped.items():
        yield Line(f"not used: {url}: {reason}", "bright purple")


def _chosen(run: Run) -> Iterator[Line]:
    for plan in run.plans.values():
        for warning in plan.get("warnings", ()):
            yield Line(f"WARN: {warning}", "bright purple")
        for node, choice in plan["nodes"].items():
            yield Line(f"{node}: {choice['tag']}: {choice['reason']}")
            if choice.get("uv_auto"):
                yield Line(f"{node}: {choice['uv_auto']['reason']}")


def _proved(run: Run) -> Iterator[Line]:
    for host, result in run.proofs.items():
        yield Line(f"{host}: {result['message']}", "green" if result["ok"] else "red")


def _next(run: Run, failed: Sequence[str]) -> Iterator[Line]:
    yield Line("")
    if failed:
        yield Line(f"Failed on {', '.join(failed)}: the message and its hint stand above the recap", "red")
        return
    if run.check and run.changed:
        yield Line("Nothing was changed. Next: the same without --check")
        return
    roots = dict.fromkeys(plan["root"] for plan in run.plans.values())
    for root in roots:
        yield Line(f"Next: in a job script, on the node:  . {root}/env.sh && python your_program.py")


def bytes_text(count: float) -> str:
    """4939212390 -> `4.9 GB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"
