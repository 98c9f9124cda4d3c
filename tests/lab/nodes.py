"""Nodes: containers of the lab's image that stay up until they are taken down.

The shared folder has the same path on both sides, as `/work` has on a cluster: what the stager writes there, every
node sees.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from armstage.errors import ArmstageError

from . import emulation, image, podman
from .host import Host, read_host

SPECIFICATION = f"{podman.LABEL}.specification"
INTERNAL_NETWORK = "armstage-internal"
# A shell waits in front of `sleep`: the kernel ignores a fatal signal of process 1 itself, so that a program that
# crashed there would hang for ever. The shell ends at once when asked to, and it reaps what is left behind.
WAIT = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; sleep infinity & wait")
CERTIFICATES_INSIDE = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True)
class Node:
    """What a node is to be.

    `network`: `none`, `host`, `bridge`, or `internal` (other nodes can be reached by name, nothing outside can).
    `shared`: folders that have the same path inside. `mounts`: path inside -> path outside, read-only.
    """

    name: str
    shared: Sequence[str] = ()
    network: str = "none"
    mounts: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    privileged: bool = False


def up(node: Node, reference: str | None = None) -> bool:
    """Have this node running. True when it had to be created, started or replaced.

    Raises ArmstageError where a container of that name is not the lab's.
    """
    host = read_host()
    emulation.register(host)
    arguments = creation(node, reference or image.ensure(host), platform_mounts(host))
    specification = hashlib.sha256(json.dumps(arguments).encode()).hexdigest()[:16]
    found = inspect(node.name)
    for folder in node.shared:
        Path(folder).mkdir(parents=True, exist_ok=True)
    if (
        found
        and found["specification"] == specification
        and (found["running"] or podman.succeeds("start", node.name))
        and _sees(node)
    ):
        return not found["running"]
    if found:  # another one, or broken: podman may have lost track of it so that it can't be started
        down(node.name)
    if node.network == "internal":
        ensure_network()
    podman.call("run", "--detach", "--label", f"{SPECIFICATION}={specification}", *arguments)
    return True


def _sees(node: Node) -> bool:
    """Whether a node runs on, and the shared folders in it are those of now: one that was made again is another."""
    now = [f"{os.stat(folder).st_dev} {os.stat(folder).st_ino}" for folder in node.shared]
    seen = podman.attempt("exec", node.name, "stat", "-c", "%d %i", "/", *node.shared)
    return seen.rc == 0 and seen.out.splitlines()[1:] == now


def down(name: str) -> bool:
    """Remove a node. False when there was none; ArmstageError where the container of that name is not the lab's."""
    found = inspect(name)
    if found is None:
        return False
    if not found["specification"]:
        raise ArmstageError(
            f"Expected container `{name}` to be one of the lab's, but it has no label `{SPECIFICATION}`",
            hint=f"Choose another name, or remove it yourself: podman rm -f {name}",
        )
    podman.call("rm", "--force", "--time", "0", name)
    return True


def names() -> list[str]:
    """Every node of the lab, running or not."""
    return podman.lines("ps", "--all", "--filter", f"label={SPECIFICATION}", "--format", "{{.Names}}")


def inspect(name: str) -> dict[str, object] | None:
    """`running` and `specification` (empty for a container that is not the lab's), or None where there is none."""
    if not podman.succeeds("container", "exists", name):
        return None
    details = json.loads(podman.call("container", "inspect", name))[0]
    labels = details["Config"].get("Labels") or {}
    return {"running": details["State"]["Running"], "specification": labels.get(SPECIFICATION, "")}


def creation(node: Node, reference: str, mounts: Mapping[str, str]) -> list[str]:
    """The arguments of `podman run` that make this node (pure)."""
    volumes = [f"{folder}:{folder}" for folder in node.shared]
    volumes += [f"{outside}:{inside}:ro" for inside, outside in {**mounts, **node.mounts}.items()]
    network = INTERNAL_NETWORK if node.network == "internal" else node.network
    return [
        *("--name", node.name, "--hostname", node.name),
        *("--arch", "arm64", "--pull", "never"),
        *("--network", network),
        *(("--privileged",) if node.privileged else ()),
        *(word for volume in volumes for word in ("--volume", volume)),
        *(word for key, value in node.environment.items() for word in ("--env", f"{key}={value}")),
        reference,
        *WAIT,
    ]


def platform_mounts(host: Host) -> dict[str, str]:
    """What every node gets from here: the certificates trusted here and, where arm64 is emulated, arm64 processors."""
    mounts = {}
    certificates = ssl.get_default_verify_paths().cafile
    if certificates:
        mounts[CERTIFICATES_INSIDE] = str(Path(certificates).resolve())
    if host.emulates:
        mounts["/sys/devices/system/cpu"] = str(emulation.processor_folder())
    return mounts


def ensure_network() -> None:
    """A network without a way out, on which nodes find each other by name."""
    if not podman.succeeds("network", "exists", INTERNAL_NETWORK):
        podman.call("network", "create", "--internal", "--label", f"{podman.LABEL}=network", INTERNAL_NETWORK)


def remove_network() -> None:
    if podman.succeeds("network", "exists", INTERNAL_NETWORK):
        podman.call("network", "rm", INTERNAL_NETWORK)


def execute(name: str, command: Sequence[str], timeout: float = 600, user: str = "root") -> str:
    """Standard output of a command in a node."""
    return podman.call("exec", "--user", user, name, *command, timeout=timeout)
