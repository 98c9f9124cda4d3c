#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: python_env
short_description: Stage an aarch64 Python environment from any host
version_added: "0.1.0"
description:
  - Puts an environment with C(torch) and what it needs under a root, as the link C(envs/TAG), on a host of any
    architecture.
  - uv resolves and unpacks for the target's platform. Nothing of the target is run, and nothing is built.
  - The environment is put together beside the one in use, looked through, and published by one rename.
  - It is right when it was made from the same requirements and holds what was published. That is read from its record,
    its C(dist-info) folders and a listing of its files. So a second run needs neither network nor uv nor a writable
    root.
  - An environment that was changed in place, by C(pip install) for example, is rebuilt beside it.
  - uv's own settings for indexes, credentials, certificates and its cache hold, from variables and from the C(uv.toml)
    of the user or the system. Variables that would change the result, such as E(UV_TORCH_BACKEND) or
    E(UV_EXCLUDE_NEWER), do not.
author: armstage maintainers (@armstage)
options:
  dest:
    description: The root. Its folders C(store) and C(envs) are made as needed.
    type: path
    required: true
  tag:
    description:
      - Name of the environment, the tag of its wheel index; C(cu130) for example.
      - For a tag such as C(cu130) or C(cpu) the build of torch has to be that one.
    type: str
    required: true
  state:
    description: Whether the environment is there. V(absent) removes its releases and its link.
    type: str
    choices: [present, absent]
    default: present
  requirements:
    description: What to install, each as in PEP 508, for example V(torch==2.11.0).
    type: list
    elements: str
  constraints:
    description: The text or the path of a requirements file that limits what is chosen; digests in it are verified.
    type: str
  lock:
    description:
      - The text or the path, on the stager, of a requirements file that pins everything with digests.
      - Without it the requirements are resolved, and what they came to is kept as C(share/armstage/lock.txt) in the
        environment.
    type: str
  index_url:
    description: A package index to ask before the default one, for example V(https://download.pytorch.org/whl/cu130).
    type: str
  sources:
    description:
      - Places to stage from, in order of preference; the first that can be reached is used. O(index_url) and O(lock)
        are short for a list of one.
      - An environment that was made from any of them is right.
    type: list
    elements: dict
    options:
      kind:
        description: A word for it in messages and in the record.
        type: str
        default: index
      index_url:
        description: As O(index_url); without it the default index alone is asked.
        type: str
      lock:
        description: As O(lock).
        type: str
      reachable:
        description: Whether it answered when it was asked.
        type: bool
        default: true
      reason:
        description: Why it did not.
        type: str
  unreachable:
    description: Index addresses that are known not to answer, with the reason. They are passed over.
    type: dict
  mirror:
    description:
      - Replaces every index, as a folder or HTML page of wheels, or as the URL of a simple index.
    type: str
  find_links:
    description: Further folders or HTML pages of wheels.
    type: list
    elements: str
  offline:
    description: Take everything from uv's cache, O(find_links) and folders.
    type: bool
    default: false
  python:
    description:
      - Absolute path of the environment's interpreter as the nodes see it. It is never run, and need not exist here.
      - Required unless O(state=absent).
    type: str
  python_version:
    description: Its version, where the path does not say it.
    type: str
  python_platform:
    description: The platform to choose wheels for, by uv's name.
    type: str
    default: aarch64-manylinux_2_28
  elf_machine:
    description: The machine that every ELF file of the environment has to be for, apart from code for GPUs.
    type: str
    default: aarch64
  uv:
    description: The uv to use, version 0.10.0 or newer, which has to run on the stager.
    type: str
    default: uv
  cache_dir:
    description:
      - uv's cache, its own by default. On the filesystem of the root files are linked from it and take no room twice.
    type: path
  compile_python:
    description:
      - An interpreter of the stager, of the version of O(python), to compile bytecode with; V(auto) finds one.
      - Python never compares it with the source later; in a shared root that only one user may write, it can't be made
        later either.
    type: str
    default: none
  keep:
    description: Earlier environments of this tag to keep, besides those that are in use.
    type: int
    default: 1
  timeout:
    description: Seconds that uv may take.
    type: float
    default: 3600
  expected_size:
    description: Bytes that unpacking writes, for O(progress).
    type: int
  progress:
    description: A file to rewrite about once a second with the bytes written, the bytes in all, and what is going on.
    type: path
  run_id:
    description: What to note as the run that made the environment.
    type: str
attributes:
  check_mode:
    description: Predicts what a run would change.
    support: full
  diff_mode:
    description: Shows the releases and the link before and after.
    support: full
  platform:
    description: The systems it runs on.
    support: full
    platforms: linux
"""

EXAMPLES = r"""
- name: Stage torch for nodes whose driver has CUDA 13.0
  python_env:
    dest: /work/shared/toolchain
    tag: cu130
    python: /work/shared/toolchain/python/cpython-3.12.12-linux-aarch64-gnu/bin/python3.12
    index_url: https://download.pytorch.org/whl/cu130
    requirements: [torch==2.11.0, torchvision==0.26.0, torchcodec==0.11.1, "nvidia-npp>=13.0,<13.1"]

- name: Stage exactly what a lock holds, from a folder of wheels
  python_env:
    dest: /opt/armstage
    tag: cu130
    python: /usr/bin/python3.13
    lock: /srv/wheels/cu130.txt
    mirror: /srv/wheels
"""

RETURN = r"""
release:
  description: The environment as a release; in check mode without what only unpacking tells.
  returned: success
  type: dict
  sample:
    name: env-cu130
    version: 2.11.0
    path: /opt/armstage/store/env-cu130-2.11.0-3f1c02a97d4e
    digest: 3f1c02a97d4e8b7c6a5f4e3d2c1b0a99887766554433221100ffeeddccbbaa99
    source: {kind: index, url: "https://download.pytorch.org/whl/cu130", sha256: 5e7d...}
    size: 4791178908
    files: 17297
    elf: {aarch64: 197}
    link: /opt/armstage/envs/cu130
    seconds: 48.2
installed:
  description: Version of every installed project.
  returned: success
  type: dict
  sample: {torch: 2.11.0, numpy: 2.5.5}
unhashed:
  description: Projects whose wheel was installed although the index gives no digest of it.
  returned: success
  type: list
  elements: str
origins:
  description: How many wheels each host served; empty where a lock was installed.
  returned: success
  type: dict
  sample: {download.pytorch.org: 28, mirror.example.org: 6}
library_dirs:
  description: Folders of the environment that torchcodec needs on the loader's path.
  returned: success
  type: list
  elements: str
drift:
  description: How the environment in use differed from what was published, or an empty string.
  returned: success
  type: str
  sample: torch was 2.11.0 and is 2.10.0
skipped_sources:
  description: Sources that were passed over, each with C(url), C(kind) and C(reason).
  returned: success
  type: list
  elements: dict
actions:
  description: What was done, or would be, in order.
  returned: success
  type: list
  elements: str
  sample:
    - publish store/env-cu130-2.11.0-3f1c02a97d4e from pypi
    - point envs/cu130 to ../store/env-cu130-2.11.0-3f1c02a97d4e
hint:
  description: What to do about a failure.
  returned: failure
  type: str
detail:
  description: The last lines that uv said.
  returned: failure
  type: str
"""

import contextlib
import time

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging.environment import from_options
from ansible.module_utils.armstage.staging.provision import LiveReporter, act, predict
from ansible.module_utils.armstage.staging.provision_result import result
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "dest": {"type": "path", "required": True},
    "tag": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "requirements": {"type": "list", "elements": "str"},
    "constraints": {"type": "str"},
    "lock": {"type": "str"},
    "index_url": {"type": "str"},
    "sources": {
        "type": "list",
        "elements": "dict",
        "options": {
            "kind": {"type": "str", "default": "index"},
            "index_url": {"type": "str"},
            "lock": {"type": "str"},
            "reachable": {"type": "bool", "default": True},
            "reason": {"type": "str"},
        },
    },
    "unreachable": {"type": "dict"},
    "mirror": {"type": "str"},
    "find_links": {"type": "list", "elements": "str"},
    "offline": {"type": "bool", "default": False},
    "python": {"type": "str"},
    "python_version": {"type": "str"},
    "python_platform": {"type": "str", "default": "aarch64-manylinux_2_28"},
    "elf_machine": {"type": "str", "default": "aarch64"},
    "uv": {"type": "str", "default": "uv"},
    "cache_dir": {"type": "path"},
    "compile_python": {"type": "str", "default": "none"},
    "keep": {"type": "int", "default": 1},
    "timeout": {"type": "float", "default": 3600},
    "expected_size": {"type": "int"},
    "progress": {"type": "path"},
    "run_id": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    started = time.monotonic()
    try:
        desired = from_options(module.params)
        done = predict(desired)
        if done.plan.changes and not module.check_mode:
            with contextlib.closing(LiveReporter(module.params["progress"] or "")) as report:
                done = act(desired, report)
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint, detail=getattr(error, "detail", ""))
    module.exit_json(**result(desired, done, time.monotonic() - started))


if __name__ == "__main__":
    main()
