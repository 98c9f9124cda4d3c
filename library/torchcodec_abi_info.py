#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: torchcodec_abi_info
short_description: Tell which torchcodec core an environment will load, and what keeps it from loading
version_added: "0.1.0"
author: armstage maintainers (@armstage)
description:
  - Reads the ELF files of torchcodec, torch, Python and FFmpeg and follows the dynamic loader's own order of search.
  - torchcodec holds one core per FFmpeg major and takes the highest whose libraries all load, so an FFmpeg 8 of the
    system is taken before an FFmpeg 7 in a folder of one's own.
  - Works on any host for an environment of any machine. Nothing is executed or imported.
options:
  env:
    description:
      - Python environment that holds torchcodec, or a folder filled by C(pip install --target).
      - One of O(env) and O(torchcodec_dir) is required.
    type: path
  torchcodec_dir:
    description:
      - The C(torchcodec) folder in a site-packages folder.
    type: path
  ffmpeg_dirs:
    description:
      - Folders that come first on LD_LIBRARY_PATH, in their order.
    type: list
    elements: path
    default: []
  library_dirs:
    description:
      - Folders that follow on LD_LIBRARY_PATH.
      - By default those of the environment that torchcodec needs there, which are returned as RV(library_dirs).
    type: list
    elements: path
  root:
    description:
      - Folder that stands for C(/) where the loader's own folders are concerned, such as C(/usr/lib64), and
        C(/etc/ld.so.cache).
    type: path
    default: /
  ffmpeg_major:
    description:
      - FFmpeg major version that is to be loaded. Loading another one is a problem then.
    type: int
  glibc:
    description:
      - Version of glibc on the node, such as V(2.28). By default that of O(root), where there is one for the machine.
    type: str
  page_size:
    description:
      - Bytes of a page on the node. By default that of this host, where it is of the same machine.
      - Where it is not known, RV(page_size_ok) is about 65536, and is no problem in itself.
    type: int
  elf_machine:
    description:
      - Machine of the node, as C(uname -m) prints it.
      - By default V(aarch64) where the environment's Python or any of torchcodec is for it, else that of torchcodec.
    type: str
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
- name: See what torchcodec will load
  torchcodec_abi_info:
    env: /opt/armstage/envs/cu130
    ffmpeg_dirs: [/opt/armstage/ffmpeg-linuxarm64/lib]
    ffmpeg_major: 7
  register: abi

- name: Refuse an environment whose torchcodec does not load
  torchcodec_abi_info:
    env: /opt/armstage/envs/cu130
    ffmpeg_dirs: [/opt/armstage/ffmpeg-linuxarm64/lib]
  register: abi
  failed_when: not abi.ok

- name: Ask on a login node about a compute node
  torchcodec_abi_info:
    env: /work/alice/.local/envs/cu130
    ffmpeg_dirs: [/work/alice/.local/ffmpeg-linuxarm64/lib]
    elf_machine: aarch64
    page_size: 65536
    glibc: "2.35"
"""

RETURN = r"""
ok:
  description: Whether torchcodec will load, and load what was asked for.
  type: bool
  returned: always
selected_core:
  description:
    - Number of the first core, in the order they are tried, whose FFmpeg libraries are all there and fit.
    - Failing that, of the first whose FFmpeg libraries are all there.
    - V(null) where no FFmpeg is whole.
  type: int
  returned: always
  sample: 7
cores:
  description: The cores of torchcodec in the order they are tried.
  type: list
  elements: dict
  returned: always
  contains:
    core:
      description: Number of the core.
      type: int
    ffmpeg_major:
      description: FFmpeg major version it is for.
      type: int
    status:
      description: V(complete), V(partial) or V(absent), of the FFmpeg libraries it needs.
      type: str
    missing:
      description: Sonames of FFmpeg libraries that were not found, or not in a usable form.
      type: list
      elements: str
    folders:
      description: Folders that its FFmpeg was found in.
      type: list
      elements: str
other_missing:
  description: Sonames outside FFmpeg that were not found.
  type: list
  elements: str
  returned: always
  sample: [libnppicc.so.13]
wrong_arch:
  description: Files that the loader passes over because they are for another machine.
  type: list
  elements: str
  returned: always
glibc_required:
  description: Newest version of glibc that torchcodec or its FFmpeg needs, V(null) where none.
  type: str
  returned: always
  sample: "2.28"
page_size:
  description: Bytes of a page that RV(page_size_ok) is about.
  type: int
  returned: always
page_size_ok:
  description: Whether torchcodec and its FFmpeg load on a kernel with pages of RV(page_size).
  type: bool
  returned: always
message:
  description: What will be loaded, or the first problem.
  type: str
  returned: always
hint:
  description: What to do about the first problem, empty where there is none.
  type: str
  returned: always
problems:
  description: Every problem, the one to cure first at the head.
  type: list
  elements: dict
  returned: always
  contains:
    message:
      description: What is wrong.
      type: str
    hint:
      description: What to do about it.
      type: str
torchcodec:
  description: Version of torchcodec, as it says itself.
  type: str
  returned: always
  sample: 0.11.1+cu130
torch:
  description: Version of torch, as it says itself; V(null) where there is none.
  type: str
  returned: always
  sample: 2.11.0+cu130
machine:
  description: Machine the files were looked at for.
  type: str
  returned: always
  sample: aarch64
library_dirs:
  description: Folders on LD_LIBRARY_PATH after O(ffmpeg_dirs).
  type: list
  elements: str
  returned: always
assumed:
  description: Libraries left to the node, where O(root) is not a system of its machine.
  type: list
  elements: str
  returned: always
"""

from dataclasses import asdict

from ansible.module_utils.armstage.elf.torchcodec import inspect
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "env": {"type": "path"},
    "torchcodec_dir": {"type": "path"},
    "ffmpeg_dirs": {"type": "list", "elements": "path", "default": []},
    "library_dirs": {"type": "list", "elements": "path"},
    "root": {"type": "path", "default": "/"},
    "ffmpeg_major": {"type": "int"},
    "glibc": {"type": "str"},
    "page_size": {"type": "int"},
    "elf_machine": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        mutually_exclusive=[("env", "torchcodec_dir")],
        required_one_of=[("env", "torchcodec_dir")],
        supports_check_mode=True,
    )
    try:
        inspection = inspect(**module.params)
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    module.exit_json(changed=False, **asdict(inspection))


if __name__ == "__main__":
    main()
