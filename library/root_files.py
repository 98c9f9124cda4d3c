#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: root_files
short_description: Write the small files of a staged root
version_added: "0.1.0"
description:
  - Writes several files below a folder, each in one step; a job that sources one of them sees the old or the new.
  - Makes the folders they need, and predicts exactly in check mode, also where the root does not exist yet.
author: armstage maintainers (@armstage)
options:
  dest:
    description: The staged root.
    type: path
    required: true
  files:
    description: Path below the root -> its content as base64.
    type: dict
    required: true
  programs:
    description: Those of the paths that are programs, executable by everyone.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Predicts what a run would change.
    support: full
  diff_mode:
    description: Shows what changes in text files.
    support: full
  platform:
    description: The systems it runs on.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Write what a job script sources
  root_files:
    dest: /work/shared/.local
    files:
      env.sh: "{{ lookup('ansible.builtin.template', 'env.sh.j2') | b64encode }}"
"""

RETURN = r"""
written:
  description: The paths below the root that were or would be written.
  returned: always
  type: list
  elements: str
  sample: [env.sh]
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

import base64
import os
from pathlib import Path

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.files import changed_files, write_files
from ansible.module_utils.armstage.staging.desired import inside
from ansible.module_utils.armstage.staging.folders import require_writable, root_folder
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "dest": {"type": "path", "required": True},
    "files": {"type": "dict", "required": True},
    "programs": {"type": "list", "elements": "str", "default": []},
}


def decoded(path, content) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except (ValueError, TypeError) as error:
        raise ArmstageError(
            f"Expected the content of `{path}` in base64, but received: `{str(content)[:40]}`",
            hint="Give it through the filter b64encode",
        ) from error


def file_inside(path) -> str:
    plain = inside(path)
    if not plain:
        raise ArmstageError(
            f"Expected the path of a file in `files`, but received: `{path}`", hint="Give it relative to the root"
        )
    return plain


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    programs = module.params["programs"]
    try:
        root = str(root_folder(module.params["dest"]))
        wanted = {file_inside(path): decoded(path, content) for path, content in module.params["files"].items()}
        changes = changed_files(root, wanted, programs)
        require_writable(Path(root, path).parent for path in changes)
        if changes and not module.check_mode:
            write_files(root, {path: wanted[path] for path in changes}, programs)
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    diff = [
        {
            "before_header": os.path.join(root, path),
            "after_header": os.path.join(root, path),
            "before": (before or b"").decode("utf-8", "backslashreplace"),
            "after": wanted[path].decode("utf-8", "backslashreplace"),
        }
        for path, before in changes.items()
        if b"\0" not in wanted[path]
    ]
    module.exit_json(changed=bool(changes), written=sorted(changes), diff=diff)


if __name__ == "__main__":
    main()
