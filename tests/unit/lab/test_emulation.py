"""The kernel's table of interpreters: what counts as able to run arm64 programs in a container."""

import re
from pathlib import Path

import pytest
from lab import emulation
from lab.host import Host

OURS = """\
enabled
interpreter /usr/bin/qemu-aarch64-static
flags: POCF
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""
DEBIAN_12 = OURS.replace("/usr/bin/qemu-aarch64-static", "/usr/libexec/qemu-binfmt/aarch64-binfmt-P").replace(
    "POCF", "POF"
)
ARM32 = OURS.replace("7f454c4602", "7f454c4601").replace("b700", "2800")
PYTHON = "enabled\ninterpreter /usr/bin/python3.11\nflags: \noffset 0\nmagic a70d0d0a\n"


def test_an_entry_is_read():
    entry = emulation.parse_entry(OURS)
    assert entry["state"] == "enabled"
    assert entry["flags"] == "POCF"
    assert entry["interpreter"] == "/usr/bin/qemu-aarch64-static"


@pytest.mark.parametrize(
    ("text", "serves"),
    [
        (OURS, True),
        (OURS.replace("POCF", "OCF"), True),
        (DEBIAN_12, False),
        (OURS.replace("POCF", "POC"), False),
        (OURS.replace("enabled", "disabled"), False),
        (ARM32, False),
        (PYTHON, False),
    ],
    ids=["ours", "without P", "no credentials", "not opened", "disabled", "32-bit arm", "no ELF"],
)
def test_only_an_enabled_arm64_entry_with_both_flags_serves(text, serves, tmp_path):
    (tmp_path / "entry").write_text(text)
    (tmp_path / "status").write_text("enabled\n")
    assert emulation.serves(emulation.parse_entry(text)) is serves
    assert emulation.is_registered(tmp_path) is serves


def test_an_unmounted_table_has_no_entry(tmp_path):
    assert not emulation.is_registered(tmp_path / "none")


def test_the_registration_matches_arm64_programs_and_no_others():
    line = emulation.registration(Path("/usr/bin/qemu-aarch64-static"))
    fields = line.split(":")
    assert fields[1:4] == ["armstage-aarch64", "M", ""]
    assert fields[6:] == ["/usr/bin/qemu-aarch64-static", "PCF"]
    magic, mask = (bytes(int(pair, 16) for pair in re.findall(r"\\x(..)", field)) for field in fields[4:6])

    def matches(header):
        return all(a & m == b & m for a, b, m in zip(header, magic, mask, strict=True))

    executable = bytes.fromhex("7f454c460201010000000000000000000200b700")
    position_independent = bytes.fromhex("7f454c460201010000000000000000000300b700")
    other_os_abi = bytes.fromhex("7f454c460201010300000000000000000300b700")
    assert all(map(matches, [executable, position_independent, other_os_abi]))
    x86_64 = bytes.fromhex("7f454c4602010100000000000000000003003e00")
    core_file = bytes.fromhex("7f454c460201010000000000000000000400b700")
    assert not any(map(matches, [x86_64, core_file]))


def test_an_arm64_machine_needs_nothing():
    host = Host(machine="aarch64", root=False)
    assert emulation.register(host) is False
    assert emulation.environment(host) == {}


def test_the_stand_in_describes_every_processor(tmp_path, monkeypatch):
    monkeypatch.setenv("ARMSTAGE_CACHE", str(tmp_path))
    monkeypatch.setattr(emulation.os, "cpu_count", lambda: 3)
    folder = emulation.processor_folder()
    assert (folder / "possible").read_text() == "0-2\n"
    registers = [path.read_text() for path in sorted(folder.glob("cpu*/regs/identification/midr_el1"))]
    assert registers == ["0x00000000413fd0c1\n"] * 3
