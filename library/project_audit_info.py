#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: project_audit_info
short_description: Read a project for what breaks on aarch64
version_added: "0.1.0"
description:
  - Reads the files of a project, without running any of them, and reports what fails on an aarch64 node, or runs there
    without its GPU. The rules are in C(docs/rules.md).
  - Read are C(pyproject.toml), C(uv.lock), requirements and constraints files, C(setup.cfg), C(setup.py),
    C(environment.yml), C(# /// script) blocks, Python code, shell and sbatch scripts, and training configurations in
    YAML, JSON, TOML and INI. Comments, strings and documentation trigger nothing.
  - "C(# armstage: ignore[rule] reason) on the line, or on lines of their own above it, takes a finding back. Without a
    reason it does not, and is itself reported."
  - Needs Python's standard library only. It reads TOML and YAML itself, so that every finding has its line and Python
    3.9 is enough. Python code newer than the host's Python can't be read there, and RV(unread) says so.
author: armstage maintainers (@armstage)
options:
  path:
    description: The project's folder, or one file.
    type: path
    required: true
  rules:
    description: The rules to apply; all of them when empty.
    type: list
    elements: str
    default: []
  cuda:
    description:
      - RV(ignore:ansible_facts.cuda) of the node that will run the project, as C(cuda_facts) returns it. Indexes and
        bounds are then held against its driver and GPUs; without, against every driver that the data knows.
      - Facts of a host that is not aarch64 are not used.
      - As a task this is the host's own RV(ignore:ansible_facts.cuda) when nothing is given.
    type: dict
    default: {}
  cuda_version:
    description: CUDA version of the node's driver, such as V(13.0), where it can't be read.
    type: str
    default: ""
  python_version:
    description: Python that the node runs the project with.
    type: str
    default: "3.12"
  compatibility:
    description:
      - Which wheels there are for aarch64, C(armstage_compatibility) of C(vars/compatibility.yml).
      - As a task this is the project's own data when nothing is given.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Runs the same in check mode, it changes nothing.
    support: full
  diff_mode:
    description: Has no diff, it changes nothing.
    support: none
  platform:
    description: The systems it runs on.
    platforms: posix
    support: full
"""

EXAMPLES = r"""
- name: Read a project for what breaks on aarch64
  project_audit_info:
    path: /work/shared/train
  register: project

- name: Hold its indexes against a driver of CUDA 12.8
  project_audit_info:
    path: /work/shared/train
    cuda_version: "12.8"
"""

RETURN = r"""
findings:
  description: What was found, by file and line.
  returned: always
  type: list
  elements: dict
  contains:
    rule:
      description: The rule's name.
      returned: always
      type: str
      sample: torchcodec-floor
    level:
      description: V(error) fails on aarch64 or runs there without the GPU; V(warning) does so in a situation that the
        project does not exclude.
      returned: always
      type: str
      sample: error
    file:
      description: Path below the project.
      returned: always
      type: str
      sample: pyproject.toml
    line:
      description: Line of the file, from 1.
      returned: always
      type: int
      sample: 12
    text:
      description: That line.
      returned: always
      type: str
      sample: '"torchcodec>=0.2.1,<0.6.0",'
    why:
      description: What goes wrong.
      returned: always
      type: str
      sample: "No version that `>=0.2.1,<0.6.0` admits has an aarch64 wheel: they begin at 0.11.0"
    fix:
      description: What to do.
      returned: always
      type: str
      sample: "Ask for at least the first version with an aarch64 wheel: `torchcodec>=0.11`"
unread:
  description: >-
    Files that a reader knows and could not read, with the line and the reason; and files that install packages and
    have no reader, such as a C(Dockerfile), with the line 0.
  returned: always
  type: list
  elements: dict
  sample: [{file: old.py, line: 3, reason: "not Python that this interpreter reads: invalid syntax"}]
read:
  description: How many files of each kind were read.
  returned: always
  type: dict
  sample: {pyproject: 1, shell: 2}
ignored:
  description: How many findings a comment took back.
  returned: always
  type: int
  sample: 0
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

from ansible.module_utils.armstage.audit.facts import Facts, node_facts, read_compatibility
from ansible.module_utils.armstage.audit.project import audit
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "path": {"type": "path", "required": True},
    "rules": {"type": "list", "elements": "str", "default": []},
    "cuda": {"type": "dict", "default": {}},
    "cuda_version": {"type": "str", "default": ""},
    "python_version": {"type": "str", "default": "3.12"},
    "compatibility": {"type": "dict", "default": {}},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    wanted = module.params
    try:
        compatibility = wanted["compatibility"] or read_compatibility()
        facts = Facts(compatibility, node_facts(wanted["cuda"], wanted["cuda_version"]), wanted["python_version"])
        found = audit(wanted["path"], facts, wanted["rules"])
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    module.exit_json(changed=False, **found.result())


if __name__ == "__main__":
    main()
