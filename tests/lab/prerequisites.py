"""The programs that the lab needs: which are missing, and the packages that bring them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from armstage.errors import ArmstageError

from . import apt, emulation
from .alone import alone
from .command import output_of, say
from .host import Host

# netavark and aardvark-dns are helpers of podman's, outside PATH (`helper_binaries_dir` of containers.conf(5)).
HELPER_FOLDERS = ("/usr/libexec/podman", "/usr/lib/podman", "/usr/local/libexec/podman", "/usr/local/lib/podman")
# From these releases on the package qemu-user holds the static emulator, qemu-user-static is a transitional package
# that depends on it, and netavark recommends nftables; before, qemu-user is dynamic and netavark calls iptables. A
# derivative counts as before: there both names are known.
NEW_PACKAGES = {"debian": (13,), "ubuntu": (25, 4)}


@dataclass(frozen=True)
class Need:
    """One program or file: any of `found` will do. `packages`: package manager -> name, where it is not `package`."""

    found: tuple[str, ...]
    package: str
    packages: tuple[tuple[str, str], ...] = ()

    def name_for(self, manager: str) -> str:
        return dict(self.packages).get(manager, self.package)


MANAGERS = {
    "apt-get": ("debian", "ubuntu"),
    "dnf": ("fedora", "rhel", "centos"),
    "zypper": ("suse", "opensuse"),
    "pacman": ("arch",),
}
INSTALL = {
    "apt-get": "apt-get install --no-install-recommends",
    "dnf": "dnf install",
    "zypper": "zypper install",
    "pacman": "pacman -S",
}


def helper(name: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for folder in HELPER_FOLDERS)


def needs(host: Host, has_mirror: bool) -> list[Need]:
    """What this machine must have: an emulator where it is not arm64, mmdebstrap where it has a Debian mirror."""
    since = NEW_PACKAGES.get(host.distribution)
    old = host.uses_apt and (since is None or () < host.version < since)
    usable_crun = host.unified_cgroups and host.raises_limits
    wanted = [
        Need(("podman",), "podman"),
        Need(("crun", "runc") if usable_crun else ("runc",), "crun" if usable_crun else "runc"),
        Need(helper("netavark"), "netavark"),
        Need(helper("aardvark-dns"), "aardvark-dns"),
        Need(("iptables",), "iptables") if old else Need(("nft",), "nftables"),
    ]
    if host.emulates:
        others = (("dnf", "qemu-user-static-aarch64"), ("zypper", "qemu-linux-user"), ("pacman", "qemu-user-static"))
        package = "qemu-user-static" if old else "qemu-user"
        wanted.append(Need(tuple(map(str, emulation.EMULATORS)), package, others))
    if has_mirror:
        wanted += [
            Need(("mmdebstrap",), "mmdebstrap"),
            Need(("arch-test",), "arch-test"),
            Need((str(apt.KEYRING),), "debian-archive-keyring"),
        ]
    return wanted


def is_present(name: str) -> bool:
    """A program on PATH, or a file; an emulator must be static besides."""
    if not name.startswith("/"):
        return shutil.which(name) is not None
    path = Path(name)
    return path.exists() and (path not in emulation.EMULATORS or emulation.is_static(path))


def missing(wanted: Iterable[Need], present: Callable[[str], bool] = is_present) -> list[Need]:
    return [need for need in wanted if not any(map(present, need.found))]


def manager_of(host: Host) -> str | None:
    """The package manager of this distribution or of the one that it derives from."""
    known = (host.distribution, *host.like)
    return next((manager for manager, names in MANAGERS.items() if set(names) & set(known)), None)


def remedy(host: Host, absent: Sequence[Need]) -> str:
    """One sentence: exactly what to install here."""
    manager = manager_of(host)
    names = " ".join(need.name_for(manager or "") for need in absent)
    return f"As root: {INSTALL[manager]} {names}" if manager else f"Install: {names}"


def install(host: Host, wanted: Sequence[Need] | None = None) -> list[str]:
    """Install what is missing of `wanted`, or of all that nodes need. The packages installed; empty where none was.

    Raises ArmstageError where it is not for us to install: another distribution, or no root.
    """
    absent = missing(needs(host, apt.mirror(host) is not None) if wanted is None else wanted)
    if not absent:
        return []
    if not (host.root and host.uses_apt and shutil.which("apt-get")):
        programs = ", ".join(f"`{need.found[0]}`" for need in absent)
        raise ArmstageError(f"Missing on this machine: {programs}", hint=remedy(host, absent))
    names = [need.name_for("apt-get") for need in absent]
    say(f"Installing {' '.join(names)}")
    install_packages(names)
    return names


def install_packages(names: Sequence[str]) -> None:
    """apt-get install, as root; it waits for another apt's lock, and asks nothing."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    command = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    with alone():  # apt waits for dpkg's lock, not for the one of its lists
        output_of([*command, "update"], timeout=600, env=environment)
        output_of([*command, "install", "--no-install-recommends", *names], timeout=1800, env=environment)
