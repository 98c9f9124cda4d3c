#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: rollback
short_description: Move the links of a staged root back
version_added: "0.1.0"
description:
  - Has the links of a root name what they named before the last run that moved them, or takes the environments of
    newer wheel indexes out of use.
  - Only links move, each in one step. Nothing is fetched or removed, and jobs that run keep what they run from.
  - Refuses, with nothing moved, where a release to go back to is no longer staged.
author: armstage maintainers (@armstage)
options:
  dest:
    description: The staged root.
    type: path
    required: true
  to:
    description:
      - V(previous), or the tag of a wheel index such as V(cu128).
      - With a tag, that environment is linked and none of a newer CUDA, so that C(env.sh) chooses no newer one on any
        node. Nodes whose driver is too old for it keep the environment they have.
    type: str
    required: true
attributes:
  check_mode:
    description: Predicts what a run would change.
    support: full
  diff_mode:
    description: Shows the links before and after.
    support: full
  platform:
    description: The systems it runs on.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Go back to what was linked before the last run
  rollback:
    dest: /work/shared/.local
    to: previous

- name: Use no environment newer than cu128
  rollback:
    dest: /work/shared/.local
    to: cu128
"""

RETURN = r"""
moves:
  description: Links below the root that were or would be moved, and what they name then; null for one that goes.
  returned: success
  type: dict
  sample: {envs/cu130: null}
message:
  description: What the links name now, in words.
  returned: success
  type: str
  sample: no environment newer than cu128 is linked
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 0.02
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

import time

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.rollback import act, observe, predict
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "dest": {"type": "path", "required": True},
    "to": {"type": "str", "required": True},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    root, to = module.params["dest"], module.params["to"]
    started = time.monotonic()
    try:
        before = observe(root).links
        plan = predict(root, to)
        if plan.moves and not module.check_mode:
            plan = act(root, to)
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    after = {link: target for link, target in {**before, **plan.moves}.items() if target is not None}
    module.exit_json(
        changed=bool(plan.moves),
        moves=dict(plan.moves),
        message=plan.message,
        seconds=round(time.monotonic() - started, 2),
        diff={"before_header": root, "after_header": root, "before": listing(before), "after": listing(after)},
    )


def listing(links) -> str:
    return "".join(f"{link} -> {target}\n" for link, target in sorted(links.items()))


if __name__ == "__main__":
    main()
