#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: project_lock
short_description: Put an edited pyproject.toml in place, with the lock that goes with it
version_added: "0.1.0"
description:
  - Runs C(uv lock) for the edited C(pyproject.toml) in a copy of the project's folders, and puts both files in place
    when the new lock is complete. Packages whose requirements did not change keep their versions.
  - Says for aarch64 and for x86_64 Linux which packages the new lock installs otherwise.
  - A lock that does not go with the C(pyproject.toml) that is there is refused, since locking again would then change
    more than what was edited.
  - Needs uv on the host, and a Python that the project allows or a network to get one from.
author: armstage maintainers (@armstage)
options:
  path:
    description: The project's folder.
    type: path
    required: true
  pyproject:
    description: The text of C(pyproject.toml) as it is to be.
    type: str
    required: true
  uv:
    description: Path or name of C(uv), a program of this host's architecture.
    type: str
    default: uv
  python_version:
    description: Python that the nodes run the project with; what is installed is told for this one.
    type: str
    default: "3.12"
  timeout:
    description: Seconds that uv may take.
    type: float
    default: 600
attributes:
  check_mode:
    description: Locks in the copy, and says what would change.
    support: full
  diff_mode:
    description: Shows C(pyproject.toml), and the packages that the lock has for each machine, before and after.
    support: full
  platform:
    description: The systems it runs on.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Lock the project for aarch64 as well
  project_lock:
    path: /work/shared/train
    pyproject: "{{ edited }}"
"""

RETURN = r"""
changes:
  description: For each machine, what the new lock installs otherwise.
  returned: always
  type: dict
  sample: {aarch64: ["torch 2.10.0 -> 2.11.0"], x86_64: []}
kept:
  description: For each machine, how many packages stay as they are.
  returned: always
  type: dict
  sample: {aarch64: 41, x86_64: 60}
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.files import read_text
from ansible.module_utils.armstage.project.relock import LOCK_FILE, PYPROJECT, publish, relock
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "path": {"type": "path", "required": True},
    "pyproject": {"type": "str", "required": True},
    "uv": {"type": "str", "default": "uv"},
    "python_version": {"type": "str", "default": "3.12"},
    "timeout": {"type": "float", "default": 600},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    wanted = module.params
    folder = wanted["path"]
    try:
        before = {name: read_text(f"{folder}/{name}", 64 * 1024 * 1024) for name in (PYPROJECT, LOCK_FILE)}
        made = relock(folder, wanted["pyproject"], wanted["uv"], wanted["python_version"], wanted["timeout"])
        after = {PYPROJECT: made.pyproject, LOCK_FILE: made.lock}
        if before != after and not module.check_mode:
            publish(folder, made)
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    shown = {PYPROJECT: [before[PYPROJECT], after[PYPROJECT]], f"{LOCK_FILE}, its packages": made.listings}
    diff = [
        {"before_header": f"{folder}/{name}", "after_header": f"{folder}/{name}", "before": old or "", "after": new}
        for name, (old, new) in shown.items()
        if old != new
    ]
    module.exit_json(changed=before != after, diff=diff, changes=made.changes, kept=made.kept)


if __name__ == "__main__":
    main()
