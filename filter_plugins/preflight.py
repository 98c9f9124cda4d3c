# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role preflight stages and writes: the program, report.json and report.html."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

# Plugins of the control node can't import a project's module_utils by Ansible's name (docs/decisions).
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "module_utils"))

from armstage.preflight import bundle
from armstage.preflight.report import build, html


def program_of(folder):
    """`armstage-preflight`, built from the package in ``folder``, as base64."""
    return base64.b64encode(bundle.build(Path(folder).resolve())).decode("ascii")


def preflight_report(hostvars, hosts, check=False):
    """The report of the hosts' results: {host: what preflight_info returned, with what page_cache did before it}."""
    return build.report({host: result_of(hostvars[host], check) for host in hosts})


def result_of(variables, check):
    """One host's result; what Ansible says of it where the module did not get that far. In check mode nothing was
    dropped, and what a drop would leave is no measurement."""
    result = dict(variables.get("__preflight_result") or {})
    dropped = variables.get("__preflight_page_cache") or {}
    if "before" in dropped and not check:
        result["page_cache"] = dropped
    return result


def preflight_json(report):
    return build.text(report)


def preflight_page(report):
    return html.page(report)


class FilterModule:
    def filters(self):
        return {
            "preflight_program": program_of,
            "preflight_report": preflight_report,
            "preflight_json": preflight_json,
            "preflight_page": preflight_page,
        }
