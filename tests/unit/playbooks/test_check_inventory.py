"""A playbook on an inventory without the groups that it works on: one message, not a success that did nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NEEDS = {
    "preflight": {"nodes"},
    "project": {"stagers"},
    "rollback": {"stagers"},
    "slurm_batches": {"nodes"},
    "stage": {"nodes", "stagers"},
    "verify": {"nodes"},
}


@pytest.mark.parametrize(("playbook", "needs"), NEEDS.items())
def test_every_group_that_is_missing_is_named(tmp_path, playbook, needs):
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"others": {"hosts": {"gb01": {}}}, "nodes": {}}))
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory)]
    run = subprocess.run(
        [*command, str(ROOT / "playbooks" / f"{playbook}.yml")], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert run.returncode == 2, run.stdout + run.stderr
    said = run.stdout[run.stdout.index("has no hosts in") :].partition("hint: ")
    assert {group for group in ("nodes", "stagers") if f"`{group}`" in said[0]} == needs
    assert said[2].startswith("Put who writes the toolchain into `stagers`")
