# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's nodes as an inventory; the thinking is in module_utils/armstage/slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm
short_description: Nodes of a Slurm cluster
version_added: "0.1.0"
author: armstage maintainers (@armstage)
description:
  - Reads the nodes from C(scontrol show node -o), which every user may call.
  - Every node is listed. Those that can run the work are in group C(usable), the others in C(unusable) with the reason
    in the variable C(slurm_unusable).
  - Groups are C(partition_NAME), C(state_NAME) for the state and each of its flags, C(arch_NAME), C(feature_NAME) and
    C(gpu_TYPE). Group C(nodes), that of the playbooks, holds O(count) of the usable nodes, idle ones first.
  - The file's name must end in C(slurm.yml) or C(slurm.yaml).
extends_documentation_fragment: [constructed, inventory_cache]
options:
  plugin:
    description: This plugin's name.
    required: true
    choices: [slurm]
  partitions:
    description: Only nodes of these partitions; a list with commas or of YAML. Empty for all.
    type: list
    elements: str
    default: []
    env: [{name: ARMSTAGE_SLURM_PARTITIONS}]
  nodelist:
    description: Only these nodes, as hostlist expressions such as V(gb[01-16,20]). Inside a job, the job's.
    type: list
    elements: str
    default: []
    env: [{name: SLURM_JOB_NODELIST}, {name: ARMSTAGE_SLURM_NODELIST}]
  architectures:
    description: Machines that can run the work; empty for any. A node that never registered has none.
    type: list
    elements: str
    default: [aarch64]
  gpus:
    description: GPUs that a usable node has at least.
    type: int
    default: 0
  tolerate:
    description: States that don't make a node unusable here, such as V(RESERVED) when you work in that reservation.
    type: list
    elements: str
    default: []
  count:
    description: How many usable nodes group C(nodes) holds; 0 for all.
    type: int
    default: 0
    env: [{name: ARMSTAGE_SLURM_COUNT}]
  format:
    description: What scontrol is asked for; V(json) needs Slurm 23.02 or newer.
    choices: [text, json]
    default: text
  scontrol:
    description: The program, by name or path.
    default: scontrol
  timeout:
    description: Seconds that scontrol may take.
    type: float
    default: 30
  strict:
    default: true
"""

EXAMPLES = r"""
# cluster.slurm.yml
plugin: slurm
partitions: [gb200]
gpus: 1
count: 1
groups:
  big: slurm_memory_mib > 900000
keyed_groups:
  - {key: slurm_version, prefix: slurm, default_value: unknown}
"""

import sys
from pathlib import Path

from ansible import constants as C
from ansible.errors import AnsibleOptionsError, AnsibleParserError
from ansible.inventory.group import to_safe_group_name
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

# Plugins of the control node can't import a project's module_utils by Ansible's name (docs/decisions).
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "module_utils"))

from armstage.elf.reader import OTHER_NAMES
from armstage.errors import ArmstageError
from armstage.options import above_zero, at_least
from armstage.slurm import hostlist, nodes
from armstage.slurm.commands import output_of

COMMANDS = {"text": ("show", "node", "-o"), "json": ("show", "node", "--json")}


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "slurm"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith(("slurm.yml", "slurm.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        try:
            self._read_options(path)
            self._populate(nodes.parse(self._text(path, cache)))
        except ArmstageError as error:
            if C.INVENTORY_ANY_UNPARSED_IS_FAILED:
                self._end_the_run(error)
            raise AnsibleParserError(error.text) from error

    def _read_options(self, path):
        """The file's options; what is none is said here, or Ansible's other parsers would make hosts of the file."""
        try:
            self._read_config_data(path)
            for option, least in (("count", 0), ("gpus", 0)):
                at_least(option, self.get_option(option) or 0, least)
            above_zero("timeout", self.get_option("timeout"), "seconds")
        except AnsibleOptionsError as error:
            raise ArmstageError(f"`{path}`: {error}", hint="Correct that option") from error

    def _end_the_run(self, error):
        """Ansible would end it too, but first have its other parsers try the file, and bury this in what they say."""
        self.display.display(f"armstage: {error.text}", color=C.COLOR_ERROR, stderr=True)
        raise SystemExit(3)

    def _text(self, path, cache):
        """What scontrol printed, now or, with the cache on, before."""
        key = self.get_cache_key(path)
        if cache and self.get_option("cache") and key in self._cache:
            return self._cache[key]
        command = (self.get_option("scontrol"), *COMMANDS[self.get_option("format")])
        text = output_of(command, timeout=self.get_option("timeout"))
        if self.get_option("cache"):
            self._cache[key] = text
        return text

    def _populate(self, found):
        wanted = self._wanted(found)
        rules = {
            "architectures": [OTHER_NAMES.get(name.lower(), name) for name in self.get_option("architectures")],
            "gpus": self.get_option("gpus"),
            "tolerate": [
                state for word in filter(str.strip, self.get_option("tolerate")) for state in nodes.states_of(word)
            ],
        }
        for group in ("usable", "unusable", "nodes"):
            self.inventory.add_group(group)
        usable = []
        for node in wanted:
            reason = node.unusable(**rules)
            if not reason:
                usable.append(node)
            self._add(node, reason)
        count = self.get_option("count")
        eager = sorted(usable, key=lambda node: node.eagerness)
        for node in eager[: count or None]:
            self.inventory.add_host(node.name, group="nodes")

    def _wanted(self, found):
        """The nodes asked for. A partition or node that Slurm doesn't have is an error, not an empty inventory."""
        partitions = set(self.get_option("partitions"))
        unknown = partitions - {name for node in found for name in node.partitions}
        if unknown:
            known = sorted({name for node in found for name in node.partitions})
            raise ArmstageError(
                f"Slurm has no nodes in partition `{'`, `'.join(sorted(unknown))}`",
                hint=f"Set `partitions` to some of: {', '.join(known) or 'none, Slurm shows this user no nodes'}",
            )
        named = set(hostlist.expand(",".join(self.get_option("nodelist"))))
        absent = named - {node.name for node in found}
        if absent:
            raise ArmstageError(
                f"Slurm has no node `{hostlist.compress(sorted(absent))}`", hint="List what there is: sinfo -N"
            )
        return [
            node
            for node in found
            if (not partitions or partitions & set(node.partitions)) and (not named or node.name in named)
        ]

    def _add(self, node, reason):
        self.inventory.add_host(node.name)
        variables = {**node.variables(), "slurm_unusable": reason}
        for name, value in variables.items():
            self.inventory.set_variable(node.name, name, value)
        for group in ("unusable" if reason else "usable", *self._groups(node)):
            self.inventory.add_host(node.name, group=self.inventory.add_group(group))
        strict = self.get_option("strict")
        variables["inventory_hostname"] = node.name  # for expressions: it is no variable of the host's yet
        self._set_composite_vars(self.get_option("compose"), variables, node.name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, node.name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, node.name, strict=strict)

    @staticmethod
    def _groups(node):
        kinds = {
            "partition": node.partitions,
            "state": [state.lower() for state in node.states],
            "arch": [node.architecture] if node.architecture else [],
            "feature": node.features,
            "gpu": node.gpu_types,
        }
        for kind, names in kinds.items():
            for name in names:
                yield to_safe_group_name(f"{kind}_{name}", force=True, silent=True)
