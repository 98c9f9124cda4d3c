"""`./armstage demo`: the main job on this machine, with an arm64 container as the compute node.

This machine is the login node: it stages for aarch64 and executes nothing of it. The node only verifies. Both see one
folder at one path, as a cluster's nodes see `/work`. On an aarch64 Linux machine the node is the machine itself.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path[:1] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "module_utils")]

from armstage.command_line import USAGE  # noqa: E402
from armstage.errors import ArmstageError  # noqa: E402
from lab import inventory, nodes, podman, prerequisites  # noqa: E402
from lab.host import Host, cache_folder, read_host  # noqa: E402

PROJECT = Path(__file__).resolve().parents[2]
NODE = "armstage-demo"
ASSUMED_CUDA = "13.0"


def has_driver() -> bool:
    return Path("/sys/module/nvidia").exists() or shutil.which("nvidia-smi") is not None


def prepare(host: Host, work: Path, hosts: Path) -> None:
    """Have the node running and the inventory written."""
    root = str(work / os.environ.get("USER", "user") / ".local")
    if not host.emulates:
        assumed = "" if has_driver() else ASSUMED_CUDA
        print(f"This aarch64 machine stages under {root} and verifies it")
        inventory.write(hosts, root, [], cuda_version=assumed)
    else:
        assumed = ASSUMED_CUDA
        print(f"Login node: this {host.machine} machine. Compute node: arm64 container `{NODE}`. Both see {work}")
        prerequisites.install(host)
        nodes.up(nodes.Node(NODE, shared=[str(work)]))
        inventory.write(hosts, root, [NODE], cuda_version=assumed)
    if assumed:
        print(f"No NVIDIA driver here: the run is told that the node's driver supports CUDA {assumed}")


def stage(hosts: Path, arguments: list[str]) -> int:
    """Run the playbook that every other inventory runs too."""
    playbook = ["ansible-playbook", "-i", str(hosts), str(PROJECT / "playbooks" / "stage.yml"), *arguments]
    variables = podman.environment() if shutil.which("podman") else {}
    return subprocess.run(playbook, env={**os.environ, **variables}, check=False).returncode


def parse(arguments: list[str]) -> list[str]:
    """The options for ansible-playbook."""
    parser = argparse.ArgumentParser(
        prog="./armstage demo",
        description=__doc__,
        epilog="Options are those of ansible-playbook, such as --check --diff or -e armstage_stack_name=2026.11.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser.parse_known_args(arguments)[1]


def main() -> int:
    options = parse(sys.argv[1:])
    started = time.monotonic()
    folder = cache_folder() / "demo"
    host = read_host()
    try:
        prepare(host, folder / "work", folder / "inventory.yml")
    except ArmstageError as error:
        print(f"armstage: {error.text}", file=sys.stderr)
        return USAGE
    status = stage(folder / "inventory.yml", options)
    print(f"Took {time.monotonic() - started:.0f} s in all")
    if status == 0 and host.emulates:
        settings = podman.environment()["CONTAINERS_CONF"]
        print(f"Look around in the node:  CONTAINERS_CONF={settings} podman exec -it {NODE} bash")
    return status


if __name__ == "__main__":
    sys.exit(main())
