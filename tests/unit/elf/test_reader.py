"""The reader against pyelftools, on planted files of every class and on this machine's own."""

import contextlib
import os
import struct
import time
from dataclasses import replace
from pathlib import Path

import pytest
from ansible.module_utils.armstage.elf import reader, symbols
from ansible.module_utils.armstage.errors import ArmstageError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .builder import Elf

KINDS = [
    pytest.param(machine, bits, order, kind, id=f"{machine}-{bits}{order}-{kind}")
    for machine, bits, order in [
        ("aarch64", 64, "<"),
        ("x86_64", 64, "<"),
        ("ppc64", 64, ">"),
        ("i686", 32, "<"),
        ("ppc", 32, ">"),
    ]
    for kind in ("gnu", "sysv")
]


def rich(machine="aarch64", bits=64, order="<", kind="gnu"):
    return Elf(
        machine=machine,
        bits=bits,
        order=order,
        hash=kind,
        soname="libavcodec.so.61",
        needed=["libavutil.so.59", "libm.so.6", "libc.so.6"],
        rpath="$ORIGIN/../a:/b",
        runpath="/c",
        interpreter="/lib/ld-linux-aarch64.so.1",
        needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"], "libavutil.so.59": ["LIBAVUTIL_59"]},
        offers=["LIBAVCODEC_61", "LIBAVCODEC_62"],
        undefined=["plain", "av_malloc@LIBAVUTIL_59", "?weak", "malloc@GLIBC_2.17", "long_" + "x" * 500],
        defined=[f"avcodec_{n}" for n in range(40)],
        align=0x10000,
    )


def as_pyelftools_reads(path):
    """(what ElfFile holds, undefined names, defined names) of a file, by pyelftools."""
    with open(path, "rb") as file:
        elf = ELFFile(file)
        found = {"needed": [], "soname": "", "rpath": "", "runpath": "", "interpreter": ""}
        alignments, stack = [], True
        for segment in elf.iter_segments():
            if segment["p_type"] == "PT_LOAD":
                alignments.append(segment["p_align"])
            if segment["p_type"] == "PT_GNU_STACK":
                stack = bool(segment["p_flags"] & 1)
            if segment["p_type"] == "PT_INTERP":
                found["interpreter"] = segment.get_interp_name()
            if isinstance(segment, DynamicSegment):
                for tag in segment.iter_tags():
                    name = str(tag.entry.d_tag).removeprefix("DT_").lower()  # a number where it has no name for it
                    if name == "needed":
                        found["needed"].append(tag.needed)
                    elif name in ("soname", "rpath", "runpath"):
                        found[name] = getattr(tag, name)
        needs, offers, undefined, defined = {}, [], [], set()
        for section in elf.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                needs.update((need.name, tuple(aux.name for aux in auxs)) for need, auxs in section.iter_versions())
            if isinstance(section, GNUVerDefSection):
                offers += [next(auxs).name for entry, auxs in section.iter_versions() if not entry["vd_flags"] & 1]
            if section.name == ".dynsym":
                for symbol in section.iter_symbols():
                    if symbol["st_shndx"] != "SHN_UNDEF":
                        defined.add(symbol.name)
                    elif symbol.name and symbol["st_info"]["bind"] != "STB_WEAK":
                        undefined.append(symbol.name)
        folders = [tuple(each for each in found[name].split(":") if each) for name in ("rpath", "runpath")]
        whole = (
            elf.elfclass,
            "little" if elf.little_endian else "big",
            tuple(found["needed"]),
            found["soname"],
            *folders,
            found["interpreter"],
            needs,
            tuple(offers),
            tuple(alignments),
            stack,
        )
        return whole, undefined, defined - {""}


def as_read(path):
    elf = reader.read(str(path))
    return (
        elf.bits,
        elf.byte_order,
        elf.needed,
        elf.soname,
        elf.rpath,
        elf.runpath,
        elf.interpreter,
        elf.version_needs,
        elf.version_definitions,
        elf.alignments,
        elf.executable_stack,
    )


@pytest.mark.parametrize(("machine", "bits", "order", "kind"), KINDS)
def test_planted_files_read_as_pyelftools_reads_them(tmp_path, machine, bits, order, kind):
    path = rich(machine, bits, order, kind).write(tmp_path / "library.so")
    whole, undefined, defined = as_pyelftools_reads(path)
    assert as_read(path) == whole
    assert [symbol.name for symbol in symbols.undefined(str(path))] == undefined
    assert symbols.defined(str(path), {*defined, "plain", "av_malloc", "absent"}) == defined
    assert reader.read(str(path)).machine == reader.machine_of(str(path)) == machine


def test_undefined_symbols_know_their_version_and_library(tmp_path):
    path = rich().write(tmp_path / "library.so")
    found = {symbol.name: (symbol.version, symbol.library) for symbol in symbols.undefined(str(path))}
    assert found["av_malloc"] == ("LIBAVUTIL_59", "libavutil.so.59")
    assert found["malloc"] == ("GLIBC_2.17", "libc.so.6")
    assert found["plain"] == ("", "")
    assert "weak" not in found


def own_libraries():
    """Real files: the libraries this Python has loaded."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if ".so" in line}
    return sorted(path for path in paths if Path(path).is_file())


@pytest.mark.parametrize("path", own_libraries())
def test_real_libraries_read_as_pyelftools_reads_them(path):
    whole, undefined, defined = as_pyelftools_reads(path)
    assert as_read(path) == whole
    assert [symbol.name for symbol in symbols.undefined(path)] == undefined
    some = set(sorted(defined)[:200])
    assert symbols.defined(path, {*some, "no_such_symbol"}) == some


@pytest.mark.parametrize(
    ("alignments", "page_size", "ok"),
    [((0x10000,), 4096, True), ((0x10000,), 65536, True), ((0x1000,), 65536, False), ((0x10000, 0x1000), 65536, False)],
)
def test_page_sizes(tmp_path, alignments, page_size, ok):
    elf = replace(reader.read(str(Elf().write(tmp_path / "a.so"))), alignments=alignments)
    assert elf.page_size_ok(page_size) is ok


class TestMachineOf:
    @pytest.mark.parametrize(
        ("machine", "order", "name"),
        [
            (183, "<", "aarch64"),
            (183, ">", "aarch64_be"),
            (62, "<", "x86_64"),
            (21, "<", "ppc64le"),
            (21, ">", "ppc64"),
            (40, "<", "armv7l"),
            (243, "<", "riscv64"),
            (190, "<", "cuda"),
            (4711, "<", "machine 4711"),
        ],
    )
    def test_as_uname_prints_it(self, tmp_path, machine, order, name):
        ident = b"\x7fELF\x02" + (b"\1" if order == "<" else b"\2") + b"\1" + bytes(9)
        path = tmp_path / "file"
        path.write_bytes(ident + struct.pack(order + "HH", 3, machine))
        assert reader.machine_of(str(path)) == name

    @pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fEL", b"<!DOCTYPE html>" * 10])
    def test_none_for_what_is_not_elf(self, tmp_path, content):
        path = tmp_path / "file"
        path.write_bytes(content)
        assert reader.machine_of(str(path)) is None

    def test_none_for_a_folder_and_a_pipe(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        assert reader.machine_of(str(tmp_path)) is None
        assert reader.machine_of(str(tmp_path / "pipe")) is None

    def test_an_elf_file_cut_off_in_its_header_is_an_error(self, tmp_path):
        path = tmp_path / "libx.so"
        path.write_bytes(b"\x7fELF\x02\x01\x01")
        with pytest.raises(ArmstageError, match=r"libx\.so` is cut off in its ELF header, at byte 7"):
            reader.machine_of(str(path))

    def test_an_absent_file_is_an_error(self, tmp_path):
        with pytest.raises(ArmstageError, match="No such file"):
            reader.machine_of(str(tmp_path / "absent"))


class TestFindElf:
    def test_every_elf_file_in_order_and_no_link_followed(self, tmp_path):
        for name in ("b/libb.so", "a/liba.so", "a/z/libz.so", "tool"):
            Elf(machine="x86_64" if name == "tool" else "aarch64").write(tmp_path / name)
        (tmp_path / "a/text.py").write_text("print()\n")
        (tmp_path / "a/link.so").symlink_to("liba.so")
        (tmp_path / "b/loop").symlink_to("..")
        found = [(os.path.relpath(path, tmp_path), machine) for path, machine in reader.find_elf(str(tmp_path))]
        assert found == [
            ("tool", "x86_64"),
            ("a/liba.so", "aarch64"),
            ("a/z/libz.so", "aarch64"),
            ("b/libb.so", "aarch64"),
        ]

    def test_an_absent_root_is_an_error(self, tmp_path):
        with pytest.raises(ArmstageError, match="Failed to list"):
            list(reader.find_elf(str(tmp_path / "absent")))


def write(tmp_path, data):
    path = tmp_path / "libx.so.1"
    path.write_bytes(bytes(data))
    return str(path)


def patched(layout, offset, *values):
    data = bytearray(bytes(rich()))
    struct.pack_into("<" + layout, data, offset, *values)
    return data


def dynamic_value(data, tag):
    """The file offset of the value of a dynamic entry in a planted 64-bit file."""
    (offset,) = struct.unpack_from("<Q", data, 64 + 56 + 8)
    while True:
        found, _value = struct.unpack_from("<QQ", data, offset)
        if found == tag:
            return offset + 8
        offset += 16


def with_dynamic(tag, value):
    data = bytearray(bytes(rich()))
    struct.pack_into("<Q", data, dynamic_value(data, tag), value)
    return data


DAMAGED = {
    "empty": (b"", "is empty"),
    "a web page": (b"<html>404</html>", r"is not an ELF file: it starts with '<html>404</html>'"),
    "only the start": (bytes(rich())[:40], "is cut off: its ELF header ends at byte 64, the file at byte 40"),
    "half": (bytes(rich())[: len(bytes(rich())) // 2], r"is cut off: a segment ends at byte \d+, the file at byte \d+"),
    "of class 7": (patched("B", 4, 7), "unknown class 7"),
    "of byte order 9": (patched("B", 5, 9), "byte order 9"),
    "program headers far away": (patched("Q", 32, 1 << 60), "program header table ends at byte"),
    "program headers of 1 byte": (patched("H", 54, 1), "program headers of 1 bytes, expected 56"),
    "a huge dynamic section": (patched("Q", 64 + 56 + 32, 1 << 50), "claims a dynamic section of"),
    "no string table": (with_dynamic(5, 0x7FFFFFFFFFFF), "puts its dynamic string table at address 0x7fffffffffff"),
    "names outside the table": (with_dynamic(14, 1 << 40), "has no end to its dynamic string table"),
    "versions outside": (with_dynamic(0x6FFFFFFE, 1 << 40), "puts its version needs at address"),
}


@pytest.mark.parametrize(("data", "says"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path, data, says):
    path = write(tmp_path, data)
    with pytest.raises(ArmstageError, match=says) as raised:
        reader.read(path)
    assert path in raised.value.message
    assert path in raised.value.hint


def test_a_folder_is_not_a_library(tmp_path):
    with pytest.raises(ArmstageError, match="is not a regular file"):
        reader.read(str(tmp_path))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "libx.so")
    with pytest.raises(ArmstageError, match="is not a regular file"):
        reader.read(str(tmp_path / "libx.so"))


def test_chains_that_multiply_end_within_the_bytes_that_may_be_read(tmp_path):
    """Every version need leads into all the others: 60,000 x 60,000 records, if they were followed."""
    data = bytearray(bytes(rich()))
    start = len(data) + -len(data) % 8
    data.extend(bytes(start - len(data)))
    for _ in range(60000):
        data += struct.pack("<HHIII", 1, 65535, 1, 16, 16)
    data[-4:] = bytes(4)
    struct.pack_into("<QQ", data, 64 + 32, len(data), len(data))
    struct.pack_into("<Q", data, dynamic_value(data, 0x6FFFFFFE), start)
    struct.pack_into("<Q", data, dynamic_value(data, 0x6FFFFFFF), 60000)
    path = write(tmp_path, data)
    started = time.monotonic()
    with pytest.raises(ArmstageError, match="asks for more than"):
        reader.read(path)
    assert time.monotonic() - started < 10


def test_a_hash_chain_without_end_ends(tmp_path):
    data = bytearray(bytes(rich(kind="sysv")))
    (table,) = struct.unpack_from("<Q", data, dynamic_value(data, 4))
    buckets, chain = struct.unpack_from("<II", data, table)
    for index in range(chain):
        struct.pack_into("<I", data, table + 8 + 4 * buckets + 4 * index, 1)
    with pytest.raises(ArmstageError, match="asks for more than"):
        symbols.defined(write(tmp_path, data), ["absent", "absent too"])


@pytest.fixture
def scratch(tmp_path):
    return tmp_path / "mutated.so"


SEEDS = [bytes(rich(*each.values)) for each in KINDS]


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_the_bytes_nothing_but_an_armstage_error_comes_out(scratch, data):
    content = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + 8] = data.draw(
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from([b"\xff" * 8, bytes(8), b"\1" * 8, struct.pack("<Q", len(content))]),
            )
        )
    del content[data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content)))) :]
    scratch.write_bytes(content)
    path = str(scratch)
    started = time.monotonic()
    for look in (reader.read, reader.machine_of, symbols.undefined, lambda file: symbols.defined(file, ["avcodec_1"])):
        with contextlib.suppress(ArmstageError):
            look(path)
    assert time.monotonic() - started < 10
