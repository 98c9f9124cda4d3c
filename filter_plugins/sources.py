# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters over lists of sources; the thinking is in module_utils/armstage/sources.py."""

from __future__ import annotations

import sys
from pathlib import Path

# Plugins of the control node can't import a project's module_utils by Ansible's name (docs/decisions).
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "module_utils"))

from armstage import sources


class FilterModule:
    def filters(self):
        return {
            "mirrored": sources.mirrored,
            "source_addresses": sources.addresses,
            "repinned": sources.repinned,
            "torch_sources": sources.torch_sources,
        }
