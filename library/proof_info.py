#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: proof_info
short_description: Prove a staged toolchain on the node that will run it
version_added: "0.1.0"
description:
  - Sources C(env.sh) of a staged root, imports torch from the environment it chose and decodes a short H.264 clip with
    torchcodec, whose frames must have the expected number, shape and mean values. Where the node has a GPU, a small
    kernel runs too.
  - Only reads. A proof that fails is a result with RV(ok=false), not a failed module.
author: armstage maintainers (@armstage)
options:
  root:
    description: The staged root.
    type: path
    required: true
  cuda_version:
    description: CUDA to assume on a node without a driver, such as V(13.0).
    type: str
    default: ""
  timeout:
    description: Seconds the proof may take.
    type: float
    default: 600
attributes:
  check_mode:
    description: Runs the same in check mode, it changes nothing.
    support: full
  diff_mode:
    description: Has no diff, it changes nothing.
    support: none
  platform:
    description: The systems it runs on.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Prove what is staged
  proof_info:
    root: /work/shared/.local
  register: proof
"""

RETURN = r"""
ok:
  description: Whether the proof succeeded.
  returned: always
  type: bool
  sample: true
message:
  description: What ran and what it showed, or what failed.
  returned: always
  type: str
  sample: >-
    torch 2.11.0+cu130 (CUDA 13.0) and torchcodec 0.11.1 with FFmpeg 7 decoded 60 frames of 320x180, a kernel ran on
    NVIDIA GB200
hint:
  description: What to do; empty when there is nothing to do.
  returned: always
  type: str
proof:
  description: The values that the proof printed; empty when it did not get that far.
  returned: always
  type: dict
"""

from ansible.module_utils.armstage.proof import prove
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "root": {"type": "path", "required": True},
    "cuda_version": {"type": "str", "default": ""},
    "timeout": {"type": "float", "default": 600},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.exit_json(changed=False, **prove(**module.params))


if __name__ == "__main__":
    main()
