#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_info
short_description: Check that a node and its environment are ready for a run
version_added: "0.1.0"
description:
  - >-
    Runs the numbered checks V(A1) to V(A5) (architecture, leaked variables, the torch build, FFmpeg and torchcodec,
    the environment's own Python) and V(G1) to V(G10) (what goes wrong with GPUs on a DGX Spark and elsewhere).
  - >-
    A check that does not apply to the node is V(SKIP) and says why. Each has a time limit of its own, and none fails
    the module: what could not be judged is V(WARN) and says so.
  - By default no check imports torch or loads the GPU.
author:
  - armstage maintainers (@armstage)
options:
  root:
    description:
      - Folder below which C(proc/) and C(sys/) are read.
    type: path
    default: /
  env:
    description:
      - The Python environment to look into.
      - >-
        Without it that of C(ARMSTAGE_ENV), else the newest below O(staged) that the driver's CUDA allows. With none
        the checks that need one are V(SKIP).
    type: path
  staged:
    description: The staged root.
    type: path
  nvidia_smi:
    description: Path or name of C(nvidia-smi), asked where NVML says nothing.
    type: str
    default: nvidia-smi
  checks:
    description:
      - Numbers of the checks to run, all of them when empty.
      - V(G5) measures, and so loads the GPU. It does so only when it is named here.
    type: list
    elements: str
    default: []
  skip:
    description: Numbers of the checks that are switched off.
    type: list
    elements: str
    default: []
  workload:
    description:
      - The memory that the run will need, for V(G3).
      - A number is GiB; V(90GiB), V(96GB) and C(memory_gib) in a dictionary are understood as well.
    type: raw
  timeout:
    description: Seconds that each check may take.
    type: float
    default: 30
  sample:
    description: Seconds that V(G4) samples temperature, power and clocks, beside a program that loads the GPU.
    type: float
    default: 0
  live:
    description: Let V(A5) import torch and run a small kernel.
    type: bool
    default: false
  online:
    description: Let V(G8) ask the origin of the checkout in O(playbooks).
    type: bool
    default: false
  configs:
    description:
      - Files and folders on the node with the run's configuration and launch scripts, for V(G10) and V(G8).
      - YAML, JSON, TOML, INI, shell scripts, C(.env) files, Dockerfiles and systemd units are read as such.
    type: list
    elements: path
    default: []
  playbooks:
    description: A checkout of dgx-spark-playbooks on the node, for V(G8).
    type: path
attributes:
  check_mode:
    support: full
    description: Runs the same in check mode, it changes nothing.
  diff_mode:
    support: none
    description: Has no diff, it changes nothing.
  platform:
    support: full
    description: The systems it runs on.
    platforms: linux
"""

EXAMPLES = r"""
- name: Is the node ready for a run that needs 90 GiB?
  preflight_info:
    staged: /work/shared/.local
    workload: 90GiB
  register: preflight

- name: Only what concerns the environment
  preflight_info:
    env: /opt/armstage/envs/cu130
    checks: [A1, A3, A4, G1]
"""

RETURN = r"""
verdict:
  description: V(blocked) with any V(FAIL), V(ready-with-warnings) with any V(WARN), else V(ready).
  returned: always
  type: str
  sample: ready
lines:
  description: One line for each check, in a form that other tools match on.
  returned: always
  type: list
  elements: str
  sample:
    - "G1 PASS: torch 2.11.0+cu130 is for CUDA 13, and so are all 46 needs of CUDA libraries"
checks:
  description: One entry for each check.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: The number, V(A1) to V(A5) or V(G1) to V(G10).
      returned: always
      type: str
      sample: G1
    name:
      description: What the check is called.
      returned: always
      type: str
      sample: CUDA 12/13 ABI
    status:
      description: V(PASS), V(FAIL), V(WARN), V(SKIP) or V(INFO).
      returned: always
      type: str
      sample: PASS
    detail:
      description: What was found, or why nothing was judged.
      returned: always
      type: str
      sample: torch 2.11.0+cu130 is for CUDA 13, and so are all 46 needs of CUDA libraries
    hint:
      description: What to do; empty when nothing is to be done.
      returned: always
      type: str
      sample: ""
    source:
      description: Where it was read, or who measured what it is judged by.
      returned: always
      type: str
      sample: /opt/armstage/envs/cu130/lib/python3.12/site-packages
    facts:
      description: The values it went by, each with C(name), C(value) and C(source).
      returned: always
      type: list
      elements: dict
      sample: []
    data:
      description: What the report draws, such as the readings of C(/proc/meminfo) and the samples of V(G4).
      returned: always
      type: dict
      sample: {}
    seconds:
      description: How long it took.
      returned: always
      type: float
      sample: 0.04
host:
  description: >-
    The node, for the report: C(name), C(kernel), C(page_size), C(glibc), C(python), C(environment), C(cuda) (as
    cuda_facts), C(memory) and C(staged).
  returned: always
  type: dict
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.preflight.request import Request, numbers, workload
from ansible.module_utils.armstage.preflight.runner import run_checks
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "root": {"type": "path", "default": "/"},
    "env": {"type": "path"},
    "staged": {"type": "path"},
    "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
    "checks": {"type": "list", "elements": "str", "default": []},
    "skip": {"type": "list", "elements": "str", "default": []},
    "workload": {"type": "raw"},
    "timeout": {"type": "float", "default": 30},
    "sample": {"type": "float", "default": 0},
    "live": {"type": "bool", "default": False},
    "online": {"type": "bool", "default": False},
    "configs": {"type": "list", "elements": "path", "default": []},
    "playbooks": {"type": "path"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    given = {name: value for name, value in module.params.items() if value is not None}
    try:
        given.update(
            checks=numbers(given["checks"]),
            skip=numbers(given["skip"]),
            workload=workload(given.get("workload")),
            configs=tuple(given["configs"]),
        )
        request = Request(**given)
        request.require_root()
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    module.exit_json(changed=False, **run_checks(request, describe=True))


if __name__ == "__main__":
    main()
