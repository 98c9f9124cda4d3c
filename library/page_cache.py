#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: page_cache
short_description: Drop the page cache, and say whether that helped
version_added: "0.1.0"
description:
  - On unified memory (DGX Spark) the page cache and the GPU compete for one pool, and on Grace systems file pages can
    sit in GPU memory. This module syncs, drops the cache, reads memory again and compares.
  - Says before it drops what dropping can't free - memory in no counter, which is what drivers hold; the ZFS ARC;
    mapped files; huge pages.
  - With O(paths) only these files leave the cache. That needs no root, and mincore measures what stayed.
  - Not idempotent without O(only_below) or O(paths), since every run drops again and reports a change.
  - With O(only_below) it changes nothing where enough memory is found, and with O(paths) where none of it is cached.
author: armstage maintainers (@armstage)
options:
  state:
    description: The cache is dropped.
    type: str
    choices: [dropped]
    default: dropped
  mode:
    description:
      - What to drop - file pages (V(pagecache)), directory entries and inodes (V(slab)) or V(all).
      - V(slab) and V(all) have hung with ZFS.
    type: str
    choices: [pagecache, slab, all]
    default: pagecache
  only_below:
    description:
      - GiB available. At or above it nothing is done.
      - Compared with the counter named by O(limit).
    type: float
  limit:
    description:
      - The counter that the next program will run into.
      - V(auto) is V(MemFree) where a GB10 shares the host's memory, since CUDA reports exactly that as free there, and
        V(MemAvailable) elsewhere.
    type: str
    choices: [auto, MemFree, MemAvailable]
    default: auto
  busy:
    description:
      - What to do when a process that may be computing has a GPU device open, found by its open files, not its name.
      - Services that only keep a device open, and displays, don't count.
      - Without effect on O(paths).
    type: str
    choices: [refuse, warn, ignore]
    default: refuse
  paths:
    description:
      - Evict only these files, and the files in these folders. Needs no root, only the right to read them.
      - Links to files are followed, links to folders below a named folder are not.
    type: list
    elements: path
    default: []
  root:
    description: Folder under which C(proc/) and C(sys/) are read and written. O(paths) are not looked up below it.
    type: path
    default: /
  timeout:
    description: Seconds that the sync may take, and then the write, which has been seen to hang for ever.
    type: float
    default: 60
  helper:
    description: The program that the role page_cache installs; used through C(sudo -n) by who may not write the target.
    type: path
    default: /usr/local/sbin/armstage-drop-cache
attributes:
  check_mode:
    description: Predicts what can be freed at most. Fails where a run would.
    support: full
  diff_mode:
    description: Shows memory before and after.
    support: full
  platform:
    description: The systems it runs on.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Drop the page cache before a model is loaded, unless 100 GiB are free already
  page_cache:
    only_below: 100
  become: true

- name: Evict the checkpoint that was just loaded, without root
  page_cache:
    paths:
      - /work/models/qwen3

- name: See what would be freed, and whether it would help
  page_cache:
  check_mode: true
  register: memory
"""

RETURN = r"""
message:
  description: What was done and what it freed, or why nothing was.
  returned: always
  type: str
  sample: "Freed 36.2 GiB: MemFree 26.5 GiB -> 62.7 GiB of 121.7 GiB"
hint:
  description: What to do where dropping can't help or was not possible; empty otherwise.
  returned: always
  type: str
helped:
  description:
    - Whether the limit is at O(only_below) now, or without it whether at least 1 % of all memory was freed.
    - For O(paths), whether at most 5 % of what was in memory stayed.
  returned: always
  type: bool
freed_bytes:
  description: How much MemFree rose; for O(paths) how much of the files left memory.
  returned: always
  type: int
  sample: 38869669478
before:
  description:
    - The counters of C(/proc/meminfo) under their own names, in bytes (C(HugePages_*) in pages).
    - What follows from them, as listed here.
  returned: when memory could be read
  type: dict
  contains: &memory
    MemFree:
      description: As every other counter.
      type: int
    in_no_counter:
      description: Bytes used that the kernel files under nothing; what drivers hold.
      type: int
    droppable:
      description: Bytes of page cache that can be dropped at most.
      type: int
    hugepages:
      description: Bytes set aside as huge pages.
      type: int
    zfs_arc:
      description: Bytes in the ZFS ARC.
      type: int
    nodes:
      description:
        - Per NUMA node C(node), C(MemTotal), C(MemFree), C(FilePages), C(in_no_counter) and C(gpu).
        - A node with memory and without CPUs is a GPU's.
      type: list
      elements: dict
    sysctls:
      description: The vm sysctls that bear on it.
      type: dict
after:
  description: The same afterwards; in check mode as predicted.
  returned: when memory could be read
  type: dict
  contains: *memory
verdict:
  description: Whether dropping can help, judged before it is done.
  returned: when memory could be read
  type: dict
  contains:
    answer:
      description: V(helps), V(cannot help) or V(not needed).
      type: str
    message:
      description: The answer with its reason and the numbers.
      type: str
      sample: "cannot help: 80.0 GiB in no counter; dropping frees at most 36.0 GiB; MemFree 3.0 GiB, ..."
    hint:
      description: What to do instead.
      type: str
    limit:
      description: The counter that binds.
      type: str
    limit_bytes:
      description: Its value.
      type: int
    gain_bytes:
      description: What can be freed at most.
      type: int
    reach_bytes:
      description: What the limit can become at most.
      type: int
notes:
  description: Sentences that explain the numbers, such as sysctls that hold memory back.
  returned: when memory could be read
  type: list
  elements: str
action:
  description: V(drop), V(evict), V(nothing) or V(refuse).
  returned: when memory could be read
  type: str
via:
  description: V(write), V(helper) or V(fadvise); empty where nothing was done.
  returned: when memory could be read
  type: str
mode:
  description: The mode asked for.
  returned: when memory could be read
  type: str
reason:
  description:
    - Why it failed - V(read-only), V(denied), V(missing), V(hung), V(failed), V(busy) or V(helper).
    - Empty otherwise.
  returned: when memory could be read
  type: str
skip_reason:
  description: Why nothing was to be done; empty otherwise.
  returned: when memory could be read
  type: str
holders:
  description: Processes with a GPU device open; C(pid), C(name), C(uid), C(devices), C(busy).
  returned: when memory could be read
  type: list
  elements: dict
unseen_processes:
  description: How many processes of other users could not be looked at.
  returned: when memory could be read
  type: int
evicted:
  description:
    - For O(paths) C(files), C(size_bytes), C(resident_before_bytes), C(resident_after_bytes).
    - C(unmeasured_files) are those of other users. Of C(left_files) and C(skipped_files) at most 20 each are in C(left)
      and C(skipped) with the reason.
  returned: when memory could be read
  type: dict
"""

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.memory.drop import HELPER
from ansible.module_utils.armstage.memory.meminfo import GIB
from ansible.module_utils.armstage.memory.page_cache import Request, act, observe, plan, predict, result
from ansible.module_utils.armstage.options import above_zero
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["dropped"], "default": "dropped"},
    "mode": {"type": "str", "choices": ["pagecache", "slab", "all"], "default": "pagecache"},
    "only_below": {"type": "float"},
    "limit": {"type": "str", "choices": ["auto", "MemFree", "MemAvailable"], "default": "auto"},
    "busy": {"type": "str", "choices": ["refuse", "warn", "ignore"], "default": "refuse"},
    "paths": {"type": "list", "elements": "path", "default": []},
    "root": {"type": "path", "default": "/"},
    "timeout": {"type": "float", "default": 60},
    "helper": {"type": "path", "default": HELPER},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    options = module.params
    below, limit = options["only_below"], options["limit"]
    try:
        request = Request(
            only_below=None if below is None else int(above_zero("only_below", below, "GiB") * GIB),
            paths=tuple(options["paths"]),
            limit="" if limit == "auto" else limit,
            **{name: options[name] for name in ("mode", "busy", "root", "timeout", "helper")},
        )
        seen = observe(request)
        planned = plan(request, seen)
        outcome = (predict if module.check_mode else act)(request, seen, planned)
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    for warning in (*planned.warnings, *outcome.warnings):
        module.warn(warning)
    answer = result(request, seen, planned, outcome, module.check_mode)
    if outcome.error:
        module.fail_json(msg=outcome.error.message, **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
