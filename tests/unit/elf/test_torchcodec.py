"""Which core would load: whole environments, each with one thing wrong, and the one right message."""

import os
import re
import shutil
import time

import pytest
from ansible.module_utils.armstage.elf.torchcodec import inspect, library_dirs
from ansible.module_utils.armstage.errors import ArmstageError

from .builder import Elf
from .looking import assert_problem, look, statuses
from .planted import Root, sonames

NPP = "lib/python3.12/site-packages/nvidia/cu13/lib"


class TestLoads:
    @pytest.mark.parametrize("major", [4, 5, 6, 7, 8])
    def test_the_core_of_the_ffmpeg_that_is_there(self, root, major):
        found = look(root, root.ffmpeg(major), ffmpeg_major=major)
        assert found.ok, found.problems
        assert found.selected_core == major
        assert statuses(found) == {core: "complete" if core == major else "absent" for core in (8, 7, 6, 5, 4)}
        assert found.other_missing == found.wrong_arch == []
        assert found.message == (
            f"torchcodec 0.11.1+cu130 loads its core {major} with FFmpeg {major} from `{root.base}/ffmpeg/lib`"
        )
        assert found.hint == ""

    @pytest.mark.parametrize("major", [4, 5, 6, 7, 8, 9])
    def test_a_recent_torchcodec(self, tmp_path, major):
        root = Root(tmp_path, torchcodec="0.17.0")
        found = look(root, root.ffmpeg(major))
        assert found.ok, found.problems
        assert found.selected_core == major
        assert [core["core"] for core in found.cores] == [9, 8, 7, 6, 5, 4]
        assert found.library_dirs == []

    def test_the_highest_visible_major_wins(self, root):
        folders = [root.ffmpeg(6, "six"), root.ffmpeg(8, "eight"), root.ffmpeg(7, "seven")]
        assert look(root, *folders).selected_core == 8
        shutil.rmtree(folders[1])
        assert look(root, *folders).selected_core == 7

    @pytest.mark.parametrize("folder", ["usr/lib/aarch64-linux-gnu", "lib64", "usr/lib64", "usr/lib", "opt/ffmpeg"])
    def test_ffmpeg_of_the_system(self, root, folder):
        (root.system / "etc/ld.so.conf.d").mkdir(parents=True)
        (root.system / "etc/ld.so.conf").write_text("include ld.so.conf.d/*.conf\n")
        (root.system / "etc/ld.so.conf.d/ffmpeg.conf").write_text("/opt/ffmpeg\n")
        shutil.copytree(root.ffmpeg(7), root.system / folder, symlinks=True)
        shutil.rmtree(root.base / "ffmpeg")
        found = look(root)
        assert found.ok, found.problems
        assert found.cores[1]["folders"] == [str(root.system / folder)]

    def test_through_the_folder_that_is_searched_first(self, root):
        first, second = root.ffmpeg(7, "first"), root.ffmpeg(7, "second")
        assert look(root, first, second).cores[1]["folders"] == [str(first)]
        assert look(root, second, first).cores[1]["folders"] == [str(second)]

    def test_the_environment_through_a_link(self, root):
        (root.base / "envs").mkdir()
        (root.base / "envs/cu130").symlink_to("../store/env-cu130-0123456789ab")
        assert look(root, root.ffmpeg(7), env=str(root.base / "envs/cu130")).ok

    def test_a_torchcodec_folder(self, root):
        assert look(root, root.ffmpeg(7), env=None, torchcodec_dir=str(root.codec)).ok

    def test_a_folder_that_pip_filled(self, root):
        found = look(root, root.ffmpeg(7), env=str(root.site))
        assert found.other_missing == ["libpython3.12.so.1.0"]

    def test_an_empty_element_is_refused(self, root):
        with pytest.raises(ArmstageError, match="an empty element"):
            look(root, "")

    def test_an_absent_environment_is_an_error(self, root):
        with pytest.raises(ArmstageError, match="No folder `/no/such/env`"):
            look(root, env="/no/such/env")

    def test_in_well_under_a_second(self, root):
        folder = root.ffmpeg(7)
        started = time.process_time()
        look(root, folder)
        assert time.process_time() - started < 0.5


class TestOutsideFFmpeg:
    def test_npp_is_not_there(self, root):
        (root.cuda_libraries / "libnppicc.so.13").unlink()
        found = look(root, root.ffmpeg(7))
        assert found.other_missing == ["libnppicc.so.13"]
        assert found.selected_core == 7
        assert_problem(
            found,
            r"^torchcodec 0\.11\.1\+cu130 needs `libnppicc\.so\.13`, which is in no folder searched$",
            r"^Install nvidia-npp>=13\.0,<13\.1 into the environment$",
        )

    def test_a_library_that_npp_needs_is_not_there(self, root):
        (root.cuda_libraries / "libnppc.so.13").unlink()
        found = look(root, root.ffmpeg(7))
        assert found.other_missing == ["libnppc.so.13"]
        assert_problem(found, r"libnppicc\.so\.13` needs `libnppc\.so\.13`", "Install nvidia-npp")

    def test_npp_is_there_and_not_searched(self, root):
        found = look(root, root.ffmpeg(7), library_dirs=[])
        assert found.other_missing == ["libnppicc.so.13"]
        assert_problem(found, "libnppicc", f"^Put `{root.cuda_libraries}` on LD_LIBRARY_PATH: it is there$")

    def test_only_what_torch_loads_itself_counts_as_loaded(self, root):
        """nvrtc and cudart come with ``import torch``, from the folder that holds NPP too."""
        found = look(root, root.ffmpeg(7), library_dirs=[])
        assert "libnvrtc.so.13" not in found.other_missing
        assert "libcudart.so.13" not in found.other_missing

    def test_libpython_is_not_there(self, root):
        (root.python / "lib/libpython3.12.so.1.0").unlink()
        found = look(root, root.ffmpeg(7))
        assert found.other_missing == ["libpython3.12.so.1.0"]
        assert_problem(found, r"needs `libpython3\.12\.so\.1\.0`", r"CPython 3\.12 .* libpython3\.12$")

    def test_libpython_of_the_system(self, root):
        (root.python / "lib/libpython3.12.so.1.0").unlink()
        Elf().write(root.system / "usr/lib/aarch64-linux-gnu/libpython3.12.so.1.0")
        assert look(root, root.ffmpeg(7)).ok

    def test_libpython_beside_a_python_without_rpath(self, root):
        """The folder is one of those that LD_LIBRARY_PATH needs, relative to the environment."""
        Elf(type="EXEC", needed=["libc.so.6"], runpath="$ORIGIN/../lib").write(root.python / "bin/python3.12")
        assert look(root, root.ffmpeg(7)).ok
        assert library_dirs(str(root.env), str(root.system)) == [
            NPP,
            "../../python/cpython-3.12.12-linux-aarch64-gnu/lib",
        ]

    def test_a_python_that_is_linked_with_libpython(self, root):
        (root.python / "lib/libpython3.12.so.1.0").rename(root.python / "lib/elsewhere.so")
        Elf(soname="libpython3.12.so.1.0").write(root.system / "usr/lib/libpython3.12.so.1.0")
        Elf(type="EXEC", needed=["libpython3.12.so.1.0"]).write(root.python / "bin/python3.12")
        assert look(root, root.ffmpeg(7)).ok

    @pytest.mark.parametrize("broken", ["absent", "another machine"])
    def test_the_interpreter_by_pyvenv_cfg(self, root, broken):
        (root.env / "bin/python3.12").unlink()
        if broken == "another machine":
            Elf(machine="x86_64").write(root.env / "bin/python3.12")
        (root.python / "bin/python3").symlink_to("python3.12")
        assert look(root, root.ffmpeg(7)).ok

    def test_the_interpreter_of_the_system(self, root):
        """A link that leads out of the environment leads into the system that is looked at."""
        (root.env / "bin/python3.12").unlink()
        (root.env / "bin/python3.12").symlink_to("/usr/bin/python3.12")
        (root.env / "pyvenv.cfg").unlink()
        Elf(type="EXEC", rpath="$ORIGIN/../lib/special").write(root.system / "usr/bin/python3.12")
        Elf().write(root.system / "usr/lib/special/libpython3.12.so.1.0")
        assert look(root, root.ffmpeg(7)).ok

    def test_two_things_at_once_are_both_named(self, root):
        (root.python / "lib/libpython3.12.so.1.0").unlink()
        (root.cuda_libraries / "libnppicc.so.13").unlink()
        found = look(root, root.ffmpeg(7))
        assert sorted(found.other_missing) == ["libnppicc.so.13", "libpython3.12.so.1.0"]
        assert len(found.problems) == 2

    def test_without_ffmpeg_too(self, root):
        (root.cuda_libraries / "libnppicc.so.13").unlink()
        found = look(root)
        assert found.selected_core is None
        assert found.other_missing == ["libnppicc.so.13"]
        assert [problem["message"].split()[0] for problem in found.problems] == ["torchcodec", "No"]

    def test_a_library_of_torch_is_not_there(self, root):
        (root.site / "nvidia/cudnn/lib/libcudnn.so.9").unlink()
        found = look(root, root.ffmpeg(7))
        assert found.other_missing == ["libcudnn.so.9"]
        assert_problem(found, r"libtorch_cuda\.so` needs `libcudnn\.so\.9`", "^Install nvidia-cudnn-cu13 into")

    def test_parts_loaded_only_when_used_may_lack_theirs(self, tmp_path):
        root = Root(tmp_path, torchcodec="0.17.0")
        assert "libheif.so.1" not in look(root, root.ffmpeg(7)).other_missing

    def test_parts_loaded_at_import_may_not(self, tmp_path):
        root = Root(tmp_path, torchcodec="0.17.0")
        shutil.rmtree(root.site / "torchcodec.libs")
        found = look(root, root.ffmpeg(7))
        assert found.other_missing == ["libjpeg-f2263007.so.8.3.2"]


class TestTorch:
    def test_a_cpu_build(self, tmp_path):
        root = Root(tmp_path, torch="2.10.0", cuda=None)
        shutil.rmtree(root.site / "nvidia")
        found = look(root, root.ffmpeg(7))
        assert {"libc10_cuda.so", "libtorch_cuda.so"} <= set(found.other_missing)
        assert_problem(found, r"^torch 2\.10\.0\+cpu here is a CPU build", "CUDA build of torch")

    def test_another_cuda(self, tmp_path):
        root = Root(tmp_path, cuda="12.8")
        for name in ("libcudart.so.13", "libnvrtc.so.13", "libnppicc.so.13", "libnppc.so.13"):
            (root.cuda_libraries / name).unlink()
        for name in ("libc10_cuda.so", "libtorch_cuda.so"):
            Elf(soname=name).write(root.site / "torch/lib" / name)
        found = look(root, root.ffmpeg(7))
        assert_problem(
            found,
            r"^torch 2\.11\.0\+cu128 brings CUDA 12, and torchcodec 0\.11\.1\+cu130 needs CUDA 13: `libnvrtc\.so\.13`",
            "same wheel index",
        )

    def test_none(self, root):
        shutil.rmtree(root.site / "torch")
        found = look(root, root.ffmpeg(7))
        assert found.torch is None
        assert_problem(found, "^torch is not installed in", "^Install the torch")

    def test_another_torch(self, root):
        """cases.md C2: the core wants a function that this torch does not have yet."""
        root.library("core7", [*sonames(7), "libtorch.so", "libc.so.6"], sonames(7), undefined=["torch_from_blob"])
        found = look(root, root.ffmpeg(7))
        assert found.selected_core == 7
        assert statuses(found)[7] == "complete"
        assert_problem(found, "`torch_from_blob`.* torch 2.11.0.* not made for each other", "FFmpeg is not the cause")

    def test_a_function_that_torch_has(self, root):
        root.library("core7", [*sonames(7), "libtorch.so"], sonames(7), undefined=["torch_from_torch_cpu"])
        assert look(root, root.ffmpeg(7)).ok


class TestNoTorchcodec:
    def test_not_installed(self, root):
        shutil.rmtree(root.codec)
        found = look(root, root.ffmpeg(7))
        assert found.cores == []
        assert found.selected_core is None
        assert_problem(found, "^torchcodec is not installed in", r"torchcodec 0\.11 or newer")

    def test_the_placeholder(self, root):
        shutil.rmtree(root.codec)
        root.codec.mkdir()
        (root.codec / "version.py").write_text("__version__ = '0.0.0.dev0'\n")
        found = look(root, root.ffmpeg(7))
        assert_problem(found, r"^torchcodec 0\.0\.0\.dev0 in .* is a placeholder", r"0\.11 or newer")

    def test_the_placeholder_known_by_its_metadata(self, root):
        shutil.rmtree(root.codec)
        root.codec.mkdir()
        shutil.rmtree(root.site / "torchcodec-0.11.1.dist-info")
        root.distribution("torchcodec", "0.0.0")
        assert_problem(look(root), r"^torchcodec 0\.0\.0 in .* is a placeholder", r"0\.11 or newer")

    def test_for_another_machine(self, root):
        for core in root.codec.glob("*.so"):
            Elf(machine="x86_64").write(core)
        found = look(root, root.ffmpeg(7))
        assert found.selected_core is None
        assert len(found.wrong_arch) == 15
        assert_problem(found, "is for x86_64, expected aarch64$", "--python-platform aarch64-manylinux_2_28")

    def test_a_core_that_is_cut_off_leaves_the_next_one(self, root):
        core = root.codec / "libtorchcodec_core8.so"
        core.write_bytes(core.read_bytes()[:500])
        found = look(root, root.ffmpeg(8, "eight"), root.ffmpeg(7, "seven"))
        assert found.ok
        assert found.selected_core == 7

    def test_the_only_core_with_an_ffmpeg_is_cut_off(self, root):
        core = root.codec / "libtorchcodec_core7.so"
        core.write_bytes(core.read_bytes()[:500])
        assert not look(root, root.ffmpeg(7)).ok

    def test_a_companion_is_not_there(self, root):
        (root.codec / "libtorchcodec_custom_ops7.so").unlink()
        found = look(root, root.ffmpeg(7))
        assert_problem(found, "lacks `libtorchcodec_custom_ops7.so`", "^Install torchcodec again$")

    @pytest.mark.parametrize("names", [("{}",), ("_core{}", "_custom_ops{}"), ("_decoder{}", "_custom_ops{}")])
    def test_names_of_other_versions(self, root, names):
        """cases.md C3: what the files are called differs, and which majors there are."""
        for path in root.codec.glob("*.so"):
            path.unlink()
        for major in (5, 6, 7):
            for name in names:
                name = f"libtorchcodec{name.format(major)}.so"
                Elf(soname=name, needed=[*sonames(major), "libtorch.so"]).write(root.codec / name)
        found = look(root, root.ffmpeg(6))
        assert found.ok, found.problems
        assert list(statuses(found)) == [7, 6, 5]
        assert found.selected_core == 6


class TestLibraryDirs:
    def test_of_a_torchcodec_that_needs_npp(self, root):
        assert library_dirs(str(root.env)) == [NPP]

    def test_of_one_that_does_not(self, tmp_path):
        assert library_dirs(str(Root(tmp_path, torchcodec="0.17.0").env)) == []

    def test_the_same_through_a_link(self, root):
        (root.base / "envs").mkdir()
        (root.base / "envs/cu130").symlink_to(root.env)
        assert library_dirs(str(root.base / "envs/cu130")) == [NPP]

    def test_where_npp_is_not_installed(self, root):
        (root.cuda_libraries / "libnppicc.so.13").unlink()
        assert library_dirs(str(root.env)) == []


def test_whichever_file_is_damaged_no_more_than_a_problem_comes_of_it(root):
    folder = root.ffmpeg(7)
    files = [path for path in sorted(root.base.rglob("*")) if path.is_file() and not path.is_symlink()]
    assert len(files) > 40
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 3])
        found = look(root, folder)
        assert all(problem["message"] for problem in found.problems)
        assert found.ok or str(path) in found.message or os.path.basename(path).split(".so")[0] in found.message
        path.write_bytes(whole)
    assert look(root, folder).ok


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("root", "nowhere", "Expected a folder in `root`"),
        ("glibc", "two", "`two`"),
        ("glibc", "2", "`2`"),
        ("page_size", 0, "`0`"),
        ("page_size", 5000, "`5000`"),
        ("library_dirs", [""], "`library_dirs` holds an empty element"),
        ("ffmpeg_dirs", ["/a:/b"], "`ffmpeg_dirs` holds `/a:/b`"),
        ("ffmpeg_dirs", ["/a;/b"], "`ffmpeg_dirs` holds `/a;/b`"),
    ],
)
def test_an_option_that_stands_for_no_system_is_refused(root, option, value, says):
    with pytest.raises(ArmstageError, match=re.escape(says)):
        inspect(env=str(root.env), **{option: value})


def test_a_machine_by_another_of_its_names(root):
    assert look(root, root.ffmpeg(7), elf_machine="arm64").ok


def test_the_folder_around_torchcodec_is_told_from_it(root):
    with pytest.raises(ArmstageError, match="is the folder that torchcodec is in") as caught:
        inspect(torchcodec_dir=str(root.site))
    assert str(root.codec) in caught.value.hint


def test_libraries_of_32_bits_are_for_another_machine(root):
    found = look(root, root.ffmpeg(7, bits=32))
    assert_problem(found, "is for aarch64_ilp32, not aarch64", "for aarch64")
    assert len(found.wrong_arch) == 7


def test_ffmpeg_for_musl(root):
    found = look(root, root.ffmpeg(7, needed=["libc.musl-aarch64.so.1"], needs={}))
    assert_problem(found, "needs `libc.musl-aarch64.so.1`", "built for musl")


@pytest.mark.parametrize(
    ("gone", "ok"), [((), True), (("heic",), True), (("pybind_ops",), False), (("image", "heic"), False)]
)
def test_a_file_that_the_wheel_brought_and_that_is_gone(tmp_path, gone, ok):
    """torchcodec 0.16 and newer loads both when it is imported; that of HEIC when it is used."""
    root = Root(tmp_path, "0.17.0")
    (dist_info,) = root.site.glob("torchcodec-*.dist-info")
    lines = [f"torchcodec/{path.name},sha256=0,1" for path in root.codec.iterdir()]
    (dist_info / "RECORD").write_text("\n".join([*lines, "torchcodec/_core/__init__.py,,", ""]))
    for part in gone:
        (root.codec / f"libtorchcodec_{part}.so").unlink()
    found = look(root, root.ffmpeg(7))
    assert found.ok is ok
    if not ok:
        assert_problem(found, f"lacks `libtorchcodec_{gone[0]}.so`", "Install torchcodec again")
