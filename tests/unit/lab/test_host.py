"""What the lab reads of the machine it runs on."""

from lab import host

DEBIAN = """\
PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
VERSION="12 (bookworm)"
VERSION_CODENAME=bookworm
ID=debian
"""
MINT = """\
NAME="Linux Mint"
ID=linuxmint
ID_LIKE="ubuntu debian"
VERSION_ID="22.1"
# a comment=with a sign
"""
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max processes             94956                94956                processes
Max open files            1024                 524288               files
Max locked memory         unlimited            unlimited            bytes
"""


def test_os_release_values_lose_their_quotes():
    assert host.parse_os_release(DEBIAN)["VERSION_CODENAME"] == "bookworm"
    assert host.parse_os_release(DEBIAN)["VERSION_ID"] == "12"
    assert host.parse_os_release(MINT)["ID_LIKE"] == "ubuntu debian"
    assert "# a comment" not in host.parse_os_release(MINT)


def test_versions_compare_by_number():
    assert host.parse_version("24.04") < host.parse_version("24.10") < host.parse_version("25.04")
    assert host.parse_version("9") < host.parse_version("12")
    assert host.parse_version("") == host.parse_version("rolling") == ()


def test_a_derivative_uses_apt():
    assert host.Host(distribution="linuxmint", like=("ubuntu", "debian")).uses_apt
    assert not host.Host(distribution="rocky", like=("rhel", "centos", "fedora")).uses_apt


def test_the_capability_to_raise_limits_is_bit_24():
    assert host.can_raise_limits("Name:\tcat\nCapEff:\t000001ffffffffff\n")
    assert not host.can_raise_limits("CapInh:\t000001ffffffffff\nCapEff:\t000001fffeffffff\n")
    assert not host.can_raise_limits("")


def test_hard_limits_are_read_and_unlimited_is_none():
    assert host.parse_hard_limits(LIMITS) == {"nproc": 94956, "nofile": 524288}
    assert host.parse_hard_limits(LIMITS.replace("94956   ", "unlimited")) == {"nofile": 524288}


def test_the_cache_is_where_it_is_said_to_be(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert str(host.cache_folder()) == "/x/cache/armstage"
    monkeypatch.setenv("ARMSTAGE_CACHE", "/y")
    assert str(host.cache_folder()) == "/y"
