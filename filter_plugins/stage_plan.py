# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan of a stager and its sources; the thinking is in module_utils/armstage/plan.py and sources.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Plugins of the control node can't import a project's module_utils by Ansible's name (docs/decisions).
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "module_utils"))

from armstage import plan, sources, torch_index
from armstage.errors import ArmstageError
from armstage.staging import index


def stage_plan(wishes, nodes, compatibility, probed, cpython):
    """The plan of a stager (armstage/plan.py), or ``refusal``: why there is none, and what to do."""
    try:
        return plan.plan(wishes, nodes, compatibility, probed, cpython)
    except ArmstageError as error:
        return {"refusal": error.text}


def chosen_index(cuda, compatibility, **wanted):
    """The wheel index of a node (armstage/torch_index.py), or ``refusal``: why there is none, and what to do."""
    try:
        return torch_index.choose(cuda, compatibility, **wanted)
    except ArmstageError as error:
        return {"refusal": error.text}


def configured_index(home):
    """The package index that the control node uses: for stagers that have neither a configured one nor pip."""
    try:
        return index.configured_index(os.environ, Path(home))
    except ArmstageError:
        return ""


class FilterModule:
    def filters(self):
        return {
            "stage_plan": stage_plan,
            "configured_index": configured_index,
            "chosen_index": chosen_index,
            "staged_index": plan.staged_index,
            "mirrored": sources.mirrored,
            "source_addresses": sources.addresses,
            "index_sources": sources.of_indexes,
            "unreachable": sources.unreachable,
        }
