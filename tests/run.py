"""Every suite of the project, in the order in which they fail fastest; ends with the totals over all."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "module_utils")]

from lab import apt, prerequisites, toolchain  # noqa: E402
from lab.host import Host, read_host  # noqa: E402
from lab.prerequisites import Need  # noqa: E402

from armstage.command_line import Parser  # noqa: E402
from armstage.errors import ArmstageError  # noqa: E402

NODE_CODE = ["library", "module_utils"]
CONTROL_CODE = [*(f"{kind}_plugins" for kind in ("action", "callback", "connection", "filter", "inventory"))]
CONTROL_CODE += ["tests", "bench", "scripts"]
SHELL = ["armstage", ".ci/run"]
PYTEST = [sys.executable, "-m", "pytest", "-q"]
PREFLIGHT = "tests/arm64/test_preflight.py"
OWN_STAGER = "own_stager"

# One after the other, by how fast they fail. What follows is emulated: two at a time, for each keeps one core busy.
FIRST = ("lint", "unit", "browser", "faults")
AT_A_TIME = 2
# Run when named: a Python with threads that stages under qemu's user emulation was once seen to hang.
BY_NAME = ("arm64-stager",)

TOOLS = (
    Need(("ssh",), "openssh-client"),
    Need(("sudo",), "sudo"),
    Need(("setpriv",), "util-linux"),
    Need(("openssl",), "openssl"),
    Need(("xz",), "xz-utils"),
    Need(("gcc",), "gcc"),
    Need(("/usr/include/dlfcn.h",), "libc6-dev"),
    Need(("strace",), "strace"),
    Need(("zsh",), "zsh"),
    Need(("systemd-analyze",), "systemd"),
    Need(("srun",), "slurm-client"),
)
"""Programs that some tests of several suites need, and their Debian packages. Nodes need more (tests/lab)."""


@dataclass(frozen=True)
class Step:
    """One command of a suite; a command without a count of its own counts as one test."""

    suite: str
    name: str
    argv: list[str]
    folder: Path = ROOT


@dataclass(frozen=True)
class Totals:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def scenarios() -> list[str]:
    found = {path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")}
    return sorted(found - {OWN_STAGER}, reverse=True)  # the longest first


def steps() -> list[Step]:
    return [
        Step("lint", "ruff, node code", ["ruff", "check", "--config", "ruff-nodes.toml", *NODE_CODE]),
        Step("lint", "ruff, control node", ["ruff", "check", *CONTROL_CODE]),
        Step("lint", "ruff format", ["ruff", "format", "--check", *NODE_CODE, *CONTROL_CODE]),
        Step("lint", "mypy", ["mypy", "--config-file", "../pyproject.toml", "-p", "armstage"], ROOT / "module_utils"),
        Step("lint", "yamllint", ["yamllint", "--strict", "."]),
        Step("lint", "ansible-lint", ["ansible-lint", "--offline", "-q"]),
        Step("lint", "shellcheck", ["shellcheck", *SHELL]),
        Step("unit", "pytest tests/unit", [*PYTEST, "tests/unit"]),
        Step("browser", "pytest tests/browser", [*PYTEST, "tests/browser"]),
        Step("faults", "pytest tests/faults", [*PYTEST, "tests/faults"]),
        Step("arm64", "pytest tests/arm64", [*PYTEST, "tests/arm64", f"--ignore={PREFLIGHT}"]),
        Step("slurm", "pytest tests/slurm", [*PYTEST, "tests/slurm"]),
        Step("arm64-preflight", f"pytest {PREFLIGHT}", [*PYTEST, PREFLIGHT]),
        *(Step("molecule", f"molecule {name}", ["molecule", "test", "-s", name]) for name in scenarios()),
        Step("arm64-stager", f"molecule {OWN_STAGER}", ["molecule", "test", "-s", OWN_STAGER]),
    ]


def run(step: Step, live: bool = True) -> Totals:
    """Its output is shown as it comes, or else in one piece when it has ended: beside it runs another."""
    say(f"== {step.suite}: {step.name}")
    started = time.monotonic()
    process = subprocess.Popen(step.argv, cwd=step.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if live:
            say(line, end="")
    tail = next((line for line in reversed(lines) if line.strip()), "")
    counted = count(tail, process.wait())
    ended = f"== {step.suite}: {step.name}: {counted} in {time.monotonic() - started:.0f} s"
    say(ended if live else "".join([*lines, ended]))
    return counted


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


def run_first(suites: Collection[str]) -> Totals:
    """Suite by suite, all steps of each; none after one that failed."""
    totals = Totals()
    for suite in FIRST:
        if suite in suites and not totals.failed:
            totals = sum((run(step) for step in steps() if step.suite == suite), totals)
    return totals


def run_rest(suites: Collection[str]) -> Totals:
    """Two steps side by side; none is begun after one has failed, for each takes minutes."""
    wanted = [step for step in steps() if step.suite in suites and step.suite not in FIRST]
    failed = Event()

    def run_or_leave(step: Step) -> Totals:
        if failed.is_set():
            return Totals()
        totals = run(step, live=len(wanted) == 1)
        if totals.failed:
            failed.set()
        return totals

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return sum(pool.map(run_or_leave, wanted), Totals())


def prepare(host: Host, wanted: Sequence[Need]) -> None:
    """Install what is missing; where that is not for us to do, tests that need it are skipped."""
    try:
        prerequisites.install(host, wanted)
    except ArmstageError as error:
        print(f"some tests will be skipped: {error.text}", flush=True)


def count(last_line: str, status: int) -> Totals:
    """The totals of pytest's closing line, `3 failed, 120 passed, 2 skipped in 4.1s`, or one for the command."""
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", last_line)}
    if not found or not re.search(r" in [\d.]+s", last_line):
        return Totals(passed=int(status == 0), failed=int(status != 0))
    failed = found.get("failed", 0) + found.get("error", 0) + found.get("errors", 0)
    if status not in (0, 1) and not failed:
        failed = 1
    return Totals(found.get("passed", 0), failed, found.get("skipped", 0))


def parse(arguments: list[str], suites: list[str]) -> argparse.Namespace:
    parser = Parser(prog="./armstage test", description=__doc__)
    without = ", ".join(BY_NAME)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"every one but {without} where none is named")
    parser.add_argument("--list", action="store_true", help="name every suite and its commands, and end")
    options = parser.parse_args(arguments)
    if unknown := set(options.suites) - set(suites):
        parser.error(f"there is no suite `{'`, `'.join(sorted(unknown))}`, there are {', '.join(suites)}")
    return options


def main() -> int:
    every = steps()
    suites = list(dict.fromkeys(step.suite for step in every))
    options = parse(sys.argv[1:], suites)
    if options.list:
        print("\n".join(f"{step.suite}: {step.name}" for step in every))
        return 0
    host = read_host()
    prepare(host, TOOLS)
    os.environ.setdefault("ANSIBLE_CONFIG", str(ROOT / "ansible.cfg"))
    chosen = options.suites or [name for name in suites if name not in BY_NAME]
    totals = run_first(chosen)
    if not totals.failed and not set(chosen) <= set(FIRST):
        prepare(host, [*prerequisites.needs(host, apt.mirror(host) is not None), *toolchain.needs(host)])
        totals += run_rest(chosen)
    print(totals)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
