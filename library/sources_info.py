#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: sources_info
short_description: Ask once which sources can be fetched from
version_added: "0.1.0"
author: armstage maintainers (@armstage)
description:
  - Asks every address, hosts in parallel, before anything is written, so that a source out of reach costs a run one
    short time limit and not one for every task.
  - A host that can't be reached is asked once, whatever the number of its addresses.
attributes:
  check_mode:
    description: Runs the same in check mode, it changes nothing.
    support: full
  diff_mode:
    description: Has no diff, it changes nothing.
    support: none
  platform:
    description: The systems it runs on.
    support: full
    platforms: posix
options:
  urls:
    description:
      - Addresses as O(staged_release#module:sources) takes them; V(pypi:) ones are looked up in the package index.
    type: list
    elements: str
    required: true
  timeout:
    description: Seconds for a host to answer.
    type: float
    default: 5
  index_url:
    description: The package index for V(pypi:) addresses, in place of the one this host is configured for.
    type: str
"""

EXAMPLES = r"""
- name: See which sources answer
  sources_info:
    urls:
      - https://github.com/astral-sh/uv/releases/download/0.10.0/uv-aarch64-unknown-linux-gnu.tar.gz
      - pypi:uv/0.10.0/uv-0.10.0-py3-none-manylinux_2_28_aarch64.whl
  register: probe
"""

RETURN = r"""
sources:
  description: For each address whether it can be fetched from, and the reason when it can't.
  returned: always
  type: dict
  sample:
    "https://example.org/uv.tar.gz": {reachable: false, reason: HTTP 404 Not Found}
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.options import above_zero
from ansible.module_utils.armstage.staging.probe import probe
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "urls": {"type": "list", "elements": "str", "required": True},
    "timeout": {"type": "float", "default": 5},
    "index_url": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    options = module.params
    try:
        timeout = above_zero("timeout", options["timeout"], "seconds")
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    module.exit_json(changed=False, sources=probe(options["urls"], timeout, options["index_url"] or ""))


if __name__ == "__main__":
    main()
