"""A1: one architecture, one page size, one glibc, whatever is put into the environment."""

import pytest
from ansible.module_utils.armstage.preflight.context import Context
from elf.builder import Elf


def test_a_staged_environment_passes(look_into):
    found = look_into("A1")
    assert found.status == "PASS"
    assert "Python and 28 ELF files are aarch64" in found.detail
    assert {fact.name for fact in found.facts} == {"arch", "ELF files", "page size"}


@pytest.mark.parametrize("arch", ["x86_64", "ppc64le"])
def test_a_login_node_is_no_compute_node(look_into, host, arch):
    host.put("proc/sys/kernel/arch", f"{arch}\n")
    found = look_into("A1")
    assert (found.status, found.detail) == ("FAIL", f"this host is {arch}, the toolchain is for aarch64")


def test_without_an_environment_only_the_host_is_looked_at(host):
    found = host.look("A1")
    assert found.status == "SKIP"
    assert "no environment was given" in found.detail


@pytest.mark.parametrize(
    "place",
    [
        "lib/python3.12/site-packages/numpy/_core/_multiarray.cpython-312-aarch64-linux-gnu.so",
        "lib/python3.12/site-packages/pkg.libs/libx-0123abcd.so.1.2",
        "bin/tool",
        "share/data/blob.bin",
    ],
)
@pytest.mark.parametrize("machine", ["x86_64", "riscv64", "i686"])
def test_any_file_for_another_machine_is_named(look_into, staged, place, machine):
    Elf(machine=machine, bits=32 if machine == "i686" else 64).write(staged.env / place)
    found = look_into("A1")
    assert (found.status, found.detail) == ("FAIL", f"`{place}` is for {machine}, not aarch64")


def test_several_files_are_counted(look_into, staged):
    for number in range(3):
        Elf(machine="x86_64").write(staged.site / f"pkg/lib{number}.so")
    assert "3 files (`lib/python3.12/site-packages/pkg/lib0.so` and 2 more) are for x86_64" in look_into("A1").detail


def test_gpu_code_and_texts_are_no_processors_files(look_into, staged):
    elf = bytearray(bytes(Elf()))
    elf[18:20] = (190).to_bytes(2, "little")
    (staged.site / "kernels.cubin").write_bytes(elf)
    (staged.site / "README").write_text("text")
    (staged.site / "module.py").write_bytes(bytes(Elf(machine="x86_64")))
    assert look_into("A1").status == "PASS"


def test_segments_for_smaller_pages_than_the_kernels(look_into, staged, monkeypatch):
    Elf(align=0x1000).write(staged.site / "pkg/small.so")
    assert look_into("A1").status == "PASS"
    monkeypatch.setattr(Context, "page_size", 65536)
    found = look_into("A1")
    assert found.status == "FAIL"
    assert found.detail.startswith(
        "`lib/python3.12/site-packages/pkg/small.so` is aligned to 4 KiB: this kernel has pages of 64 KiB"
    )


def test_a_newer_glibc_than_the_hosts(look_into, host, staged):
    libc = Elf(soname="libc.so.6", offers=["GLIBC_2.17", "GLIBC_2.26"])
    libc.write(host.root / "usr/lib/aarch64-linux-gnu/libc.so.6")
    assert look_into("A1").status == "PASS"
    Elf(needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"]}).write(staged.site / "pkg/new.so")
    found = look_into("A1")
    assert found.status == "FAIL"
    assert "in need of glibc 2.28, and this host has 2.26" in found.detail
    assert "manylinux_2_26" in found.hint


@pytest.mark.parametrize("mark", [True, None], ids=["marked", "not marked at all"])
@pytest.mark.parametrize(("glibc", "status"), [("2.40", "PASS"), ("2.41", "FAIL"), ("2.43", "FAIL")])
def test_a_library_that_asks_for_an_executable_stack(look_into, host, staged, glibc, status, mark):
    libc = Elf(soname="libc.so.6", offers=["GLIBC_2.17", f"GLIBC_{glibc}"])
    libc.write(host.root / "usr/lib/aarch64-linux-gnu/libc.so.6")
    assert look_into("A1").status == "PASS"
    Elf(executable_stack=mark).write(staged.site / "ctranslate2.libs/libctranslate2.so.4")
    Elf(executable_stack=mark, type="EXEC").write(staged.site / "pkg/program")
    found = look_into("A1")
    assert found.status == status
    if status == "FAIL":
        name = "ctranslate2.libs/libctranslate2.so.4"
        assert found.detail.startswith(
            f"`lib/python3.12/site-packages/{name}` is marked for an executable stack: glibc"
        )
        assert found.hint.endswith(f"patchelf --clear-execstack {staged.site}/{name}")


def test_a_broken_file_is_named_and_the_rest_is_judged(look_into, staged):
    (staged.site / "torn.so").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00")
    found = look_into("A1")
    assert found.status == "WARN"
    assert "torn.so` is cut off in its ELF header" in found.detail


def test_the_environments_python(look_into, staged):
    real = staged.python / "bin/python3.12"
    Elf(machine="x86_64", type="EXEC").write(real)
    assert f"the environment's Python `{real}` is for x86_64" in look_into("A1").detail
    real.unlink()
    assert f"leads to `{real}`, which is not on this node" in look_into("A1").detail
