# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters over the compatibility data; the thinking is in module_utils/armstage/torch_index.py and stack.py."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from ansible.errors import AnsibleFilterError

# Plugins of the control node can't import a project's module_utils by Ansible's name (docs/decisions).
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "module_utils"))

from armstage import stack, torch_index
from armstage.errors import ArmstageError


def reporting(function):
    """The same function with its errors as Ansible's, the hint on a line of its own."""

    @functools.wraps(function)
    def filtered(*arguments, **options):
        try:
            return function(*arguments, **options)
        except ArmstageError as error:
            raise AnsibleFilterError(error.text) from None  # whose message Ansible would say again behind the hint

    return filtered


class FilterModule:
    def filters(self):
        return {
            "torch_index": reporting(torch_index.choose),
            "stack_problems": reporting(stack.problems),
            "torch_requirements": reporting(stack.torch_requirements),
        }
