# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tasks on a compute node through Slurm; the thinking is in module_utils/armstage/slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
name: srun
short_description: Run tasks on a compute node through Slurm, without root and without ssh
version_added: "0.1.0"
author: armstage maintainers (@armstage)
description:
  - Runs in the job that O(job_id) names or, where none is named, in one that it makes for the node and cancels when the
    run is over, also after an error or Ctrl-C. While the job waits, Slurm's reason is shown.
  - A small process on this host holds one Slurm step open for each node. All tasks share it, so a play costs the
    controller one step a node and not one a task. It needs Python 3.9 on the node, as Ansible does.
  - Nothing of this host's environment reaches the node but C(HOME), C(USER) and C(LOGNAME).
  - Files take the shared filesystem where both sides see it, and else the step, with a checksum.
notes:
  - Privilege escalation works where it needs no password.
options:
  host:
    description: The node's name in Slurm.
    default: inventory_hostname
    vars: [{name: inventory_hostname}, {name: ansible_host}, {name: ansible_srun_host}]
  job_id:
    description: A running job that holds the node.
    default: ""
    vars: [{name: srun_job_id}]
    env: [{name: SLURM_JOB_ID}]
    ini: [{section: srun_connection, key: job_id}]
  persist:
    description: Seconds after which an unused step is closed; V(false) or V(0) for a step of its own for every task.
    default: 60
    type: raw
    vars: [{name: srun_persist}]
    env: [{name: ARMSTAGE_SRUN_PERSIST}]
    ini: [{section: srun_connection, key: persist}]
  partition:
    description: Partition of the job that is made.
    default: ""
    vars: [{name: srun_partition}]
    env: [{name: ARMSTAGE_SRUN_PARTITION}]
  account:
    description: Account of the job that is made.
    default: ""
    vars: [{name: srun_account}]
    env: [{name: ARMSTAGE_SRUN_ACCOUNT}]
  qos:
    description: QoS of the job that is made.
    default: ""
    vars: [{name: srun_qos}]
    env: [{name: ARMSTAGE_SRUN_QOS}]
  reservation:
    description: Reservation of the job that is made.
    default: ""
    vars: [{name: srun_reservation}]
    env: [{name: ARMSTAGE_SRUN_RESERVATION}]
  gres:
    description: Generic resources, such as V(gpu:1), of the job that is made.
    default: ""
    vars: [{name: srun_gres}]
    env: [{name: ARMSTAGE_SRUN_GRES}]
  cpus:
    description: Cores of the job that is made.
    default: ""
    vars: [{name: srun_cpus}]
    env: [{name: ARMSTAGE_SRUN_CPUS}]
  memory:
    description: Memory, such as V(16G), of the job that is made.
    default: ""
    vars: [{name: srun_memory}]
    env: [{name: ARMSTAGE_SRUN_MEMORY}]
  time:
    description: Time limit of the job that is made, as sbatch takes it; the job ends with the run in any case.
    default: "60"
    type: str
    vars: [{name: srun_time}]
    env: [{name: ARMSTAGE_SRUN_TIME}]
  sbatch_arguments:
    description: More options of sbatch for the job that is made.
    default: []
    type: list
    elements: str
    vars: [{name: srun_sbatch_arguments}]
  arguments:
    description: More options of srun for each step.
    default: []
    type: list
    elements: str
    vars: [{name: srun_arguments}]
  variables:
    description: Variables to set on the node.
    default: {}
    type: dict
    vars: [{name: srun_variables}]
  wait:
    description: Seconds to wait for the job that is made.
    default: 3600
    type: float
    vars: [{name: srun_wait}]
  connect_timeout:
    description: Seconds to wait for a step.
    default: 60
    type: float
    vars: [{name: srun_connect_timeout}]
  alive_timeout:
    description: Seconds without a sign of life after which the node counts as lost.
    default: 60
    type: float
    vars: [{name: srun_alive_timeout}]
extends_documentation_fragment: [connection_pipelining]
"""

import math
import os
import sys
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display

# Plugins of the control node can't import a project's module_utils by Ansible's name (docs/decisions).
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "module_utils"))

from armstage.errors import ArmstageError
from armstage.slurm import client, files
from armstage.slurm.allocation import Request
from armstage.slurm.single import run_single
from armstage.slurm.step import StepOptions, program

display = Display()
REQUESTED = ("partition", "account", "qos", "reservation", "gres", "cpus", "memory", "time")


class Connection(ConnectionBase):
    transport = "srun"
    has_pipelining = True

    def __init__(self, play_context, *args, **kwargs):
        super().__init__(play_context, *args, **kwargs)
        self._run_process = int(kwargs.get("ansible_playbook_pid") or os.getppid())

    def _connect(self):
        self._connected = True
        return self

    def close(self):
        self._connected = False

    def reset(self):
        """Nothing to do: the holder notices by itself what is gone, and an environment isn't kept."""

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self._run(["/bin/sh", "-c", to_text(cmd)], lambda: chunks(to_bytes(in_data or b"")))

    def put_file(self, in_path, out_path):
        super().put_file(in_path, out_path)
        if not os.path.exists(in_path):
            raise AnsibleFileNotFound(f"Expected a file at `{in_path}`, but found none")
        self._transfer(lambda: files.put(self._run, in_path, out_path))

    def fetch_file(self, in_path, out_path):
        super().fetch_file(in_path, out_path)
        self._transfer(lambda: files.fetch(self._run, in_path, out_path))

    def _transfer(self, transfer):
        try:
            transfer()
        except ArmstageError as error:
            raise AnsibleError(f"{self.get_option('host')}: {error.text}") from error

    def _run(self, argv, stdin=tuple, stdout=None):
        """(status, standard output, standard error). `stdin` makes the chunks; the output goes to `stdout` if given."""
        out, err = [], []
        sinks = {"stdout": stdout or out.append, "stderr": err.append}
        try:
            status = self._run_there(argv, lambda: iter(stdin()), sinks)
        except ArmstageError as error:
            raise AnsibleConnectionFailure(f"{self.get_option('host')}: {error.text}") from error
        return status, b"".join(out), b"".join(err)

    def _run_there(self, argv, stdin, sinks):
        specification = self._specification()
        if specification.idle:
            try:
                return client.run(specification, argv, stdin(), notice=self._tell, **sinks)
            except client.NoPython as error:
                display.vvv(f"{specification.node}: {error.message}; each task gets a step of its own")
        return run_single(self._step_options(specification), argv, stdin(), **sinks)

    def _tell(self, text):
        display.display(f"{self.get_option('host')}: {text}")

    def _specification(self):
        job = str(self.get_option("job_id") or "")
        request = None
        if not job:
            wanted = {name: str(self.get_option(name) or "") for name in REQUESTED}
            request = Request(self.get_option("host"), arguments=self.get_option("sbatch_arguments"), **wanted)
        return client.Specification(
            node=self.get_option("host"),
            job=job,
            request=request,
            owner=self._run_process,
            srun=program("srun"),
            arguments=self.get_option("arguments"),
            variables={name: str(value) for name, value in self.get_option("variables").items()},
            idle=seconds(self.get_option("persist")),
            wait=self.get_option("wait"),
            connect_timeout=self.get_option("connect_timeout"),
            alive_timeout=self.get_option("alive_timeout"),
        )

    def _step_options(self, specification):
        """Of a step for one command; a job that is made is the holder's all the same."""
        job = specification.job or client.job_of(specification, notice=self._tell)
        return StepOptions(
            job, specification.node, specification.srun, specification.arguments, specification.variables
        )


def chunks(data, size=65536):
    return iter([data[start : start + size] for start in range(0, len(data), size)])


def seconds(value):
    """``false``, ``60`` or ``"60"`` as a number."""
    words = {"false": 0.0, "no": 0.0, "true": 60.0, "yes": 60.0}
    text = str(value).lower()
    try:
        number = words[text] if text in words else float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise AnsibleError(f"Expected srun_persist to be false or a number of seconds, but received: `{value}`")
    return number
