# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write docs/rules.md from the rules: `./armstage exec python scripts/rules_page.py`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "module_utils"))

from armstage.audit.ignore import RULE  # noqa: E402
from armstage.audit.model import Rule  # noqa: E402
from armstage.audit.rules import CATALOGUE  # noqa: E402

PAGE = PROJECT / "docs" / "rules.md"
LANGUAGES = {".toml": "toml", ".txt": "text", ".lock": "toml", ".py": "python", ".yaml": "yaml"}

INTRODUCTION = """# Rules of `./armstage project audit`

What each rule finds, why it matters on aarch64, and what to do. An *error* fails on aarch64, or runs there without the
GPU. A *warning* does so in a situation that the project does not exclude. Written by `scripts/rules_page.py` from the
rules themselves; the tests run every example.

To take a finding back, write `# armstage: ignore[rule] reason` on its line, or on a line of its own above it.
"""


def page() -> str:
    rules = (*CATALOGUE, RULE)
    table = ["| rule | | finds |", "|---|---|---|"]
    table += [f"| [{rule.id}](#{rule.id}) | {rule.level} | {rule.title} |" for rule in rules]
    return "\n".join([INTRODUCTION, *table, "", *map(section, rules)])


def section(rule: Rule) -> str:
    driver = f" On a node whose driver runs CUDA {rule.cuda}:" if rule.cuda else ""
    return "\n".join(
        [
            f"## {rule.id}",
            "",
            f"{rule.title}.",
            "",
            f"**Why:** {rule.why}.",
            "",
            f"**Fix:** {rule.fix}.",
            "",
            f"Found:{driver}",
            "",
            example(rule.bad),
            "Not found:",
            "",
            example(rule.good),
        ]
    )


def example(files: Mapping[str, str]) -> str:
    blocks = []
    for path, text in files.items():
        language = LANGUAGES.get(Path(path).suffix, "sh")
        blocks += [f"```{language}", f"# {path}", text.rstrip("\n"), "```", ""]
    return "\n".join(blocks)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.relative_to(PROJECT)}: {len(CATALOGUE) + 1} rules")
