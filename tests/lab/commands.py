"""The lab's subcommands: each takes this host and the parsed arguments, and returns an exit status."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path

from armstage.errors import ArmstageError

from . import apt, archives, emulation, image, inventory, mirror, nodes, podman, prerequisites
from .host import Host, cache_folder, read_host

# The same each time, for what is staged records where it came from.
MIRROR_PORT = 18931


def check(host: Host, _arguments: argparse.Namespace) -> int:
    absent = prerequisites.missing(prerequisites.needs(host, apt.mirror(host) is not None))
    if absent:
        print(f"Missing: {', '.join(need.found[0] for need in absent)}\n{prerequisites.remedy(host, absent)}")
    elif host.emulates and not emulation.is_registered():
        print("Everything is installed; arm64 programs are not registered with the kernel yet: lab.py prepare")
    else:
        print("Everything is there")
    return 1 if absent else 0


def prepare(host: Host, _arguments: argparse.Namespace) -> int:
    prerequisites.install(host)
    emulation.register(host)
    print(image.ensure(host))
    return 0


def make_image(host: Host, _arguments: argparse.Namespace) -> int:
    print(image.ensure(host))
    return 0


def up(_host: Host, arguments: argparse.Namespace) -> int:
    for name in arguments.names:
        node = nodes.Node(
            name,
            shared=arguments.shared,
            network=arguments.network,
            mounts=dict(pair.split("=", 1) for pair in arguments.mount),
            environment=dict(pair.split("=", 1) for pair in arguments.env),
        )
        print(f"{name}: {'started' if nodes.up(node) else 'already up'}")
    return 0


def down(_host: Host, arguments: argparse.Namespace) -> int:
    for name in arguments.names or nodes.names():
        print(f"{name}: {'removed' if nodes.down(name) else 'not there'}")
    return 0


def show(_host: Host, _arguments: argparse.Namespace) -> int:
    print("\n".join(nodes.names()))
    return 0


def environment(_host: Host, _arguments: argparse.Namespace) -> int:
    for name, value in podman.environment().items():
        print(f"export {name}='{value}'")
    return 0


def write_inventory(_host: Host, arguments: argparse.Namespace) -> int:
    inventory.write(arguments.file, arguments.root, arguments.names, arguments.cuda_version)
    return 0


def fill_mirror(host: Host, arguments: argparse.Namespace) -> int:
    folder = arguments.folder or cache_folder() / "mirror"
    made = archives.lay_out(folder, host)
    if not arguments.serve:
        print(json.dumps(archives.extra_vars(made), indent=2))
        return 0
    faults = dict(pair.split("=", 1) for pair in arguments.fault)
    with mirror.Mirror(folder, faults, arguments.port) as served:
        print(json.dumps(archives.extra_vars(made, served.url), indent=2), flush=True)
        threading.Event().wait()
    return 0


def clean(_host: Host, arguments: argparse.Namespace) -> int:
    for name in nodes.names():
        nodes.down(name)
    nodes.remove_network()
    image.remove(archives=arguments.archives)
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lab.py", description="arm64 nodes on this machine.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, action: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(action=action)
        return command

    add("check", check, "say what is missing on this machine; changes nothing")
    add("prepare", prepare, "install what is missing, register the emulator, make the image")
    add("image", make_image, "make the node's image if it is not there, and print its name")
    command = add("up", up, "have these nodes running")
    command.add_argument("names", nargs="+", metavar="NAME")
    command.add_argument(
        "--shared", action="append", default=[], metavar="FOLDER", help="has the same path in the node"
    )
    command.add_argument("--network", choices=["none", "host", "bridge", "internal"], default="none")
    command.add_argument("--mount", action="append", default=[], metavar="INSIDE=OUTSIDE", help="read-only")
    command.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    command = add("down", down, "remove these nodes, or every node of the lab")
    command.add_argument("names", nargs="*", metavar="NAME")
    add("list", show, "print the names of the lab's nodes")
    add("environment", environment, 'print what podman and ansible-playbook need: eval "$(lab.py environment)"')
    command = add("inventory", write_inventory, "write an inventory: this machine stages, these nodes verify")
    command.add_argument("file", type=Path)
    command.add_argument("names", nargs="*", metavar="NAME")
    command.add_argument("--root", required=True)
    command.add_argument("--cuda-version", default="13.0")
    command = add("mirror", fill_mirror, "make the upstream archives, and print the roles' variables for them")
    command.add_argument("folder", nargs="?", type=Path, help="default: below the cache folder")
    command.add_argument("--serve", action="store_true", help="and serve them until interrupted")
    command.add_argument("--port", type=int, default=MIRROR_PORT)
    faults = ", ".join(f"{name} ({text})" for name, text in mirror.FAULTS.items())
    text = f"for paths with PART: {faults}"
    command.add_argument("--fault", action="append", default=[], metavar="PART=FAULT", help=text)
    command = add("clean", clean, "remove the lab's nodes, network and images")
    command.add_argument("--archives", action="store_true", help="and the archives that images are loaded from")
    return top


def main() -> int:
    arguments = parser().parse_args()
    try:
        return int(arguments.action(read_host(), arguments))
    except KeyboardInterrupt:
        return 130
    except ArmstageError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 1
