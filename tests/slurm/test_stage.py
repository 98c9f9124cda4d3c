"""`./armstage stage -i inventory/slurm` and what follows, as an unprivileged user types it on the login node."""

import json
import re
import subprocess

import pytest

from .conftest import Player, wait_until

LEAKS = Player.LEAKS


@pytest.fixture(scope="module")
def armstage(cluster):
    """armstage(verb, argument, ...): (exit status, output), with conda and a virtualenv of the login node active."""
    cache = cluster.borrow_uv_cache()

    def call(*arguments, timeout=420):
        done = subprocess.run(
            cluster.as_user(str(cluster.project / "armstage"), *arguments),
            env=cluster.environment(UV_CACHE_DIR=str(cache), COLUMNS="200", **LEAKS),
            cwd=cluster.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        return done.returncode, done.stdout

    return call


def variables(cluster, root):
    inventory = ("-i", str(cluster.project / "inventory/slurm"))
    return (*inventory, "-e", f"armstage_root={root}", "-e", "armstage_cuda_version=13.0")


@pytest.fixture(scope="module")
def staged(cluster, armstage):
    """The root that the user staged, and what was said."""
    root = cluster.home / ".local"
    status, text = armstage("stage", *variables(cluster, root))
    assert status == 0, text
    return root, text


def changed(text):
    return {host: int(count) for host, count in re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+)", text, re.MULTILINE)}


def test_one_command_allocates_stages_verifies_and_releases(cluster, staged):
    _root, text = staged
    assert set(changed(text)) == {"localhost", "gb01"}
    assert "decoded 60 frames" in text
    assert wait_until(lambda: not cluster.jobs(), 10)


def test_a_second_run_changes_nothing(cluster, staged, armstage):
    root, _text = staged
    before = cluster.requests()
    status, text = armstage("stage", *variables(cluster, root))
    assert status == 0, text
    assert changed(text) == {"localhost": 0, "gb01": 0}
    assert (cluster.requests() - before)["REQUEST_JOB_STEP_CREATE"] == 1
    assert wait_until(lambda: not cluster.jobs(), 10)


def test_a_job_of_the_template_proves_the_environment_and_has_its_gpus(cluster, staged):
    root, _text = staged
    output = cluster.home / "job.out"
    submit = ("sbatch", "--wait", "--parsable", "--gres=gpu:1", f"--output={output}", str(root / "job.sbatch"))
    program = "import os, sys; print(sys.prefix, 'gpus', os.environ['CUDA_VISIBLE_DEVICES'])"
    cluster.call(*submit, "python", "-c", program, user=True, timeout=180, variables=LEAKS)
    said = output.read_text()
    assert '"torch": "2.11.0+cu130"' in said
    assert '"frames": 60' in said
    assert said.splitlines()[-1] == f"{(root / 'envs/cu130').resolve()} gpus 0"
    cluster.call(*submit, "sh", "-c", "echo again; env", user=True, timeout=180, variables=LEAKS)
    said = output.read_text()
    assert "again" in said
    assert "frames" not in said
    assert not any(f"\n{name}=" in said for name in ("CONDA_PREFIX", "VIRTUAL_ENV", "PYTHONPATH", "SRUN_CPUS_PER_TASK"))


def test_a_job_fails_where_the_environment_does_not_work(cluster, staged):
    root, _text = staged
    proof = root / "share/armstage/prove.py"
    kept = proof.read_bytes()
    output = cluster.home / "broken.out"
    proof.write_text("import sys\nprint('expected 61 frames')\nsys.exit(1)\n")
    try:
        state = {"XDG_STATE_HOME": str(cluster.home / "fresh")}
        submit = ("sbatch", "--wait", f"--output={output}", str(root / "job.sbatch"), "echo", "went on")
        cluster.call(*submit, user=True, check=False, timeout=180, variables=state)
    finally:
        proof.write_bytes(kept)
    assert output.read_text().strip() == "expected 61 frames"


def test_the_fleet_is_one_step_whatever_single_nodes_do(cluster, staged, armstage):
    """gb01 answers with the preflight that is staged; on gb02 it hangs, as on a node whose filesystem does."""
    root, _text = staged
    preflight = root / "bin/armstage-preflight"
    kept = preflight.rename(preflight.with_suffix(".kept"))
    preflight.write_text(f'#!/bin/sh\n[ "$(uname -n)" = gb01 ] || exec sleep 600\nexec "{kept}" "$@"\n')
    preflight.chmod(0o755)
    before = cluster.requests()
    answers, report = cluster.home / "fleet.json", cluster.home / "report"
    options = (*variables(cluster, root), "-e", f"preflight_report={report}", "--timeout", "40", "--json", str(answers))
    try:
        status, text = armstage("verify", "--fleet", *options)
    finally:
        kept.replace(preflight)
    assert status == 2, text
    found = {answer["node"]: answer for answer in json.loads(answers.read_text())["nodes"]}
    assert found["gb01"]["verdict"] in ("ready", "warnings"), text
    assert (found["gb02"]["verdict"], found["gb03"]["verdict"]) == ("timed out", "unusable")
    assert "never registered" in found["gb03"]["detail"]
    assert re.search(r"^timed out +1  gb02", text, re.MULTILINE)
    assert (cluster.requests() - before)["REQUEST_JOB_STEP_CREATE"] <= 1
    hosts = {host["name"]: host for host in json.loads((report / "report.json").read_text())["hosts"]}
    checks = {check["id"]: check["status"] for check in hosts["gb01"]["checks"]}
    assert len(checks) == 15
    assert (checks["A1"], checks["A3"], checks["A4"]) == ("PASS", "PASS", "PASS"), hosts["gb01"]
    assert hosts["gb02"]["error"].startswith("timed out after 40 s")
    assert (hosts["gb02"]["asked"], hosts["gb03"]["asked"]) == (True, False)
    assert "gb02" in (report / "report.html").read_text()


def test_without_an_allocation_no_node_is_asked(cluster, staged, armstage):
    root, _text = staged
    before = cluster.requests()
    status, text = armstage(
        "stage", "--no-allocation", *variables(cluster, root), "-e", "armstage_node_python=/usr/bin/python3.13"
    )
    assert status == 0, text
    assert changed(text)["localhost"] == 0  # what was said about the node is what it says itself
    asked = cluster.requests() - before
    assert not asked["REQUEST_SUBMIT_BATCH_JOB"] + asked["REQUEST_JOB_STEP_CREATE"]


def test_without_an_allocation_the_cuda_must_be_said(cluster, armstage):
    arguments = ("-i", str(cluster.project / "inventory/slurm"), "-e", f"armstage_root={cluster.home}/other")
    status, text = armstage("stage", "--no-allocation", *arguments)
    assert status != 0
    assert "-e armstage_cuda_version=13.0" in text
    assert not (cluster.home / "other").exists()
