#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: staged_release
short_description: Stage one version of a component under a root
version_added: "0.1.0"
author: armstage maintainers (@armstage)
description:
  - Fetches an archive from the first source that answers, verifies it, unpacks it beside the store and publishes it by
    one rename. At any moment, after any kill, full disk or lost node, a release is complete or absent.
  - Nothing in the archive is executed, so an x86_64 host can stage for aarch64 nodes.
  - A lock makes parallel runs safe, also from several hosts on NFS or Lustre without flock.
  - A release that is already there from any of the sources is used as it is, without a request, a lock or a write. One
    whose files are no longer those that were published is staged again.
attributes:
  check_mode:
    description: Predicts what a run would change, on an empty host too; asks sources only where a release is missing.
    support: full
  diff_mode:
    description: Shows the component's releases and links before and after.
    support: full
  platform:
    description: The systems it runs on.
    support: full
    platforms: linux
options:
  name:
    description: Name of the component, the first part of its folder's name.
    type: str
    required: true
  version:
    description: Version of the component.
    type: str
    required: true
  dest:
    description: The root; it is made where it is missing.
    type: path
    required: true
  sources:
    description:
      - Where the archive can be had, in order; the first that answers is used. Required for O(state=present).
      - A download is accepted only with the right digest, from O(sources[].sha256), O(sources[].sha256_url), or, for
        V(pypi:) addresses, the package index.
    type: list
    elements: dict
    suboptions:
      url:
        description:
          - An V(http:), V(https:) or V(file:) address, a path, or V(pypi:<project>/<version>/<file name>), which is a
            file of the package index that this host is configured for.
        type: str
        required: true
      sha256:
        description: The archive's digest.
        type: str
      sha256_url:
        description: A checksum file of the same release, read over TLS; the digest found there is recorded.
        type: str
      kind:
        description: A label for messages and records.
        type: str
        default: upstream
      strip_components:
        description: Leading folders to drop from the names in the archive; the default is O(strip_components).
        type: int
      select:
        description: The folder of the archive, after O(sources[].strip_components), that is the content.
        type: str
      into:
        description: The folder of the release that the content is put in.
        type: str
      plain_sonames:
        description: Make a link C(libavutil.so.59) beside every C(libavutil-2a27f4d8.so.59.39.100).
        type: bool
        default: false
  link:
    description: A link below O(dest) to O(link_target).
    type: str
  link_target:
    description: A path inside the release; the default is the release's folder.
    type: str
    default: .
  links:
    description: More links, each a path below O(dest), with the path inside the release that it names.
    type: dict
    default: {}
  strip_components:
    description: Leading folders to drop, for sources that don't say so themselves.
    type: int
    default: 0
  elf_machine:
    description:
      - The machine that every ELF file of the release must be for; a release with another is refused, naming the file.
      - Empty for no check.
    type: str
    default: aarch64
  state:
    description:
      - V(present) stages the version and points the links to it. V(absent) removes this version and the links to it.
      - A release that another link names, or that a process of this host has open, is not removed.
    type: str
    choices: [present, absent]
    default: present
  keep:
    description: Older releases to keep besides those that something still names or has open.
    type: int
    default: 1
  replace:
    description:
      - Edits of text files before publishing.
      - In O(replace[].new), C({release}) stands for the release's final path, C({link}) for the path of the first link
        and C({root}) for the root. An edit that changes nothing is an error.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: A glob of files inside the release.
        type: str
        required: true
      old:
        description: The text to replace.
        type: str
        required: true
      new:
        description: The text to put in its place.
        type: str
        required: true
  index_url:
    description: The package index for V(pypi:) addresses, in place of the one this host is configured for.
    type: str
  timeout:
    description: Seconds without a byte after which a transfer is given up; to connect, at most 10.
    type: float
    default: 60
  unreachable:
    description:
      - Addresses known to be out of reach, each with the reason, as M(sources_info) finds them. They are not asked.
    type: dict
    default: {}
  required:
    description: Fail when no source can be used. Otherwise RV(available) says so.
    type: bool
    default: true
  progress:
    description: A text file that is rewritten about once a second with C(done total label), and removed at the end.
    type: path
  run_id:
    description: A name of the run, kept in the release's record.
    type: str
"""

EXAMPLES = r"""
- name: Stage uv for aarch64
  staged_release:
    name: uv
    version: 0.10.0
    dest: /opt/armstage
    link: bin/uv-aarch64
    link_target: uv
    sources:
      - url: https://github.com/astral-sh/uv/releases/download/0.10.0/uv-aarch64-unknown-linux-gnu.tar.gz
        sha256: c300afd5f2d31df039fe6a26a2d68a76b62832098c272a43e1e74ab9efd4fbd7
        strip_components: 1
      - url: pypi:uv/0.10.0/uv-0.10.0-py3-none-manylinux_2_28_aarch64.whl
        sha256: eb95d28590edd73b8fdd80c27d699c45c52f8305170c6a90b830caf7f36670a4
        kind: pypi
        select: uv-0.10.0.data/scripts

- name: Stage FFmpeg libraries from a wheel that bundles them
  staged_release:
    name: ffmpeg
    version: "7.1"
    dest: /opt/armstage
    link: ffmpeg-linuxarm64
    sources:
      - url: pypi:av/15.1.0/av-15.1.0-cp312-cp312-manylinux_2_28_aarch64.whl
        sha256: 86226d2474c80c3393fa07a9c366106029ae500716098b72b3ec3f67205524c3
        kind: pypi
        select: av.libs
        into: lib
        plain_sonames: true

- name: Remove a version
  staged_release:
    name: uv
    version: 0.9.30
    dest: /opt/armstage
    link: bin/uv-aarch64
    state: absent
"""

RETURN = r"""
available:
  description: Whether the version is staged or a source for it answers.
  returned: success
  type: bool
release:
  description: The release that is there, or in check mode would be.
  returned: success
  type: dict
  contains:
    name: {description: Name of the component., type: str, returned: always}
    version: {description: Version of the component., type: str, returned: always}
    path: {description: "Its folder; empty when there is none.", type: str, returned: always}
    digest: {description: SHA-256 of its archive., type: str, returned: always}
    source: {description: "The C(kind), C(url) and C(sha256) of where it is from.", type: dict, returned: always}
    size: {description: "Bytes of its files; 0 while it is only predicted.", type: int, returned: always}
    files: {description: "Number of its files; 0 while it is only predicted.", type: int, returned: always}
    elf: {description: Number of its ELF files by machine., type: dict, returned: always, sample: {aarch64: 2}}
    link: {description: "Path of the first link; empty without one.", type: str, returned: always}
    seconds: {description: How long it took., type: float, returned: always}
skipped_sources:
  description: Sources that came before the one used and could not be.
  returned: success
  type: list
  elements: dict
  sample: [{url: "https://example.org/uv.tar.gz", kind: upstream, reason: HTTP 404 Not Found}]
actions:
  description: What was done, or in check mode would be, in order.
  returned: success
  type: list
  elements: str
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

import time

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging.desired import from_options
from ansible.module_utils.armstage.staging.outcome import result
from ansible.module_utils.armstage.staging.progress import reporter
from ansible.module_utils.armstage.staging.release import act, predict
from ansible.module_utils.basic import AnsibleModule

SOURCE = {
    "url": {"type": "str", "required": True},
    "sha256": {"type": "str"},
    "sha256_url": {"type": "str"},
    "kind": {"type": "str", "default": "upstream"},
    "strip_components": {"type": "int"},
    "select": {"type": "str"},
    "into": {"type": "str"},
    "plain_sonames": {"type": "bool", "default": False},
}

EDIT = {
    "path": {"type": "str", "required": True},
    "old": {"type": "str", "required": True},
    "new": {"type": "str", "required": True},
}

ARGUMENT_SPEC = {
    "name": {"type": "str", "required": True},
    "version": {"type": "str", "required": True},
    "dest": {"type": "path", "required": True},
    "sources": {"type": "list", "elements": "dict", "options": SOURCE},
    "link": {"type": "str"},
    "link_target": {"type": "str", "default": "."},
    "links": {"type": "dict", "default": {}},
    "strip_components": {"type": "int", "default": 0},
    "elf_machine": {"type": "str", "default": "aarch64"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "keep": {"type": "int", "default": 1},
    "replace": {"type": "list", "elements": "dict", "options": EDIT, "default": []},
    "index_url": {"type": "str"},
    "timeout": {"type": "float", "default": 60},
    "unreachable": {"type": "dict", "default": {}},
    "required": {"type": "bool", "default": True},
    "progress": {"type": "path"},
    "run_id": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC, required_if=[("state", "present", ["sources"])], supports_check_mode=True
    )
    started = time.monotonic()
    try:
        desired = from_options(module.params)
        done = predict(desired)
        if done.plan.changes and not module.check_mode:
            with reporter(module.params["progress"] or "") as report:
                done = act(desired, done, report)
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    module.exit_json(**result(desired, done, time.monotonic() - started))


if __name__ == "__main__":
    main()
