"""G10: a run over two Sparks: is it asked for in a way that can start, and are the links between them fit for it.

The field disagrees with "never tensor parallel over two Sparks": NVIDIA's own playbooks do it, and what
was measured differs by workload. So it is not forbidden; what was measured, by whom and when, is said.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..elf.words import listed, quoted
from . import fabric
from .context import Context
from .fabric import Link
from .launch import UNKNOWN, Launch
from .model import INFO, PASS, SKIP, WARN, Fact, Finding, worst
from .occupancy import command_line, find
from .settings import Read
from .settings import find as find_files
from .settings import read as read_file
from .shell import Command, Setting, options, with_inner
from .thresholds import THRESHOLDS

NO_CONFIGURATION = "no configuration was given (--config)"
ENVIRONMENT = "environment"

NAMES_OF_DEVICES = ("ucx_net_devices",)
"""Variables that name RoCE devices or interfaces, with a port (UCX)."""


def check(context: Context) -> Finding:
    read = [read_file(path) for path in find_files(context.request.configs)]
    running = list(_running(context))
    settings = [setting for each in read for setting in each.settings] + [s for each in running for s in options(each)]
    commands = [command for each in read for command in each.commands] + running
    links = fabric.links(context)
    up = [link for link in links if link.active and link.carrier]
    launch = Launch(settings, commands, max(1, len(context.driver["gpus"])))
    asks = [*_unread(read), *launch.findings()]
    if not launch.over_two and not up:
        files = f"{len(read)} file{'s' if len(read) > 1 else ''}"
        looked = f"{files} {'ask' if len(read) > 1 else 'asks'} for one GPU" if read else NO_CONFIGURATION
        return worst(asks, Finding(SKIP, f"one Spark: no ConnectX link is up and {looked}", source=fabric.DEVICES))
    problems = [*asks, *_links(links, up, launch.over_two), *_variables(context, settings, up)]
    return worst(problems, _fine(links, up, launch))


def _running(context: Context) -> Iterator[Command]:
    """The command lines of the programs on the GPU."""
    for tenant in find(context):
        words = command_line(context, tenant.pid)
        if words:
            yield from with_inner(words, f"pid {tenant.pid}")


def _unread(read: Sequence[Read]) -> Iterator[Finding]:
    problems = [each.problem for each in read if each.problem]
    if problems:
        yield Finding(WARN, "; ".join(problems[:3]), "Give the file that the program reads, or write it as JSON")


def _links(links: Sequence[Link], up: Sequence[Link], over_two: bool) -> Iterator[Finding]:
    known = THRESHOLDS["two_sparks"]
    if over_two and not up:
        states = listed(f"{link.device} {'active' if link.active else 'down'}" for link in links) or "no RoCE device"
        yield Finding(
            WARN,
            f"two Sparks are asked for, and no ConnectX link is up ({states}): the run would go over the slow network",
            "Plug the QSFP cable in and bring both halves of the port up (`ip link set dev ... up`)",
            fabric.DEVICES,
        )
    small = [link for link in up if link.mtu is not None and link.mtu < known["mtu"]]
    if small:
        names = listed(f"{link.interface} has {link.mtu}" for link in small)
        hint = f"On both Sparks: `ip link set dev {small[0].interface} mtu {known['mtu']}`, and in netplan, to last"
        yield Finding(WARN, f"MTU below {known['mtu']}: {names}", hint, known["mtu_source"])
    without = [link.device for link in up if not link.addresses]
    if without:
        hint = "Give the interface an IPv4 address, the same network on both Sparks"
        yield Finding(
            WARN, f"{listed(without)} {_has(without)} no RoCE v2 GID with an IPv4 address", hint, fabric.DEVICES
        )
    halves = [(link, half) for link in up if (half := fabric.other_half(link, links)) and half not in up]
    for link, half in halves:
        hint = f"Bring {half.interface or half.device} up as well: address, MTU, `ip link set dev ... up`"
        yield Finding(
            WARN, f"only {link.device} of its port is up, {half.device} is down", hint, known["halves_source"]
        )


def _has(names: Sequence[str]) -> str:
    return "have" if len(names) > 1 else "has"


def _variables(context: Context, settings: Sequence[Setting], up: Sequence[Link]) -> Iterator[Finding]:
    """NCCL's and the launchers' variables, of the job and of the files, against the links there are."""
    known = THRESHOLDS["two_sparks"]
    environ = {
        name.lower(): Setting(name.lower(), value, ENVIRONMENT)
        for name, value in context.request.environ.items()
        if name.isupper()
    }
    files = {setting.name: setting for setting in settings if setting.variable}
    every = {**environ, **files}
    # One that is empty is as good as not set, and what the script's own variables hold nobody knows here.
    given: Mapping[str, Setting] = {
        name: each for name, each in every.items() if str(each.value) and not UNKNOWN.search(str(each.value))
    }
    if not up:
        return
    devices, interfaces = [link.device for link in up], [link.interface for link in up]
    addresses = [address for link in up for address in link.addresses]
    chosen = given.get("nccl_ib_hca")
    if chosen:
        named = [device for device in devices if _names(str(chosen.value), device)]
        left = [device for device in devices if device not in named]
        if not named or left:
            which = f"leaves out {quoted(left)}" if named else f"names none of {quoted(devices)}"
            hint = f"NCCL_IB_HCA={','.join(devices)}"
            yield Finding(WARN, f"NCCL_IB_HCA=`{chosen.value}` ({chosen.where}) {which}", hint, known["halves_source"])
    yield from _sockets(given)
    index = given.get("nccl_ib_gid_index")
    if index and re.fullmatch(r"\d{1,5}", str(index.value)):
        wrong = [link.device for link in up if int(index.value) not in [gid.index for gid in link.gids if gid.usable]]
        if wrong:
            detail = f"NCCL_IB_GID_INDEX=`{index.value}` ({index.where}) is no RoCE v2 IPv4 GID of {quoted(wrong)}"
            yield Finding(WARN, detail, "Unset it: NCCL finds the GID of each device itself", known["gid_source"])
    for name, setting in given.items():
        if name.endswith("_socket_ifname"):
            yield from _off_the_link(
                setting, interfaces, [_chosen(name, str(setting.value), each) for each in interfaces]
            )
        elif name in NAMES_OF_DEVICES:
            either = [*interfaces, *devices]
            words = [word.partition(":")[0] for word in str(setting.value).split(",")]
            yield from _off_the_link(setting, either, [word in (*either, "all") for word in words])
        elif name.endswith("host_ip") and addresses:
            yield from _off_the_link(setting, addresses, [_is_on(setting, address) for address in addresses])


def _sockets(given: Mapping[str, Setting]) -> Iterator[Finding]:
    """NCCL that is told to leave RoCE alone."""
    for name, value in (("nccl_ib_disable", "1"), ("nccl_net", "socket")):
        setting = given.get(name)
        if setting and str(setting.value).lower() == value:
            yield Finding(
                WARN,
                f"{name.upper()}=`{setting.value}` ({setting.where}) keeps NCCL from using RoCE: it goes over sockets",
                f"Unset {name.upper()}: NCCL uses the ConnectX devices by itself",
                "docs.nvidia.com/deeplearning/nccl, Environment Variables, 2026-12-01",
            )


def _chosen(name: str, value: str, interface: str) -> bool:
    """Whether a variable leaves an interface to be used: NCCL compares as it does devices, Gloo whole names."""
    return _names(value, interface) if name.startswith("nccl") else interface in value.split(",")


def _is_on(setting: Setting, own: str) -> bool:
    """Whether an address is on a link: this node's own, or, in a file, also the other node's of that network."""
    try:
        given, here = ipaddress.ip_address(str(setting.value)), ipaddress.ip_address(own)
    except ValueError:
        return str(setting.value) == own
    if setting.where == ENVIRONMENT:
        return given == here
    # A GID has no length of its network in it: two Sparks are given a /24, or link-local addresses.
    network = ipaddress.ip_network(f"{own}/{16 if here.is_link_local else 24}", strict=False)
    return given in network


def _names(value: str, device: str) -> bool:
    """NCCL's own rule: a list of prefixes, ``=`` in front for exact names, ``^`` to leave out."""
    words = [word.partition(":")[0] for word in value.lstrip("^=").split(",") if word]
    exact, without = value.lstrip("^").startswith("="), value.startswith("^")
    found = any(device == word if exact else device.startswith(word) for word in words)
    return found != without


def _off_the_link(setting: Setting, expected: Sequence[str], fits: Sequence[bool]) -> Iterator[Finding]:
    if expected and not any(fits):
        yield Finding(
            WARN,
            f"{setting.name.upper()}=`{setting.value}` ({setting.where}) is not on a ConnectX link:"
            f" {quoted(dict.fromkeys(expected))}",
            "Put every *_SOCKET_IFNAME and *_HOST_IP on the link: a queue that advertises another address hangs"
            " once NCCL is up",
            "MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#9",
        )


def _fine(links: Sequence[Link], up: Sequence[Link], launch: Launch) -> Finding:
    known = THRESHOLDS["two_sparks"]
    facts: list[Any] = [
        Fact(
            link.device,
            f"{link.interface or 'no interface'}, {'up' if link in up else 'down'}, MTU {link.mtu},"
            f" {link.rate or 'no rate'}, RoCE v2 {', '.join(link.addresses) or 'none'}",
            f"{fabric.DEVICES}/{link.device}",
        )
        for link in links
    ]
    asked = [each for each in (launch.tensor, launch.pipeline) if each]
    facts += [Fact(each.name, str(each.value), each.where) for each in asked]
    facts += [Fact(each["what"], each["measured"], each["source"]) for each in known["tensor_parallel"]]
    ready = f"{listed(link.device for link in up)} up, MTU {', '.join(str(link.mtu or 'unknown') for link in up)}"
    if not launch.over_two:
        return Finding(PASS, f"{ready}; nothing asks for a second Spark", source=fabric.DEVICES, facts=tuple(facts))
    measured = "; ".join(f"{each['what']} {each['measured']} ({each['source']})" for each in known["tensor_parallel"])
    wanted = listed(f"{each.name} {each.value}" for each in asked) or "several nodes"
    detail = f"{wanted} over two Sparks; {ready}; no bandwidth was measured here. Others measured: {measured}"
    return Finding(PASS if up else INFO, detail, source=known["source"], facts=tuple(facts))
