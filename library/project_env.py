#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: project_env
short_description: Make a project's environment for aarch64 nodes from its lock
version_added: "0.1.0"
description:
  - Makes an environment in the project's folder, beside the one of the login node, for nodes that see that folder.
  - On an aarch64 host it is C(uv sync --locked), then C(uv pip install) of O(override) into the same environment. On a
    host of another architecture, which can't run the environment's Python, the same is exported from the lock and
    unpacked for the nodes. Nothing of the target is run.
  - C(pyproject.toml) and C(uv.lock) are only read. With an O(override) a note in the environment,
    C(share/armstage/README.md), says why its versions are others than the lock's.
  - It is put together beside the environment in use and published by one rename, when torch is the wanted build and
    every program and library in it is for aarch64.
  - It is right when it was made from the same lock and options and holds what was put into it. An environment that
    C(uv sync) or C(uv run) changed is made again.
author: armstage maintainers (@armstage)
options:
  path:
    description: The project's folder, with its C(uv.lock).
    type: path
    required: true
  environment:
    description: Name of the environment's folder, in the project's folder or absolute.
    type: str
    default: .venv-aarch64
  python:
    description: The interpreter as the nodes see it; it need not run on this host.
    type: path
    required: true
  python_version:
    description: Its version, where the path does not say it.
    type: str
    default: ""
  tag:
    description: The build that torch has to be, such as V(cu130).
    type: str
    required: true
  override:
    description: Requirements that replace what the lock says, such as V(torch==2.11.0). Without them the lock is right.
    type: list
    elements: str
    default: []
  index_url:
    description: A package index to ask before the default one.
    type: str
    default: ""
  mirror:
    description: A folder or page of wheels, or a package index, instead of all others.
    type: str
    default: ""
  selection:
    description: Options of C(uv sync) that choose extras and groups, such as V(--extra=train).
    type: list
    elements: str
    default: []
  reason:
    description: Why the override is what it is, for the note.
    type: str
    default: ""
  uv:
    description: Path or name of C(uv), a program of this host's architecture.
    type: str
    default: uv
  cache_dir:
    description: uv's cache; uv's own choice when empty.
    type: str
    default: ""
  timeout:
    description: Seconds that each step of uv may take.
    type: float
    default: 3600
attributes:
  check_mode:
    description: Says whether the environment would be made.
    support: full
  diff_mode:
    description: Shows the packages before and, after a run, those there are then.
    support: partial
  platform:
    description: The systems it runs on.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Make the environment that the lock describes
  project_env:
    path: /work/shared/train
    python: /work/shared/.local/python/cpython-3.12.12-linux-aarch64-gnu/bin/python3.12
    tag: cu130

- name: Leave the lock to the others, and have another torch on the nodes
  project_env:
    path: /work/shared/train
    python: /usr/bin/python3.13
    tag: cu130
    override: [torch==2.11.0, torchvision==0.26.0]
"""

RETURN = r"""
environment:
  description: The environment's folder.
  returned: always
  type: str
  sample: /work/shared/train/.venv-aarch64
packages:
  description: What is installed in it; in check mode, what was before.
  returned: always
  type: dict
  sample: {torch: 2.11.0}
commands:
  description: How to run the project in it, for people.
  returned: always
  type: list
  elements: str
  sample: ["uv run --no-sync python train.py"]
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

from pathlib import Path

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.project import environment, note
from ansible.module_utils.armstage.staging.uv import Places
from ansible.module_utils.armstage.staging.venv import interpreter
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "path": {"type": "path", "required": True},
    "environment": {"type": "str", "default": ".venv-aarch64"},
    "python": {"type": "path", "required": True},
    "python_version": {"type": "str", "default": ""},
    "tag": {"type": "str", "required": True},
    "override": {"type": "list", "elements": "str", "default": []},
    "index_url": {"type": "str", "default": ""},
    "mirror": {"type": "str", "default": ""},
    "selection": {"type": "list", "elements": "str", "default": []},
    "reason": {"type": "str", "default": ""},
    "uv": {"type": "str", "default": "uv"},
    "cache_dir": {"type": "str", "default": ""},
    "timeout": {"type": "float", "default": 3600},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    options = module.params
    try:
        wanted = read(options)
        before = environment.packages(wanted.folder)
        changed = not environment.is_made(wanted)
        after = before
        if changed and not module.check_mode:
            after = environment.make(wanted, note.text(wanted, options["reason"]) if wanted.override else "")
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    module.exit_json(
        changed=changed,
        diff={"before": note.listing(before), "after": note.listing(after)},
        environment=str(wanted.folder),
        packages=after,
        commands=note.commands(wanted),
    )


def read(options: dict) -> environment.Wanted:
    """The options as the environment that is wanted."""
    project = Path(options["path"])
    return environment.Wanted(
        project=project,
        folder=project / options["environment"],
        python=interpreter(options["python"], options["python_version"]),
        uv=options["uv"],
        tag=options["tag"],
        override=tuple(options["override"]),
        selection=tuple(options["selection"]),
        places=Places(options["index_url"], options["mirror"]),
        cache_dir=options["cache_dir"],
        timeout=options["timeout"],
    )


if __name__ == "__main__":
    main()
