# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hands the control node's compatibility data, and the host's own facts of cuda_facts, to `project_audit_info`."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.action import ActionBase

DATA = Path(__file__).resolve().parent.parent / "vars" / "compatibility.yml"


class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        known = task_vars or {}
        arguments = dict(self._task.args)
        if not arguments.get("compatibility"):
            data = known if "armstage_compatibility" in known else self._loader.load_from_file(str(DATA))
            arguments["compatibility"] = self._templar.template(data["armstage_compatibility"])
        if not arguments.get("cuda"):
            arguments["cuda"] = known.get("ansible_facts", {}).get("cuda") or {}
        return result | self._execute_module(module_args=arguments, task_vars=task_vars)
