#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_facts
short_description: Read what the NVIDIA driver of a node says, and which source said it
version_added: "0.1.0"
description:
  - >-
    Reads, in this order, C(/sys/module/nvidia/version), C(/proc/driver/nvidia/version), libcuda and
    NVML through their C interfaces, and C(nvidia-smi) for what those left open. Nothing is changed.
  - >-
    A node without a driver, with a module that is not loaded, or with a driver that hangs is a
    fact, not a failure. See RV(ansible_facts.cuda.status).
  - >-
    The CUDA version is that of the driver's own libcuda. Only where a node has no libcuda and no
    C(nvidia-smi) at all, it is taken from a dated table, and RV(ansible_facts.cuda.sources) says so.
author:
  - armstage maintainers (@armstage)
options:
  root:
    description:
      - Folder below which C(proc/) and C(sys/) are read.
      - >-
        With another folder than V(/) nothing outside of it is read or run, except an O(nvidia_smi) that
        is given as a path.
    type: path
    default: /
  nvidia_smi:
    description: Path or name of C(nvidia-smi).
    type: str
    default: nvidia-smi
  timeout:
    description:
      - Seconds that each probe may take.
      - >-
        A probe that does not return, even one that cannot be killed, makes the status V(wedged) and is
        not waited for.
    type: float
    default: 10
  cuda_version:
    description:
      - CUDA version to report instead of what the node says, for a host that stages for others.
      - The status stays what was observed.
    type: str
  driver_version:
    description:
      - Driver version to report instead of what the node says; the CUDA version then comes from the table.
    type: str
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
- name: Read what the driver says
  cuda_facts:

- name: Give a slow node more time before it counts as wedged
  cuda_facts:
    timeout: 30

- name: Choose for compute nodes that this host cannot reach
  cuda_facts:
    cuda_version: "13.0"
"""

RETURN = r"""
ansible_facts:
  description: Facts under one key, C(cuda).
  returned: always
  type: dict
  contains:
    cuda:
      description: What the driver says.
      returned: always
      type: dict
      contains:
        status:
          description:
            - >-
              One of V(ok), V(no-driver), V(driver-not-loaded), V(no-devices), V(driver-library-mismatch),
              V(cuda-unreported), V(wedged).
          returned: always
          type: str
          sample: ok
        message:
          description: What was found, on which literal line.
          returned: always
          type: str
          sample: Driver 580.95.05, CUDA 13.0, NVIDIA GB10
        hint:
          description: What to do about it; empty when nothing is to be done.
          returned: always
          type: str
          sample: ""
        kernel_driver:
          description: Version of the loaded kernel module, or null.
          returned: always
          type: str
          sample: 580.95.05
        user_driver:
          description: Version that the user side (NVML, nvidia-smi, library files) names, or null.
          returned: always
          type: str
          sample: 580.95.05
        flavour:
          description: V(open) or V(proprietary) kernel module, or null.
          returned: always
          type: str
          sample: open
        arch:
          description: Architecture of the machine.
          returned: always
          type: str
          sample: aarch64
        platform:
          description: V(spark), V(grace-blackwell), V(grace-hopper), V(jetson) or V(other).
          returned: always
          type: str
          sample: spark
        cuda_version:
          description: Newest CUDA version that the driver runs, or null.
          returned: always
          type: str
          sample: "13.0"
        gpus:
          description:
            - >-
              One entry per GPU with C(index), C(name), C(uuid), C(bus_id), C(memory_total_mib),
              C(compute_capability) and C(mig) (boolean); null where the driver does not say.
          returned: always
          type: list
          elements: dict
          sample:
            - index: 0
              name: NVIDIA GB10
              uuid: GPU-6f1e5ab9-2c39-8c1f-7fb7-0d6d92a5fb5a
              bus_id: 0000000F:01:00.0
              memory_total_mib:
              compute_capability: "12.1"
              mig:
        mig_devices:
          description:
            - >-
              One entry per MIG device with C(gpu_index), C(index), C(name), C(uuid), C(gpu_instance_id),
              C(compute_instance_id) and C(memory_total_mib).
          returned: always
          type: list
          elements: dict
          sample: []
        processes:
          description:
            - >-
              Processes on the GPUs with C(pid), C(name), C(type) (V(C), V(G) or null), C(gpu_index) and
              C(used_memory_mib); by NVML or nvidia-smi, else the holders of C(/dev/nvidia*).
          returned: always
          type: list
          elements: dict
          sample: []
        unified_memory:
          description: Whether GPU and CPU share one memory.
          returned: always
          type: bool
          sample: true
        memory_total_mib:
          description: Size of that memory in MiB (MemTotal), null where the GPU has memory of its own.
          returned: always
          type: int
          sample: 124610
        disagreements:
          description: Values on which sources differ, each with C(value) and its C(readings).
          returned: always
          type: list
          elements: dict
          sample: []
        sources:
          description: For each value the C(source) it was read from and the literal C(line).
          returned: always
          type: dict
          sample:
            cuda_version:
              source: libcuda
              line: cuDriverGetVersion -> 13000
hint:
  description: What to do about a failure.
  returned: failure
  type: str
"""

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.nvidia import driver
from ansible.module_utils.basic import AnsibleModule

ARGUMENT_SPEC = {
    "root": {"type": "path", "default": "/"},
    "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
    "timeout": {"type": "float", "default": 10},
    "cuda_version": {"type": "str"},
    "driver_version": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        facts = driver.read(**module.params)
    except ArmstageError as error:
        module.fail_json(msg=error.message, hint=error.hint)
    module.exit_json(changed=False, ansible_facts={"cuda": facts})


if __name__ == "__main__":
    main()
