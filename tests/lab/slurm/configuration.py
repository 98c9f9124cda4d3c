"""slurm.conf and gres.conf of the lab's cluster (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

GPUS = 4


def slurm_conf(folder: Path, host: str, nodes: Sequence[str], absent: Sequence[str], port: int) -> str:
    """``nodes`` run; ``absent`` ones are configured and never start. The ports from ``port`` on are used."""
    names = [*nodes, *absent]
    lines = {
        "ClusterName": "armstage",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": port,
        "SlurmUser": "root",
        "AuthInfo": f"socket={folder}/munge/socket",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "SlurmctldPidFile": folder / "run/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/run/slurmd-%n.pid",
        "SlurmctldLogFile": folder / "log/slurmctld.log",
        "SlurmctldDebug": "debug2",
        "SlurmdDebug": "verbose",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "TaskProlog": folder / "etc/task-prolog",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        # A node may claim 144 cores on a machine of two.
        "SlurmdParameters": "config_overrides",
        "MpiDefault": "none",
        "SwitchType": "switch/none",
        "ReturnToService": 2,
        "KillWait": 2,
        "MessageTimeout": 20,
        # Slurm drains the node of a step that takes longer to end; emulated ones may take more than its 60 s.
        "UnkillableStepTimeout": 600,
        "GresTypes": "gpu",
    }
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    for index, name in enumerate(names, 1):
        text += (
            f"NodeName={name} NodeAddr=127.0.0.1 Port={port + index} Sockets=2 CoresPerSocket=72 ThreadsPerCore=1 "
            f"RealMemory=1000 Feature=gb200,nvl72 Gres=gpu:gb200:{GPUS}\n"
        )
    text += f"PartitionName=gb200 Nodes={','.join(names)} Default=YES MaxTime=1:00:00 OverSubscribe=YES State=UP\n"
    return text + f"PartitionName=all Nodes={','.join(names)} MaxTime=10 State=UP\n"


def gres_conf() -> str:
    """GPUs are device files: a node whose gres.conf only counts them is drained."""
    return f"AutoDetect=off\nName=gpu Type=gb200 File=/dev/nvidia[0-{GPUS - 1}]\n"
