"""Which packages a machine is told to install, by distribution, architecture and what it already has."""

import pytest
from lab import emulation, prerequisites
from lab.host import Host
from lab.prerequisites import Need

APT = "apt-get install --no-install-recommends"
OLD_CGROUPS = {"unified_cgroups": False, "raises_limits": False}
MACHINES = {
    "Debian 12, hybrid cgroups": (
        Host(distribution="debian", version=(12,), **OLD_CGROUPS),
        "podman runc netavark aardvark-dns iptables qemu-user-static mmdebstrap arch-test debian-archive-keyring",
    ),
    "Debian 13": (
        Host(distribution="debian", version=(13,)),
        "podman crun netavark aardvark-dns nftables qemu-user mmdebstrap arch-test debian-archive-keyring",
    ),
    "Debian testing, without a version": (
        Host(distribution="debian"),
        "podman crun netavark aardvark-dns nftables qemu-user mmdebstrap arch-test debian-archive-keyring",
    ),
    "Ubuntu 24.04": (
        Host(distribution="ubuntu", version=(24, 4), like=("debian",)),
        "podman crun netavark aardvark-dns iptables qemu-user-static mmdebstrap arch-test debian-archive-keyring",
    ),
    "Ubuntu 26.04": (
        Host(distribution="ubuntu", version=(26, 4), like=("debian",)),
        "podman crun netavark aardvark-dns nftables qemu-user mmdebstrap arch-test debian-archive-keyring",
    ),
    "aarch64 Debian 13": (
        Host(distribution="debian", version=(13,), machine="aarch64"),
        "podman crun netavark aardvark-dns nftables mmdebstrap arch-test debian-archive-keyring",
    ),
}


def nothing(_name):
    return False


@pytest.mark.parametrize(("host", "packages"), MACHINES.values(), ids=MACHINES)
def test_an_empty_machine_needs(host, packages):
    absent = prerequisites.missing(prerequisites.needs(host, has_mirror=True), nothing)
    assert " ".join(need.name_for("apt-get") for need in absent) == packages


def test_without_a_mirror_nothing_that_unpacks_debian_is_needed():
    ubuntu = Host(distribution="ubuntu", version=(24, 4))
    names = [need.package for need in prerequisites.needs(ubuntu, has_mirror=False)]
    assert "mmdebstrap" not in names
    assert "podman" in names


def test_either_runtime_will_do_where_both_work_and_only_runc_elsewhere():
    def has_crun(name):
        return name == "crun"

    def wanted(host):
        return {need.package for need in prerequisites.missing(prerequisites.needs(host, False), has_crun)}

    assert not {"crun", "runc"} & wanted(Host(distribution="debian", version=(12,)))
    assert "runc" in wanted(Host(distribution="debian", version=(12,), **OLD_CGROUPS))


def test_a_helper_counts_wherever_podman_looks_for_it():
    needs = [need for need in prerequisites.needs(Host(), False) if need.package == "netavark"]
    for folder in prerequisites.HELPER_FOLDERS:
        assert not prerequisites.missing(needs, f"{folder}/netavark".__eq__)


@pytest.mark.parametrize(
    ("host", "command"),
    [
        (Host(distribution="debian", version=(12,)), f"{APT} qemu-user-static"),
        (Host(distribution="linuxmint", version=(22, 1), like=("ubuntu", "debian")), f"{APT} qemu-user-static"),
        (Host(distribution="rocky", version=(9, 4), like=("rhel", "fedora")), "dnf install qemu-user-static-aarch64"),
        (Host(distribution="opensuse-leap", like=("suse", "opensuse")), "zypper install qemu-linux-user"),
        (Host(distribution="arch"), "pacman -S qemu-user-static"),
    ],
)
def test_the_remedy_is_a_command_of_this_distribution(host, command):
    assert prerequisites.remedy(host, absent_emulator(host)) == f"As root: {command}"


def test_an_unknown_distribution_gets_the_names():
    host = Host(distribution="nixos")
    assert prerequisites.remedy(host, absent_emulator(host)) == "Install: qemu-user"


def absent_emulator(host):
    emulators = {str(path) for path in emulation.EMULATORS}
    return prerequisites.missing(prerequisites.needs(host, False), lambda name: name not in emulators)


def test_who_is_not_root_is_told_everything_at_once():
    host = Host(distribution="debian", version=(12,), root=False)
    wanted = [
        prerequisites.Need(("no-such-program",), "package-a"),
        prerequisites.Need(("/no/such/file",), "package-b"),
    ]
    with pytest.raises(Exception, match="`no-such-program`, `/no/such/file`") as caught:
        prerequisites.install(host, wanted)
    assert caught.value.hint == f"As root: {APT} package-a package-b"


def test_nothing_is_installed_where_nothing_is_missing():
    assert prerequisites.install(Host(root=False), [Need(("sh",), "dash")]) == []
