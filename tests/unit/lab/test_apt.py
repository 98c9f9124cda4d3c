"""The address of the Debian mirror comes from the machine's own apt configuration, in either of its two forms."""

import pytest
from lab import apt
from lab.host import Host

ONE_LINE = """\
# the installer's own
deb http://mirror.example/debian bookworm main contrib # everything
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64,arm64 signed-by=/etc/apt/keyrings/x.gpg] https://other.example/apt stable main
deb http://security.example/debian-security bookworm-security main
deb file:/srv/packages ./
"""
DEB822 = """\
Types: deb deb-src
# a comment inside a stanza
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://security.example/debian-security
Suites: trixie-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEYCQjIxYJKwYBBAHaRw8BAQdAD/P5Nvvnvk66SxBBHDbhRml9ORg1WV5CvzKY
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: https://tools.example/apt
  https://mirror.tools.example/apt
Suites: stable
Components: main
Architectures: amd64

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: trixie
Components: main

Types: deb-src
URIs: http://sources.example/debian
Suites: trixie
Components: main
"""
BOOKWORM = Host(distribution="debian", version=(12,), codename="bookworm")
TRIXIE = Host(distribution="debian", version=(13,), codename="trixie")


def test_one_line_entries():
    assert apt.parse_one_line(ONE_LINE) == [
        apt.Source("http://mirror.example/debian", ("bookworm",), ("main", "contrib")),
        apt.Source("https://other.example/apt", ("stable",), ("main",), ("amd64", "arm64")),
        apt.Source("http://security.example/debian-security", ("bookworm-security",), ("main",)),
        apt.Source("file:/srv/packages", ("./",), ()),
    ]


@pytest.mark.parametrize("options", ["[arch=amd64]", "[ arch=amd64 ]", "[arch=amd64 x=y]", "[x=y arch=amd64 ]"])
def test_options_are_written_with_and_without_spaces(options):
    (source,) = apt.parse_one_line(f"deb {options} http://mirror.example/debian trixie main")
    assert source == apt.Source("http://mirror.example/debian", ("trixie",), ("main",), ("amd64",))


def test_deb822_stanzas():
    assert apt.parse_deb822(DEB822) == [
        apt.Source("http://mirror.example/debian", ("trixie", "trixie-updates"), ("main",)),
        apt.Source("http://security.example/debian-security", ("trixie-security",), ("main",)),
        apt.Source("https://tools.example/apt", ("stable",), ("main",), ("amd64",)),
        apt.Source("https://mirror.tools.example/apt", ("stable",), ("main",), ("amd64",)),
    ]


def test_the_mirror_is_that_of_the_machines_own_release():
    assert apt.debian_mirror(BOOKWORM, apt.parse_one_line(ONE_LINE)) == "http://mirror.example/debian"
    assert apt.debian_mirror(TRIXIE, apt.parse_deb822(DEB822)) == "http://mirror.example/debian"
    assert apt.debian_mirror(TRIXIE, apt.parse_one_line(ONE_LINE)) is None


def test_a_derivatives_mirror_is_no_debian_mirror():
    ubuntu = Host(distribution="ubuntu", version=(24, 4), codename="noble", like=("debian",))
    sources = apt.parse_one_line("deb http://mirror.example/ubuntu noble main universe")
    assert apt.debian_mirror(ubuntu, sources) is None


def test_a_named_mirror_comes_first_and_its_absence_is_an_error_that_says_how(monkeypatch):
    ubuntu = Host(distribution="ubuntu", version=(24, 4), codename="noble")
    monkeypatch.delenv(apt.MIRROR_VARIABLE, raising=False)
    with pytest.raises(Exception, match="`ubuntu`") as caught:
        apt.require_mirror(ubuntu)
    assert apt.MIRROR_VARIABLE in caught.value.hint
    monkeypatch.setenv(apt.MIRROR_VARIABLE, "http://named.example/debian")
    assert apt.require_mirror(ubuntu) == apt.require_mirror(BOOKWORM) == "http://named.example/debian"


def test_files_are_read_in_apts_order_and_only_by_their_endings(tmp_path):
    (tmp_path / "sources.list").write_text("deb http://first.example/debian bookworm main\n")
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (folder / "b.list").write_text("deb http://third.example/debian bookworm main\n")
    (folder / "a.sources").write_text(DEB822)
    (folder / "c.list.disabled").write_text("deb http://never.example/debian bookworm main\n")
    uris = [source.uri for source in apt.read_sources(tmp_path)]
    assert uris[0] == "http://first.example/debian"
    assert uris[-1] == "http://third.example/debian"
    assert "http://never.example/debian" not in uris
