"""The links between two Sparks, from sysfs: RoCE devices, their interfaces, MTU, GIDs.

Each QSFP port of a Spark is two devices, `rocep1s0f1` and `roceP2p1s0f1`, each half of its bandwidth.
`carrier` of an interface is what `ip link` shows as LOWER_UP; UP alone says that it was switched on.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .context import Context

DEVICES = "/sys/class/infiniband"
INTERFACES = "/sys/class/net"


@dataclass(frozen=True)
class Gid:
    """One entry of a port's table: ``address`` is an IPv4 or IPv6 text, ``kind`` is ``RoCE v2`` or another."""

    index: int
    address: str
    kind: str

    @property
    def usable(self) -> bool:
        """Whether NCCL can route over it: RoCE v2 with an IPv4 address."""
        return self.kind == "RoCE v2" and ":" not in self.address


@dataclass(frozen=True)
class Link:
    """One RoCE device. ``mtu`` is that of its interface, ``carrier`` whether the cable is alive."""

    device: str
    interface: str
    active: bool
    carrier: bool
    mtu: int | None
    rate: str
    gids: tuple[Gid, ...]

    @property
    def addresses(self) -> list[str]:
        return [gid.address for gid in self.gids if gid.usable]

    @property
    def port(self) -> str:
        """What both halves of a port have in common: ``1s0f1`` of rocep1s0f1 and of roceP2p1s0f1.

        Where the devices are called mlx5_0 and mlx5_1 their interfaces tell: enp1s0f1np1.
        """
        match = re.search(r"(\d+s\d+f\d+)$", self.device) or re.search(r"(\d+s\d+f\d+)(?:np\d+)?$", self.interface)
        return match[1] if match else self.device


def links(context: Context) -> list[Link]:
    return [_link(context, device) for device in context.listed(DEVICES)]


def _link(context: Context, device: str) -> Link:
    folder = f"{DEVICES}/{device}"
    interface = next(iter(context.listed(f"{folder}/device/net")), "")
    mtu = context.text(f"{INTERFACES}/{interface}/mtu") if interface else ""
    return Link(
        device,
        interface,
        "ACTIVE" in context.text(f"{folder}/ports/1/state"),
        bool(interface) and context.text(f"{INTERFACES}/{interface}/carrier") == "1",
        int(mtu) if mtu.isdecimal() else None,
        context.text(f"{folder}/ports/1/rate"),
        tuple(_gids(context, f"{folder}/ports/1")),
    )


def _gids(context: Context, port: str) -> list[Gid]:
    found = []
    for name in sorted(context.listed(f"{port}/gids"), key=lambda name: (len(name), name)):
        text = context.text(f"{port}/gids/{name}")
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            continue
        if int(address) and name.isdecimal():
            kind = context.text(f"{port}/gid_attrs/types/{name}")
            found.append(Gid(int(name), str(address.ipv4_mapped or address), kind))
    return found


def other_half(link: Link, every: Sequence[Link]) -> Link | None:
    """The other device of the same port."""
    return next((each for each in every if each.port == link.port and each.device != link.device), None)
