# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What playbooks/check_inventory.yml refuses; the thinking is in module_utils/armstage/variables.py."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parent.parent

# Plugins of the control node can't import a project's module_utils by Ansible's name (docs/decisions).
sys.path.insert(0, str(PROJECT / "module_utils"))

from armstage import variables
from armstage.errors import ArmstageError

SPECIFICATION = PROJECT / "roles" / "armstage" / "meta" / "argument_specs.yml"


def refused_variables(hostvars, hosts):
    """Why a run can't begin with the variables that the hosts have, and what to do; empty where it can."""
    known = yaml.safe_load(SPECIFICATION.read_text())["argument_specs"]["main"]["options"]
    try:
        variables.check({str(name) for host in hosts for name in hostvars[host]}, known)
    except ArmstageError as error:
        return error.text
    return ""


class FilterModule:
    def filters(self):
        return {"refused_variables": refused_variables}
