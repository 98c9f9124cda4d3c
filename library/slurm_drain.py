#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_drain
short_description: Drain Slurm nodes before a change, and resume only those that were drained so
version_added: "0.1.0"
description:
  - Runs C(scontrol update) where Slurm's commands are and the user is one of Slurm's operators, such as the login node.
  - What it drains carries O(mark) in front of its reason. Only such nodes are resumed; a node that someone else
    drained, before or meanwhile, stays as it is.
author: armstage maintainers (@armstage)
options:
  nodes:
    description: A hostlist expression, such as V(gb[01-16]).
    type: str
    required: true
  state:
    description: What the nodes are to be.
    type: str
    choices: [drained, resumed]
    default: drained
  reason:
    description: Why, for everyone who looks at C(sinfo -R).
    type: str
    default: a change
  mark:
    description: What says that a node was drained by this module.
    type: str
    default: "armstage:"
  wait:
    description: Seconds to wait until the nodes run no job any more; V(0) does not wait.
    type: float
    default: 0
attributes:
  check_mode:
    description: Says what it would change.
    support: full
  diff_mode:
    description: Has no diff; the nodes are in RV(updated).
    support: none
  platform:
    description: The systems it runs on.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Drain the nodes of this batch
  slurm_drain:
    nodes: "{{ ansible_play_batch | join(',') }}"
    reason: driver 590
    wait: 7200
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
updated:
  description: The nodes whose state was changed.
  returned: always
  type: list
  elements: str
kept:
  description: Nodes that someone else drained, and their reason.
  returned: always
  type: dict
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.slurm import drain
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "nodes": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["drained", "resumed"], "default": "drained"},
    "reason": {"type": "str", "default": "a change"},
    "mark": {"type": "str", "default": "armstage:"},
    "wait": {"type": "float", "default": 0},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    wanted = module.params
    try:
        plan = drain.plan(drain.read(wanted["nodes"]), wanted["state"], wanted["mark"])
        if plan.update and not module.check_mode:
            drain.update(plan.update, wanted["state"], f"{wanted['mark']} {wanted['reason']}")
        if wanted["state"] == "drained" and wanted["wait"] and not module.check_mode:
            drain.wait_until_free(wanted["nodes"], wanted["wait"])
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    module.exit_json(changed=bool(plan.update), updated=list(plan.update), kept=plan.kept)


if __name__ == "__main__":
    main()
