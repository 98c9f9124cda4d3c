"""The lab is a cluster: aarch64 nodes, jobs of an unprivileged user, GPUs as Slurm hands them out."""

import json
from dataclasses import replace

from armstage.slurm import nodes


def test_nodes_register_as_aarch64_with_gpus(cluster):
    record = cluster.call("scontrol", "show", "node", "-o", "gb01")
    assert "Arch=aarch64" in record
    assert "Gres=gpu:gb200:4" in record
    assert "Arch=" not in cluster.call("scontrol", "show", "node", "-o", "gb03")


def test_a_step_runs_aarch64_programs_as_the_user_in_the_shared_folder(cluster):
    script = "uname -nm; id -un; python3 -c 'import platform; print(platform.machine())'; touch from-$(uname -n)"
    output = cluster.call("srun", "-N1", "-w", "gb02", "sh", "-c", script, user=True)
    assert output.splitlines() == ["gb02 aarch64", "user", "aarch64"]
    assert (cluster.home / "from-gb02").exists()


def test_a_job_sees_the_gpus_it_asked_for(cluster):
    output = cluster.call("srun", "-w", "gb01", "--gres=gpu:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", user=True)
    assert output.strip() == "0,1"


def test_the_inventory_of_the_cluster(run_inventory):
    inventory = run_inventory(count=1)
    assert inventory["usable"]["hosts"] == ["gb01", "gb02"]
    assert inventory["nodes"]["hosts"] == ["gb01"]
    reason = json.dumps(inventory["_meta"]["hostvars"]["gb03"]["slurm_unusable"])
    assert "never registered, its architecture is unknown" in reason


def test_every_form_that_this_slurm_prints_says_the_same(cluster):
    cluster.call("scontrol", "update", "NodeName=gb02", "State=DRAIN", "Reason=xid 79, seen twice")
    try:
        line = nodes.parse(cluster.call("scontrol", "show", "node", "-o"))
        forms = {
            command: cluster.call(*command.split(), check=False)
            for command in ("scontrol show node", "scontrol show node --json", "sinfo --json")
        }
    finally:
        cluster.call("scontrol", "update", "NodeName=gb02", "State=RESUME")
    assert [node.name for node in line] == ["gb01", "gb02", "gb03"]
    assert line[0].unusable() == ""
    assert "is drained (xid 79, seen twice" in line[1].unusable()
    assert "never registered" in line[2].unusable()
    assert said(nodes.parse(forms.pop("scontrol show node"))) == said(line)
    # 22.05 has JSON of sinfo only; from 23.02 on it is scontrol's that lists nodes one by one.
    listing = {command: text for command, text in forms.items() if '"nodes":' in text and '"sinfo":' not in text}
    assert listing
    for command, text in listing.items():
        assert said(nodes.parse(text)) == said(line), command


def said(found):
    """Without the date that scontrol's text has behind a reason."""
    return [replace(node, reason=node.reason.partition(" [")[0]) for node in found]
