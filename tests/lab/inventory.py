"""The inventory of the demo: this machine is the stager, the lab's containers are the nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from armstage.files import write_atomic

LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
CONTAINER = {"ansible_connection": "containers.podman.podman", "ansible_python_interpreter": "/usr/bin/python3"}


def content(nodes: Sequence[str], variables: Mapping[str, str]) -> dict[str, object]:
    """Ansible's inventory structure. With no nodes this machine is its own node, as on a real arm64 host."""
    hosts = {name: {**CONTAINER, "armstage_stager": "localhost"} for name in nodes}
    return {
        "all": {
            "vars": dict(variables),
            "children": {
                "stagers": {"hosts": {"localhost": dict(LOCAL)}},
                "nodes": {"hosts": hosts or {"localhost": {"armstage_stager": "localhost"}}},
            },
        }
    }


def write(path: Path, root: str, nodes: Sequence[str], cuda_version: str = "13.0", **variables: str) -> None:
    """Write the inventory. `cuda_version` stands for the driver that a container lacks; empty: ask the node's own."""
    variables["armstage_root"] = root
    if cuda_version:
        variables["armstage_cuda_version"] = cuda_version
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, to_yaml(content(nodes, variables)))


def to_yaml(value: Mapping[str, object], depth: int = 0) -> str:
    """Nested mappings as block YAML; every scalar in JSON's form, which is YAML too."""
    text = ""
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            text += f"{'  ' * depth}{key}:\n{to_yaml(item, depth + 1)}"
        else:
            text += f"{'  ' * depth}{key}: {json.dumps(item)}\n"
    return text
