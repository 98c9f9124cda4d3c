"""Which core would load: whole environments, each with one thing wrong, and the one right message."""

import os
import re
import shutil
import time

import pytest
from ansible.module_utils.armstage.elf.torchcodec import inspect, library_dirs
from ansible.module_utils.armstage.errors import ArmstageError

from .builder import Elf
from .planted import Root, sonames, symbol, version

NPP = "lib/python3.12/site-packages/nvidia/cu13/lib"


@pytest.fixture
def root(tmp_path):
    return Root(tmp_path)


def look(root, *folders, **options):
    options.setdefault("env", str(root.env))
    return inspect(ffmpeg_dirs=[str(folder) for folder in folders], root=str(root.system), **options)


def statuses(found):
    return {core["core"]: core["status"] for core in found.cores}


def assert_problem(found, message, hint):
    """The first problem matches, and there is no other."""
    assert not found.ok
    assert re.search(message, found.message), found.message
    assert re.search(hint, found.hint), found.hint
    assert len(found.problems) == 1, found.problems


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


class TestFFmpeg:
    def test_none(self, root):
        found = look(root)
        assert set(statuses(found).values()) == {"absent"}
        assert found.cores[1]["missing"] == sonames(7)
        assert_problem(
            found, r"^No FFmpeg in any folder searched: torchcodec .* FFmpeg 4, 5, 6, 7 or 8$", "`ffmpeg` is not used"
        )

    def test_a_folder_that_is_not_there(self, root):
        assert_problem(look(root, "/no/such/lib"), "there is no folder `/no/such/lib`", "^Stage FFmpeg")

    def test_the_folder_above_the_libraries(self, root):
        folder = root.ffmpeg(7)
        assert_problem(look(root, folder.parent), "^No FFmpeg", f"^They are in `{folder}`")

    @pytest.mark.parametrize("soname", sonames(7))
    def test_one_library_is_not_there(self, root, soname):
        folder = root.ffmpeg(7)
        (folder / soname).unlink()
        (folder / f"{soname}.1.100").unlink()
        found = look(root, folder)
        assert statuses(found)[7] == "partial"
        assert found.cores[1]["missing"] == [soname]
        assert found.selected_core is None
        assert_problem(found, f"^FFmpeg 7 is partly present in `{folder}`: missing `{re.escape(soname)}`", "one folder")

    def test_two_libraries_of_six_and_none_of_the_others(self, root):
        """cases.md C1: 6 is the one to be looked at."""
        folder = root.ffmpeg(6)
        for soname in sonames(6)[2:]:
            (folder / soname).unlink()
            (folder / f"{soname}.1.100").unlink()
        found = look(root, folder)
        assert statuses(found) == {8: "absent", 7: "absent", 6: "partial", 5: "absent", 4: "absent"}
        assert_problem(
            found, r"^FFmpeg 6 is partly present .*: missing `libavformat\.so\.60`, `libavdevice", "FFmpeg 6"
        )

    def test_a_soname_shared_by_two_majors_tells_neither(self, root):
        """libswresample.so.4 is in FFmpeg 5 and in FFmpeg 6."""
        assert statuses(look(root, root.ffmpeg(6, "six")))[5] == "absent"
        assert statuses(look(root, root.ffmpeg(5, "five")))[6] == "absent"

    def test_an_older_one_is_expected(self, root):
        folder = root.ffmpeg(8)
        found = look(root, folder, ffmpeg_major=7)
        assert found.selected_core == 8
        assert_problem(
            found, f"^FFmpeg 8 would be loaded, expected 7: `{folder}/libavutil.so.60`$", "FFmpeg 7 into the folder"
        )

    def test_a_newer_one_of_the_system_is_found_before(self, root):
        folder = root.system / "usr/lib/aarch64-linux-gnu"
        shutil.copytree(root.ffmpeg(8, "eight"), folder, symlinks=True)
        found = look(root, root.ffmpeg(7), ffmpeg_major=7)
        assert found.selected_core == 8
        assert_problem(found, f"^FFmpeg 8 is found before 7: `{folder}/libavutil.so.60`$", "take FFmpeg 8 out")

    def test_the_expected_one_is_partly_present_and_an_older_one_whole(self, root):
        seven = root.ffmpeg(7, "seven")
        (seven / "libavdevice.so.61").unlink()
        found = look(root, seven, root.ffmpeg(6, "six"), ffmpeg_major=7)
        assert found.selected_core == 6
        assert_problem(
            found, r"^FFmpeg 7 is partly present.*`libavdevice\.so\.61`; FFmpeg 6 would be loaded", "FFmpeg 7"
        )

    def test_five_in_place_of_seven(self, root):
        found = look(root, root.ffmpeg(5), ffmpeg_major=7)
        assert found.selected_core == 5
        assert_problem(found, "^FFmpeg 5 would be loaded, expected 7: `.*/libavutil.so.57`$", "in place of FFmpeg 5")

    def test_a_core_that_there_is_not(self, root):
        found = look(root, root.ffmpeg(7), ffmpeg_major=9)
        assert_problem(found, "has no core for FFmpeg 9, only for 4, 5, 6, 7 and 8$", "^Use FFmpeg 7")

    @pytest.mark.parametrize(("major", "which"), [(9, "FFmpeg 9"), (10, "of a newer FFmpeg")])
    def test_an_ffmpeg_that_no_core_is_for(self, root, major, which):
        """cases.md C6."""
        found = look(root, root.ffmpeg(major))
        assert_problem(
            found, f"`.*/libavutil.so.{major + 52}`, is {which}.* has cores for 4, 5, 6, 7 and 8$", "FFmpeg 8"
        )

    def test_private_copies_of_a_wheel(self, root):
        """cases.md C9."""
        folder = root.base / "av.libs"
        for soname in sonames(7):
            stem, _, number = soname.partition(".so.")
            Elf().write(folder / f"{stem}-2a27f4d8.so.{number}.39.100")
        found = look(root, folder)
        assert set(statuses(found).values()) == {"absent"}
        assert_problem(found, r"libavcodec-2a27f4d8\.so\.61\.39\.100` is a wheel's private copy", "under the soname")

    def test_private_copies_linked_under_their_sonames(self, root):
        folder = root.base / "av.libs"
        private = {name: "{}-2a27f4d8.so.{}.39.100".format(*name.split(".so.")) for name in sonames(7)}
        for position, (soname, name) in enumerate(private.items()):
            needed = [*list(private.values())[:position], "libx264-0e25dc1b.so.165"]
            Elf(soname=name, needed=needed, offers=[version(soname)], defined=[symbol(soname)]).write(folder / name)
            (folder / soname).symlink_to(name)
        Elf(soname="libx264-0e25dc1b.so.165").write(folder / "libx264-0e25dc1b.so.165")
        assert look(root, folder).ok
        (folder / "libx264-0e25dc1b.so.165").unlink()
        found = look(root, folder)
        assert found.other_missing == ["libx264-0e25dc1b.so.165"]
        assert_problem(found, r"FFmpeg 7 does not load: .* needs `libx264-0e25dc1b\.so\.165`", "beside FFmpeg's")
        Elf(soname="libx264-0e25dc1b.so.165").write(folder / "libx264-0e25dc1b.so.165")
        (folder / private["libavutil.so.59"]).rename(folder / "libavutil.so.59.moved")
        (folder / "libavutil.so.59").unlink()
        (folder / "libavutil.so.59").symlink_to("libavutil.so.59.moved")
        found = look(root, folder)
        assert statuses(found)[7] == "complete"
        (folder / "libavutil.so.59.moved").write_bytes(bytes(Elf()))
        found = look(root, folder)
        assert found.cores[1]["missing"] == [private["libavutil.so.59"]]
        assert statuses(found)[7] == "partial"

    def test_links_that_were_lost(self, root):
        folder = root.ffmpeg(7)
        for soname in sonames(7):
            (folder / soname).unlink()
        found = look(root, folder)
        assert_problem(
            found, r"libavcodec\.so\.61\.1\.100` is there without its link `libavcodec\.so\.61`", "symbolic links"
        )

    def test_a_link_to_nothing(self, root):
        folder = root.ffmpeg(7)
        (folder / "libavcodec.so.61.1.100").unlink()
        found = look(root, folder)
        assert_problem(
            found, "^FFmpeg 7 is not usable: `.*/libavcodec.so.61` is a link to a file that does not", "again"
        )

    @pytest.mark.parametrize("content", [b"", b"<!DOCTYPE html>\n", b"\x7fELF\x02\x01\x01", bytes(Elf())[:300]])
    def test_a_library_that_was_not_fetched_whole(self, root, content):
        folder = root.ffmpeg(7)
        (folder / "libavfilter.so.10.1.100").write_bytes(content)
        found = look(root, folder)
        assert found.cores[1]["missing"] == ["libavfilter.so.10"]
        assert_problem(found, r"^FFmpeg 7 is not usable: `.*/libavfilter\.so\.10` is ", "again")

    def test_its_own_needs(self, root):
        folder = root.ffmpeg(7, needed=["libvpx.so.9", "libc.so.6"])
        found = look(root, folder)
        assert found.selected_core == 7
        assert statuses(found)[7] == "complete"
        assert found.other_missing == ["libvpx.so.9"]
        assert_problem(found, r"^FFmpeg 7 does not load: `.*` needs `libvpx\.so\.9`", "system package that holds it")

    def test_one_that_does_not_load_leaves_the_next_one(self, root):
        seven = root.ffmpeg(7, "seven", needed=["libvpx.so.9"])
        found = look(root, seven, root.ffmpeg(6, "six"))
        assert found.ok
        assert found.selected_core == 6
        assert found.other_missing == []

    def test_a_dead_end_further_down(self, root):
        folder = root.ffmpeg(7, needed=["libvpx.so.9"])
        Elf(needed=["libdeep.so.2"]).write(folder / "libvpx.so.9")
        found = look(root, folder)
        assert found.other_missing == ["libdeep.so.2"]
        assert_problem(found, r"`.*/libvpx\.so\.9` needs `libdeep\.so\.2`", "system package")


class TestMachine:
    def test_one_library_for_another_machine(self, root):
        folder = root.ffmpeg(7)
        Elf(machine="x86_64").write(folder / "libavcodec.so.61.1.100")
        found = look(root, folder)
        assert found.wrong_arch == [str(folder / "libavcodec.so.61")]
        assert found.cores[1]["missing"] == ["libavcodec.so.61"]
        assert_problem(
            found, "^FFmpeg 7 is not usable: `.*/libavcodec.so.61` is for x86_64, not aarch64$", "for aarch64"
        )

    def test_all_of_them(self, root):
        folder = root.ffmpeg(7, machine="x86_64")
        found = look(root, folder)
        assert set(statuses(found).values()) == {"absent"}
        assert {os.path.basename(path) for path in found.wrong_arch} == set(sonames(7))
        assert_problem(found, "^No FFmpeg that loads: `.*` is for x86_64, not aarch64$", "for aarch64")

    def test_the_search_goes_on_behind_them(self, root):
        wrong = root.ffmpeg(7, "wrong", machine="x86_64")
        found = look(root, wrong, root.ffmpeg(7, "right"))
        assert found.ok
        assert len(found.wrong_arch) == 7
        assert "and 6 more is for another machine and passed over" in found.message

    def test_one_beside_ffmpeg_that_is_not_needed(self, root):
        folder = root.ffmpeg(7)
        Elf(machine="x86_64").write(folder / "libpostproc.so.58")
        found = look(root, folder)
        assert found.wrong_arch == [str(folder / "libpostproc.so.58")]

    def test_a_name_that_is_not_unicode(self, root):
        folder = root.ffmpeg(7)
        os.rename(Elf(machine="x86_64").write(folder / "x"), os.fsencode(folder) + b"/lib\xff.so")
        assert look(root, folder).wrong_arch == [f"{folder}/lib\\xff.so"]

    def test_a_python_of_the_staging_host(self, root):
        """The node's own interpreter, by a path where the host that stages has one of its own."""
        Elf(machine="x86_64", type="EXEC").write(root.python / "bin/python3.12")
        found = look(root, root.ffmpeg(7))
        assert found.machine == "aarch64"
        assert found.other_missing == ["libpython3.12.so.1.0"]

    def test_a_whole_environment_for_x86_64(self, tmp_path):
        root = Root(tmp_path)
        folder = root.ffmpeg(7)
        for path in [*tmp_path.rglob("*.so*"), root.python / "bin/python3.12"]:
            if path.is_file() and not path.is_symlink():
                data = bytearray(path.read_bytes())
                data[18] = 62
                path.write_bytes(data)
        found = look(root, folder)
        assert found.ok, found.problems
        assert found.machine == "x86_64"


class TestFit:
    def test_a_symbol_that_this_ffmpeg_lacks(self, root):
        """cases.md C5: core 4 was compiled against newer headers."""
        root.library("core4", [*sonames(4), "libtorch.so"], [], undefined=["av_channel_layout_default"])
        found = look(root, root.ffmpeg(4))
        assert found.selected_core == 4
        assert statuses(found)[4] == "complete"
        assert_problem(found, "core4.so` needs the symbol `av_channel_layout_default`", "FFmpeg 4")

    def test_a_core_that_does_not_fit_leaves_the_next_one(self, root):
        root.library("core5", [*sonames(5), "libtorch.so"], [], undefined=["av_channel_layout_default"])
        found = look(root, root.ffmpeg(5, "five"), root.ffmpeg(4, "four"))
        assert found.ok
        assert found.selected_core == 4

    def test_a_version_that_this_ffmpeg_does_not_define(self, root):
        folder = root.ffmpeg(7)
        Elf(soname="libswscale.so.8", offers=["LIBSWSCALE_9"], defined=["sws_swscale"]).write(
            folder / "libswscale.so.8.1.100"
        )
        found = look(root, folder)
        assert_problem(found, r"needs version `LIBSWSCALE_8`, which `.*/libswscale\.so\.8` does not offer", "FFmpeg 7")

    def test_a_library_without_versions_offers_all(self, root):
        assert look(root, root.ffmpeg(7, offers=[])).ok

    def test_two_builds_of_one_major_mixed(self, root):
        folder = root.ffmpeg(7)
        Elf(
            soname="libavfilter.so.10",
            needed=["libavutil.so.59"],
            offers=["LIBAVFILTER_10"],
            defined=["av_avfilter"],
            undefined=["av_new_in_7_1"],
        ).write(folder / "libavfilter.so.10.1.100")
        assert_problem(look(root, folder), "libavfilter.so.10` needs the symbol `av_new_in_7_1`", "one build")

    def test_a_third_party_library(self, root):
        """cases.md C4: /lib64/libtiff.so.6: undefined symbol: jpeg12_write_raw_data."""
        for name in ("libc.so.6", "libm.so.6", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6"):
            Elf(soname=name, offers=["GLIBC_2.17", "GLIBC_2.28"] if name == "libc.so.6" else []).write(
                root.system / "lib64" / name
            )
        Elf(needed=["libjpeg.so.62"], undefined=["jpeg12_write_raw_data"]).write(root.system / "lib64/libtiff.so.6")
        Elf(defined=["jpeg12_write_raw_data"]).write(root.system / "lib64/libjpeg.so.62")
        folder = root.ffmpeg(7, needed=["libtiff.so.6"])
        root.library("core7", [*sonames(7), "libtorch.so"], [], undefined=["PyObject_Call", "_Py_NoneStruct"])
        found = look(root, folder)
        assert found.ok, found.problems
        assert found.assumed == []
        Elf(defined=["jpeg_write_raw_data"]).write(folder / "libjpeg.so.62")
        found = look(root, folder)
        assert_problem(found, "libtiff.so.6` needs the symbol `jpeg12_write_raw_data`", "off LD_LIBRARY_PATH")

    def test_where_libraries_are_left_to_the_node_others_are_not_judged(self, root):
        assert look(root, root.ffmpeg(7, undefined=["some_function_of_libc"])).ok


class TestNode:
    def test_glibc(self, root):
        folder = root.ffmpeg(7)
        assert look(root, folder).glibc_required == "2.28"
        assert look(root, folder, glibc="2.28").ok
        assert_problem(look(root, folder, glibc="2.9"), "needs glibc 2.28, and the node has 2.9$", "glibc 2.9 or older")

    def test_glibc_of_the_root(self, root):
        folder = root.ffmpeg(7)
        Elf(soname="libc.so.6", offers=["GLIBC_2.17", "GLIBC_2.26"]).write(root.system / "lib64/libc.so.6")
        for name in ("libm.so.6", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6"):
            Elf().write(root.system / "lib64" / name)
        assert_problem(look(root, folder), "needs glibc 2.28, and the node has 2.26$", "2.26")

    def test_libstdcxx_of_the_root(self, root):
        """facts.md section 2: Debian 13's libavfilter on Ubuntu 22.04."""
        folder = root.ffmpeg(7, needed=["libstdc++.so.6"], needs={"libstdc++.so.6": ["GLIBCXX_3.4.32"]})
        Elf(soname="libstdc++.so.6", offers=["GLIBCXX_3.4", "GLIBCXX_3.4.30"]).write(
            root.system / "lib64/libstdc++.so.6"
        )
        assert_problem(
            look(root, folder),
            r"needs version `GLIBCXX_3\.4\.32`, which `.*/lib64/libstdc\+\+\.so\.6` does not offer$",
            "a build for the system of the node",
        )

    def test_glibc_of_a_version_that_is_no_number(self, root):
        folder = root.ffmpeg(7, needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_ABI_DT_RELR", "GLIBC_PRIVATE"]})
        assert look(root, folder).glibc_required == "2.36"

    def test_glibc_without_an_ffmpeg(self, root):
        assert look(root).glibc_required == "2.17"

    def test_pages(self, root):
        folder = root.ffmpeg(7, align=0x1000)
        assert_problem(look(root, folder, page_size=65536), "is not aligned for the node's pages of 65536", "65536")
        found = look(root, folder, page_size=4096)
        assert found.ok
        assert found.page_size_ok

    def test_pages_of_a_node_that_is_not_known(self, root):
        found = look(root, root.ffmpeg(7, align=0x1000))
        assert (found.page_size, found.page_size_ok) == (65536, False)
        assert found.ok, "what is not known is no problem"


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
