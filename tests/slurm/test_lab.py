"""The lab is a cluster: aarch64 nodes, jobs of an unprivileged user, GPUs as Slurm hands them out."""

import json


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
