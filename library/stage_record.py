#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: stage_record
short_description: Note what a run saw and staged, and say what is different from the last one
version_added: "0.1.0"
description:
  - Compares the drivers of the nodes and the links of a staged root with what the last run noted in
    C(share/armstage/history.json), and brings that up to date.
  - Writes only when something is different, so that a second run also passes on a root that is read-only.
author: armstage maintainers (@armstage)
options:
  dest:
    description: The staged root.
    type: path
    required: true
  nodes:
    description: The nodes that were served, by name, each with C(driver), C(cuda) and C(index).
    type: dict
    required: true
  releases:
    description:
      - What RV(staged_release#module:release) and RV(python_env#module:release) said of what this run staged, with
        C(path) and C(link). In check mode it tells where the links would lead.
    type: list
    elements: dict
    default: []
attributes:
  check_mode:
    description: Predicts what a run would change.
    support: full
  diff_mode:
    description: Shows what changes in the record.
    support: full
  platform:
    description: The systems it runs on.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Note what this run saw
  stage_record:
    dest: /work/shared/.local
    nodes:
      gb01: {driver: 580.95.05, cuda: "13.0", index: cu130}
"""

RETURN = r"""
since_last_run:
  description: What is different from the last run, in sentences; empty when nothing is.
  returned: success
  type: list
  elements: str
  sample:
    - "gb01: driver 570.172.08 -> 580.95.05, CUDA 12.8 -> 13.0, index cu128 -> cu130"
    - environment cu130 staged; environment cu128, FFmpeg and uv unchanged
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

import os
import time

from ansible.module_utils.armstage import history
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.files import write_files
from ansible.module_utils.armstage.staging.folders import staged_root
from ansible.module_utils.armstage.staging.publish import Store
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "dest": {"type": "path", "required": True},
    "nodes": {"type": "dict", "required": True},
    "releases": {"type": "list", "elements": "dict", "default": []},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        root, nodes = str(staged_root(module.params["dest"])), history.as_nodes(module.params["nodes"])
        store = Store(root)
        before = history.read(root)
        links = history.expected_links(history.of_roles(store.links()), root, module.params["releases"])
        after = history.noted(before, nodes, links, now)
        if after != before and not module.check_mode:
            with store.lock():
                after = history.noted(history.read(root), nodes, links, now)
                write_files(root, {history.HISTORY: after.text().encode()})
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    header = os.path.join(root, history.HISTORY)
    module.exit_json(
        changed=after != before,
        since_last_run=history.since(before, nodes, links),
        diff={
            "before_header": header,
            "after_header": header,
            "before": before.text() if before != history.History() else "",
            "after": after.text(),
        },
    )


if __name__ == "__main__":
    main()
