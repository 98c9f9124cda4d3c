"""The model of the dynamic loader against this machine's own loader, on the same planted files."""

import os
import platform
import shutil
import subprocess
import sys

import pytest
from ansible.module_utils.armstage.elf.abi import stack_refused
from ansible.module_utils.armstage.elf.loader import Library, Process
from ansible.module_utils.armstage.elf.reader import read
from ansible.module_utils.armstage.elf.search import Root, System, read_cache
from ansible.module_utils.armstage.errors import ArmstageError

from .builder import MACHINES, Elf

HERE = platform.machine()
MAGIC = b"glibc-ld.so.cache1.1"
OTHER = "x86_64" if HERE == "aarch64" else "aarch64"
NARROW = {"x86_64": Elf(machine="i686", bits=32)}.get(HERE, Elf(machine=HERE, bits=32))

needs_own_loader = pytest.mark.skipif(HERE not in MACHINES, reason=f"no ELF files are planted for {HERE}")


def library(**content):
    return Elf(machine=HERE, **content)


CASES = {
    "LD_LIBRARY_PATH in its order": {
        "files": {"start.so": library(needed=["libx.so.1"]), "b/libx.so.1": library(), "a/libx.so.1": library()},
        "path": ["b", "a"],
    },
    "DT_RPATH before LD_LIBRARY_PATH": {
        "files": {
            "start.so": library(needed=["libx.so.1"], rpath="$ORIGIN/own"),
            "own/libx.so.1": library(),
            "a/libx.so.1": library(),
        },
        "path": ["a"],
    },
    "LD_LIBRARY_PATH before DT_RUNPATH": {
        "files": {
            "start.so": library(needed=["libx.so.1"], runpath="${ORIGIN}/own"),
            "own/libx.so.1": library(),
            "a/libx.so.1": library(),
        },
        "path": ["a"],
    },
    "DT_RPATH ignored beside DT_RUNPATH": {
        "files": {
            "start.so": library(needed=["libx.so.1"], rpath="$ORIGIN/r", runpath="$ORIGIN/own"),
            "r/libx.so.1": library(),
            "own/libx.so.1": library(),
        },
        "path": [],
    },
    "DT_RPATH serves what its needs need": {
        "files": {
            "start.so": library(needed=["liby.so.1"], rpath="$ORIGIN/own"),
            "own/liby.so.1": library(needed=["libx.so.1"]),
            "own/libx.so.1": library(),
            "a/libx.so.1": library(),
        },
        "path": ["a"],
    },
    "DT_RUNPATH serves its own needs only": {
        "files": {
            "start.so": library(needed=["liby.so.1"], runpath="$ORIGIN/own"),
            "own/liby.so.1": library(needed=["libx.so.1"]),
            "own/libx.so.1": library(),
        },
        "path": [],
    },
    "a need's DT_RUNPATH shuts out DT_RPATH from above": {
        "files": {
            "start.so": library(needed=["liby.so.1"], rpath="$ORIGIN/own"),
            "own/liby.so.1": library(needed=["libx.so.1"], runpath="$ORIGIN/none"),
            "own/libx.so.1": library(),
            "a/libx.so.1": library(),
        },
        "path": ["a"],
    },
    "$ORIGIN is the folder of the name, not of the link's target": {
        "files": {
            "start.so": library(needed=["liby.so.1"]),
            "store/liby.so.1.2": library(needed=["libx.so.1"], rpath="$ORIGIN"),
            "links/liby.so.1": "../store/liby.so.1.2",
            "store/libx.so.1": library(),
            "links/libx.so.1": library(),
        },
        "path": ["links"],
    },
    "a file for another machine is passed over": {
        "files": {
            "start.so": library(needed=["libx.so.1"]),
            "a/libx.so.1": Elf(machine=OTHER),
            "b/libx.so.1": library(),
        },
        "path": ["a", "b"],
    },
    "a file of another class is passed over": {
        "files": {"start.so": library(needed=["libx.so.1"]), "a/libx.so.1": NARROW, "b/libx.so.1": library()},
        "path": ["a", "b"],
    },
    "a link to nothing is passed over": {
        "files": {"start.so": library(needed=["libx.so.1"]), "a/libx.so.1": "gone", "b/libx.so.1": library()},
        "path": ["a", "b"],
    },
    "a web page ends the search": {
        "files": {
            "start.so": library(needed=["libx.so.1"]),
            "a/libx.so.1": b"<!DOCTYPE html>" * 100,
            "b/libx.so.1": library(),
        },
        "path": ["a", "b"],
    },
    "an empty file ends the search": {
        "files": {"start.so": library(needed=["libx.so.1"]), "a/libx.so.1": b"", "b/libx.so.1": library()},
        "path": ["a", "b"],
    },
    "a folder of the name ends the search": {
        "files": {"start.so": library(needed=["libx.so.1"]), "a/libx.so.1": None, "b/libx.so.1": library()},
        "path": ["a", "b"],
    },
    "only a file for another machine": {
        "files": {"start.so": library(needed=["libx.so.1"]), "a/libx.so.1": Elf(machine=OTHER)},
        "path": ["a"],
    },
    "a soname that is loaded already is not searched": {
        "files": {
            "start.so": library(needed=["liby.so", "libx.so.1"]),
            "a/liby.so": library(soname="libx.so.1"),
            "a/libx.so.1": library(),
        },
        "path": ["a"],
    },
    "a wheel's private name reached through a plain link": {
        "files": {
            "start.so": library(needed=["libavutil.so.59", "libavcodec.so.61"]),
            "a/libavutil-2a27f4d8.so.59.39.100": library(soname="libavutil-2a27f4d8.so.59.39.100"),
            "a/libavutil.so.59": "libavutil-2a27f4d8.so.59.39.100",
            "a/libavcodec.so.61": library(needed=["libavutil-2a27f4d8.so.59.39.100"]),
        },
        "path": ["a"],
    },
    "a private copy does not satisfy the plain name": {
        "files": {
            "start.so": library(needed=["libavutil.so.59"]),
            "a/libavutil-2a27f4d8.so.59.39.100": library(soname="libavutil-2a27f4d8.so.59.39.100"),
        },
        "path": ["a"],
    },
    "a need of a need is missing": {
        "files": {
            "start.so": library(needed=["liby.so.1"]),
            "a/liby.so.1": library(needed=["libx.so.1"]),
        },
        "path": ["a"],
    },
    "a library of the system": {"files": {"start.so": library(needed=["libm.so.6"])}, "path": []},
    "a folder that is not there": {
        "files": {"start.so": library(needed=["libx.so.1"]), "a/libx.so.1": library()},
        "path": ["gone", "a"],
    },
}


def system(base):
    return System(Root(str(base)), "aarch64")


def plant(base, files):
    for name, content in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(bytes(content))


REALLY_LOAD = """
import ctypes, os, sys
try:
    ctypes.CDLL(sys.argv[1])
except OSError as error:
    print("failed", error)
else:
    lines = [line.split(None, 5) for line in open("/proc/self/maps")]
    print("\\n".join({line[5].strip() for line in lines if len(line) == 6}))
"""


def really_loaded(base, path):
    """The planted files that a real process has mapped after a dlopen; None where it failed."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", REALLY_LOAD, str(base / "start.so")],
        env={"LD_LIBRARY_PATH": ":".join(str(base / folder) for folder in path)},
        capture_output=True,
        text=True,
        check=True,
    )
    if done.stdout.startswith("failed"):
        return None
    return {os.path.realpath(line) for line in done.stdout.splitlines() if line.startswith(str(base))}


@needs_own_loader
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_model_loads_what_the_real_loader_loads(tmp_path, case):
    plant(tmp_path, case["files"])
    process = Process(System(Root(), HERE), HERE, [str(tmp_path / folder) for folder in case["path"]])
    process.open(str(tmp_path / "start.so"))
    modelled = {os.path.realpath(each.path) for each in process.libraries if each.path.startswith(str(tmp_path))}
    assert (None if process.missing else modelled) == really_loaded(tmp_path, case["path"])


@needs_own_loader
@pytest.mark.skipif(not os.confstr("CS_GNU_LIBC_VERSION"), reason="this is not glibc")
@pytest.mark.parametrize("mark", [True, None, False])
def test_what_asks_for_an_executable_stack_is_refused_as_by_the_real_loader(tmp_path, mark):
    plant(tmp_path, {"start.so": Elf(machine=HERE, executable_stack=mark)})
    here = Library(str(tmp_path / "start.so"), read(str(tmp_path / "start.so")))
    refused = stack_refused(here, os.confstr("CS_GNU_LIBC_VERSION").split()[1])
    assert (really_loaded(tmp_path, []) is None) is refused
    assert stack_refused(here, "2.41") is (mark is not False)


GCC = shutil.which("gcc")


@needs_own_loader
@pytest.mark.skipif(GCC is None, reason="no compiler to make a program with")
@pytest.mark.parametrize("tag", ["--disable-new-dtags", "--enable-new-dtags"])
def test_an_executable_serves_what_it_opens_by_its_rpath_alone(tmp_path, tag):
    """As uv's CPython does for libpython: also when it is reached through a link."""
    (tmp_path / "program.c").write_text(
        "#include <dlfcn.h>\nint main(int n, char **v) { (void)n; return dlopen(v[1], RTLD_NOW) ? 0 : 3; }\n"
    )
    (tmp_path / "python/bin").mkdir(parents=True)
    subprocess.run(
        [GCC, "program.c", "-o", "python/bin/program", f"-Wl,{tag},-rpath,$ORIGIN/../lib", "-ldl"],
        cwd=tmp_path,
        check=True,
    )
    plant(
        tmp_path,
        {
            "start.so": library(needed=["libx.so.1"]),
            "python/lib/libx.so.1": library(),
            "env/bin/python": "../../python/bin/program",
        },
    )
    program = str(tmp_path / "env/bin/python")
    process = Process(System(Root(), HERE), HERE)
    process.start(program)
    process.open(str(tmp_path / "start.so"))
    really = subprocess.run([program, str(tmp_path / "start.so")], check=False).returncode == 0
    assert (not process.missing) is really is (tag == "--disable-new-dtags")


class TestSystem:
    @pytest.mark.skipif(shutil.which("ldconfig", path="/sbin:/usr/sbin") is None, reason="no ldconfig")
    def test_the_cache_reads_as_ldconfig_prints_it(self):
        printed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
        lines = [line.split(" => ") for line in printed.splitlines() if " => " in line]
        expected = {}
        for left, path in lines:
            expected.setdefault(left.split()[0], []).append(path)
        assert read_cache("/etc/ld.so.cache") == expected

    def test_an_old_header_in_front_of_the_cache(self, tmp_path):
        with open("/etc/ld.so.cache", "rb") as file:
            data = file.read()
        (tmp_path / "cache").write_bytes(b"ld.so-1.7.0\0" + bytes(12) + data)
        assert read_cache(str(tmp_path / "cache")) == read_cache("/etc/ld.so.cache") != {}

    @pytest.mark.parametrize(
        "data", [b"", b"nonsense", b"glibc-ld.so.cache1.1", b"glibc-ld.so.cache1.1" + b"\xff" * 90]
    )
    def test_a_cache_that_the_loader_would_ignore(self, tmp_path, data):
        (tmp_path / "cache").write_bytes(data)
        assert read_cache(str(tmp_path / "cache")) == {}

    def test_configured_folders_come_before_the_default_ones(self, tmp_path):
        (tmp_path / "etc/ld.so.conf.d").mkdir(parents=True)
        (tmp_path / "etc/ld.so.conf").write_text("# first\ninclude ld.so.conf.d/*.conf\n/opt/last # here\nhwcap 1 x\n")
        (tmp_path / "etc/ld.so.conf.d/b.conf").write_text("/opt/b\n")
        (tmp_path / "etc/ld.so.conf.d/a.conf").write_text("/opt/a\n\n")
        (tmp_path / "etc/ld.so.conf.d/ignored.txt").write_text("/opt/ignored\n")
        folders = ["usr/lib", "opt/last", "opt/b", "opt/a", "opt/ignored", "usr/lib/aarch64-linux-gnu"]
        plant(tmp_path, {f"{folder}/libx.so": b"" for folder in folders})
        found = [os.path.relpath(path, tmp_path) for path in system(tmp_path).candidates("libx.so")]
        assert found == [
            f"{folder}/libx.so" for folder in ("opt/a", "opt/b", "opt/last", "usr/lib/aarch64-linux-gnu", "usr/lib")
        ]

    def test_files_that_include_themselves(self, tmp_path):
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/ld.so.conf").write_text("include ld.so.conf\n/opt/x\n")
        plant(tmp_path, {"opt/x/libx.so": b""})
        assert [*system(tmp_path).candidates("libx.so")] == [str(tmp_path / "opt/x/libx.so")]

    def test_links_are_followed_inside_the_root(self, tmp_path):
        plant(
            tmp_path,
            {
                "usr/lib/aarch64-linux-gnu/libblas.so.3": "/etc/alternatives/libblas.so.3",
                "etc/alternatives/libblas.so.3": "../../usr/lib/blas/libblas.so.3.1",
                "usr/lib/blas/libblas.so.3.1": Elf(soname="libblas.so.3"),
                "lib": "usr/lib",
                "start.so": Elf(needed=["libblas.so.3"]),
            },
        )
        process = Process(system(tmp_path), "aarch64")
        process.open(str(tmp_path / "start.so"))
        assert process.find("libblas.so.3").elf.path == str(tmp_path / "usr/lib/blas/libblas.so.3.1")

    def test_links_in_a_circle_are_an_error(self, tmp_path):
        plant(tmp_path, {"lib": "usr", "usr": "lib"})
        with pytest.raises(ArmstageError, match="more than 40 symbolic links"):
            system(tmp_path)


class TestHostLibraries:
    """A host of another machine says nothing about the node's own libraries."""

    def needs(self, tmp_path, *names):
        Elf(needed=list(names)).write(tmp_path / "env/start.so")
        process = Process(system(tmp_path), "aarch64")
        process.open(str(tmp_path / "env/start.so"))
        return process

    def test_they_are_left_to_the_node(self, tmp_path):
        Elf(machine="x86_64").write(tmp_path / "lib64/libc.so.6")
        Elf(machine="x86_64").write(tmp_path / "lib64/libz.so.1")
        process = self.needs(tmp_path, "libc.so.6", "libz.so.1", "libpython3.12.so.1.0")
        assert process.assumed == ["libc.so.6", "libz.so.1"]
        assert [missing.name for missing in process.missing] == ["libpython3.12.so.1.0"]
        assert process.wrong_arch == {}

    def test_on_a_system_of_the_machine_they_must_be_there(self, tmp_path):
        Elf().write(tmp_path / "lib/aarch64-linux-gnu/libc.so.6")
        process = self.needs(tmp_path, "libc.so.6", "libz.so.1")
        assert process.assumed == []
        assert [missing.name for missing in process.missing] == ["libz.so.1"]
