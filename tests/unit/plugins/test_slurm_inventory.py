"""The inventory plugin, run by ansible-inventory itself over recorded output of scontrol."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RECORD = "20.11-one-line.txt"


@pytest.fixture
def listed(tmp_path, fixtures):
    """listed(scontrol's shell commands, option=value): (status, inventory or None, standard error)."""

    def call(script=f'cat "{fixtures}/scontrol/{RECORD}"', **options):
        scontrol = tmp_path / "scontrol"
        scontrol.write_text(f"#!/bin/sh\n{script}\n")
        scontrol.chmod(0o755)
        config = tmp_path / "cluster.slurm.yml"
        config.write_text(json.dumps({"plugin": "slurm", "scontrol": str(scontrol), **options}))
        done = subprocess.run(
            [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(config), "--list"],
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "COLUMNS": "1000"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, json.loads(done.stdout) if done.returncode == 0 else None, done.stderr

    return call


def test_groups_and_variables(listed):
    status, inventory, errors = listed(
        count=1,
        keyed_groups=[{"key": "slurm_version", "prefix": "slurm", "default_value": "unknown"}],
        groups={"big": "slurm_memory_mib > 900000"},
        compose={"cpus_a_gpu": "slurm_cpus // slurm_gpus"},
        partitions=["gb200"],
    )
    assert status == 0, errors
    hosts = {name: group.get("hosts") for name, group in inventory.items() if name != "_meta"}
    assert hosts["usable"] == hosts["nodes"] == ["gb200-rack1-09"]
    assert hosts["unusable"] == ["gb200-rack1-10", "gb200-rack1-11"]
    assert hosts["partition_all"] == hosts["feature_gb200"] == hosts["big"]
    assert hosts["arch_aarch64"] == hosts["gpu_gb200"] == ["gb200-rack1-09", "gb200-rack1-10"]
    assert hosts["state_down"] == hosts["state_not_responding"] == ["gb200-rack1-10", "gb200-rack1-11"]
    assert hosts["slurm_20_11_9"] == ["gb200-rack1-09", "gb200-rack1-10"]
    variables = inventory["_meta"]["hostvars"]
    assert variables["gb200-rack1-09"]["slurm_gpus"] == 4
    assert variables["gb200-rack1-09"]["cpus_a_gpu"] == 36
    assert "is down; does not respond" in str(variables["gb200-rack1-10"]["slurm_unusable"])


@pytest.mark.parametrize("nodelist", [["gb200-rack1-[09-10]"], ["gb200-rack1-09", "gb200-rack1-10"]])
def test_nodes_are_named_by_hostlists(listed, nodelist):
    status, inventory, errors = listed(nodelist=nodelist, tolerate=["down", "not_responding"])
    assert status == 0, errors
    assert inventory["usable"]["hosts"] == ["gb200-rack1-09", "gb200-rack1-10"]
    assert "login1" not in inventory["_meta"]["hostvars"]


@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        (
            "echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
            {},
            "scontrol ping",
        ),
        (
            "echo 'scontrol: fatal: Could not establish a configuration source' >&2; exit 1",
            {},
            "on a host of the cluster",
        ),
        (
            "echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)'; exit 1",
            {},
            "scontrol ping",
        ),
        ("sleep 30", {"timeout": 0.3}, "no answer within 0.3 s"),
        ("", {"scontrol": "/nowhere/scontrol"}, "Failed to start `/nowhere/scontrol`: No such file or directory"),
        (None, {"partitions": ["gb300"]}, "all, gb200"),
        (None, {"nodelist": ["gb[01-"]}, "not closed"),
        (None, {"nodelist": ["gb200-rack1-[09,77-78]"]}, "no node `gb200-rack1-[77-78]`"),
        (None, {"groups": {"x": "slurm_nothing == 1"}}, "slurm_nothing"),
    ],
)
def test_errors_say_it_once_and_without_a_traceback(listed, script, options, words):
    status, _inventory, errors = listed(**options) if script is None else listed(script, **options)
    assert status != 0
    assert words in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"script": "echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1"},
            "armstage: `{scontrol} show node -o` failed: slurm_load_node error: Unable to contact slurm controller\n"
            "hint: Slurm's controller does not answer: see `scontrol ping`, and try again when it is back\n",
        ),
        (
            {"scontrol": "/nowhere/scontrol"},
            "armstage: Failed to start `/nowhere/scontrol`: No such file or directory\n"
            "hint: Run this on a host of the cluster that has Slurm's commands, such as a login node\n",
        ),
    ],
)
def test_an_error_is_all_that_is_printed(listed, tmp_path, options, expected):
    status, _inventory, errors = listed(**options)
    assert (status, errors) == (3, expected.format(scontrol=tmp_path / "scontrol"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": -1}, "Expected `count` to be at least 0, but received: `-1`"),
        ({"gpus": -1}, "Expected `gpus` to be at least 0, but received: `-1`"),
        ({"timeout": 0}, "Expected `timeout` to be above 0, but received: `0`"),
        ({"gpus": "many"}, "'many'"),
        ({"format": "yaml"}, "'yaml'"),
    ],
)
def test_an_option_that_can_not_be_meant_is_an_error_and_the_file_no_list_of_hosts(listed, options, words):
    status, _inventory, errors = listed(**options)
    assert (status, errors.startswith("armstage: ")) == (3, True)
    assert words in errors
    assert "hint: " in errors


@pytest.mark.parametrize("tolerated", [["down", "no_respond"], ["DOWN*"], ["down+not_responding"]])
def test_machines_and_states_by_their_other_names(listed, tolerated):
    _status, inventory, _errors = listed(architectures=["ARM64"], tolerate=tolerated)
    assert inventory["usable"]["hosts"] == ["gb200-rack1-09", "gb200-rack1-10"]


def test_an_empty_word_tolerates_nothing(listed):
    _status, inventory, _errors = listed(
        "echo 'NodeName=gb01 Arch=aarch64 State=UNKNOWN Gres=gpu:4'", tolerate=["", " "]
    )
    assert inventory["unusable"]["hosts"] == ["gb01"]


def test_where_a_source_may_fail_the_others_are_read(listed, monkeypatch):
    monkeypatch.setenv("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", "false")
    status, inventory, errors = listed(scontrol="/nowhere/scontrol")
    assert (status, inventory["_meta"]["hostvars"]) == (0, {})
    assert "Failed to start `/nowhere/scontrol`" in errors


def test_with_a_cache_the_controller_need_not_answer(listed, tmp_path):
    options = {"cache": True, "cache_plugin": "jsonfile", "cache_connection": str(tmp_path / "cache")}
    _status, inventory, _errors = listed(**options)
    assert listed("exit 1", **options)[1] == inventory


def test_a_thousand_nodes_are_read_in_less_than_two_seconds(listed, fixtures, tmp_path):
    line = (fixtures / "scontrol" / RECORD).read_text().splitlines()[0]
    many = tmp_path / "many.txt"
    many.write_text("".join(line.replace("gb200-rack1-09", f"gb{number:04}") + "\n" for number in range(1000)))
    listed()  # the first start of ansible-inventory reads its files from the disk
    before = os.times().children_user
    status, inventory, errors = listed(f'cat "{many}"')
    assert status == 0, errors
    assert len(inventory["usable"]["hosts"]) == 1000
    assert os.times().children_user - before < 2
