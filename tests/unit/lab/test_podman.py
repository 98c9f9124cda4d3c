"""The settings that podman gets, and the containers that nodes are."""

import json
import os
import re
import tomllib

import pytest
import yaml
from lab import inventory, nodes, podman
from lab.host import Host

PODMAN = """\
#!/bin/sh
echo "$*" >>"CALLS"
case $1 in
    container) cat "DETAILS" ;;
    start) [ STARTS = yes ] || { echo "container state improper" >&2; exit 125; } ;;
    exec) stat -c "%d %i" / ;;
esac
"""

PLAIN = Host(distribution="debian", version=(13,), machine="aarch64")


def test_an_ordinary_machine_keeps_podmans_own_settings():
    assert tomllib.loads(podman.settings(PLAIN, has_runc=True, variables={})) == {
        "network": {"network_backend": "netavark"}
    }


def test_a_machine_without_systemd_or_unified_cgroups():
    host = Host(systemd=False, unified_cgroups=False, raises_limits=False, limits={"nofile": 1024, "nproc": 94956})
    settings = tomllib.loads(podman.settings(host, has_runc=True, variables={"QEMU_CPU": "neoverse-n1"}))
    assert settings["engine"] == {"runtime": "runc", "cgroup_manager": "cgroupfs", "events_logger": "file"}
    assert settings["containers"]["default_ulimits"] == ["nofile=1024:1024", "nproc=20000:20000"]
    assert settings["containers"]["env"] == ["QEMU_CPU=neoverse-n1", f"PATH={podman.PATH}"]


def test_crun_stays_where_there_is_no_runc():
    host = Host(unified_cgroups=False)
    assert "runtime" not in podman.settings(host, has_runc=False, variables={})


def test_a_node_sees_its_folders_at_the_same_path_and_the_rest_read_only():
    node = nodes.Node("n1", shared=["/work"], network="internal", mounts={"/proc/meminfo": "/x/meminfo"})
    arguments = nodes.creation(node, "image:1", {"/etc/ssl/certs/ca-certificates.crt": "/ca.crt"})
    volumes = [arguments[index + 1] for index, word in enumerate(arguments) if word == "--volume"]
    assert volumes == ["/work:/work", "/ca.crt:/etc/ssl/certs/ca-certificates.crt:ro", "/x/meminfo:/proc/meminfo:ro"]
    assert arguments[arguments.index("--network") + 1] == nodes.INTERNAL_NETWORK
    assert arguments[-4] == "image:1"
    assert "--privileged" not in arguments


def test_no_program_is_process_1_itself():
    assert nodes.creation(nodes.Node("n1"), "image:1", {})[-3] == "/bin/sh"


def test_the_inventory_names_who_stages_and_who_runs(tmp_path):
    path = tmp_path / "new" / "hosts.yml"
    inventory.write(path, "/work/me/.local", ["n1", "n2"], note='a "quoted" word')
    groups = yaml.safe_load(path.read_text())["all"]
    assert groups["vars"] == {
        "armstage_root": "/work/me/.local",
        "armstage_cuda_version": "13.0",
        "note": 'a "quoted" word',
    }
    assert list(groups["children"]["stagers"]["hosts"]) == ["localhost"]
    assert groups["children"]["nodes"]["hosts"]["n2"]["ansible_connection"] == "containers.podman.podman"
    assert {host["armstage_stager"] for host in groups["children"]["nodes"]["hosts"].values()} == {"localhost"}


def test_without_containers_this_machine_is_the_node(tmp_path):
    inventory.write(tmp_path / "hosts.yml", "/opt/armstage", [], cuda_version="")
    groups = yaml.safe_load((tmp_path / "hosts.yml").read_text())["all"]
    assert list(groups["children"]["nodes"]["hosts"]) == ["localhost"]
    assert groups["vars"] == {"armstage_root": "/opt/armstage"}


@pytest.mark.parametrize(
    ("running", "starts", "made", "changed"),
    [(True, "no", [], False), (False, "yes", ["start"], True), (False, "no", ["start", "rm", "run"], True)],
)
def test_a_node_that_can_not_be_started_is_replaced(tmp_path, monkeypatch, running, starts, made, changed):
    """podman stands in: no command brings a container into a state that it can't be started from.

    So does the emulator's list of processors: unit tests come before what installs an emulator.
    """
    calls, details, program = tmp_path / "calls", tmp_path / "details.json", tmp_path / "podman"
    text = PODMAN.replace("CALLS", str(calls)).replace("DETAILS", str(details)).replace("STARTS", starts)
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(nodes.emulation, "register", lambda _host: None)
    monkeypatch.setattr(nodes.emulation, "cpu_model", lambda: nodes.emulation.CPU_MODELS[0])
    node = nodes.Node("n1")
    assert nodes.up(node, "image:1")
    labels = dict(re.findall(rf"--label ({nodes.SPECIFICATION})=(\w+)", calls.read_text()))
    calls.unlink()
    details.write_text(json.dumps([{"Config": {"Labels": labels}, "State": {"Running": running}}]))
    assert nodes.up(node, "image:1") is changed
    verbs = [line.split()[0] for line in calls.read_text().splitlines()]
    assert [verb for verb in verbs if verb in ("start", "rm", "run")] == made
