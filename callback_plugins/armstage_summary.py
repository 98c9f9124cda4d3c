# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
name: armstage_summary
type: aggregate
short_description: What a run staged, proved and checked, or would stage, for a person to read
version_added: "0.1.0"
description:
  - After the recap it lists each component with its version, source, size, sha256 and the seconds it took, the wheel
    index of each node and why, what was proved there, what was fallen back on, and what to type next. Of a run with
    C(--check) it says what would be staged, and leaves out what only staging tells.
  - Below the first message of a host that can't be reached it says what to do.
  - Of a drop of the page cache it shows the table of all hosts.
  - Of a preflight it shows the checks' lines, the verdict and the first three things to do.
  - Prints nothing else for a playbook that did none of these.
author: armstage maintainers (@armstage)
requirements:
  - C(callbacks_enabled = armstage_summary), as the project's ansible.cfg has it
"""

import sys
from pathlib import Path

from ansible import context
from ansible.plugins.callback import CallbackBase

# Plugins of the control node can't import a project's module_utils by Ansible's name (docs/decisions).
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "module_utils"))

from armstage import summary, unreachable
from armstage.preflight.report import terminal

COLORS = {"FAIL": "red", "WARN": "yellow", "PASS": "green", "INFO": "blue", "SKIP": "dark gray"}


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "armstage_summary"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self._run = summary.Run(check=bool(context.CLIARGS.get("check")))
        self._preflight = {}
        self._page = ""
        self._page_cache = []
        self._unreachable = set()

    def v2_runner_on_ok(self, result):
        content = result._result
        for item in content.get("results") or [content]:
            self._run.note(result._host.get_name(), item)
        self._note_preflight(result)
        self._page_cache = content.get("ansible_facts", {}).get("page_cache_lines", self._page_cache)

    def v2_runner_on_failed(self, result, ignore_errors=False):  # noqa: ARG002 - the name is the interface's
        self._note_preflight(result)

    def v2_runner_on_unreachable(self, result):
        self._note_preflight(result)
        self._say_what_to_do(result._host.get_name(), result._result.get("msg", ""))

    def v2_playbook_on_stats(self, stats):
        failed = [host for host in stats.processed if stats.failures.get(host) or stats.dark.get(host)]
        for line in summary.lines(self._run, failed):
            self._display.display(line.text, color=line.color)
        for number, line in enumerate(self._page_cache):
            self._display.display(line, color=None if number else "bright blue")
        if self._page or any("verdict" in result for result in self._preflight.values()):
            for line in terminal.lines(self._preflight):
                self._display.display(line.text, color=COLORS.get(line.status))
            if self._page:
                self._display.display(f"report: {self._page}")

    def _note_preflight(self, result):
        """What preflight_info said of a host, or why it said nothing."""
        host, content = result._host.get_name(), result._result
        if result._task.action == "preflight_info" or (content.get("unreachable") and host not in self._preflight):
            self._preflight[host] = content
        self._page = content.get("ansible_facts", {}).get("preflight_page", self._page)

    def _say_what_to_do(self, host, said):
        """Once for each host, below what Ansible said."""
        hint = unreachable.hint(said, host)
        if hint and host not in self._unreachable:
            self._display.display(hint, color="bright purple")
        self._unreachable.add(host)
