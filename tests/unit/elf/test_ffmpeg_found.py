"""The FFmpeg that is found: whole, partial, another, for another machine, or one that does not fit."""

import os
import re
import shutil

import pytest

from .builder import Elf
from .looking import assert_problem, look, statuses
from .planted import Root, sonames, symbol, version


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

    @pytest.mark.parametrize("gone", [(4,), (4, 5, 6, 8), (4, 5, 7, 8)])
    def test_an_ffmpeg_older_than_every_core_or_between_them(self, root, gone):
        """cases.md C3: torchcodec 0.2 has cores for 5, 6 and 7 only."""
        for core in gone:
            for path in root.codec.glob(f"*{core}.so"):
                path.unlink()
        found = look(root, root.ffmpeg(4))
        left = {(4,): "5, 6, 7 or 8", (4, 5, 6, 8): "7", (4, 5, 7, 8): "6"}[gone]
        assert_problem(found, "is FFmpeg 4, and torchcodec", f"^Use FFmpeg {left}, or another torchcodec$")

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

    def test_a_link_that_is_there_is_not_called_lost(self, root):
        folder = root.ffmpeg(6)
        for path in [path for path in folder.iterdir() if "swresample" not in path.name]:
            path.unlink()
        found = look(root, folder)
        assert_problem(found, "No FFmpeg in any folder searched", "the folder of FFmpeg's libraries")

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

    @pytest.mark.parametrize("mark", [True, None], ids=["marked", "not marked at all"])
    def test_a_glibc_that_lets_stacks_be(self, root, mark):
        folder = root.ffmpeg(7, executable_stack=mark)
        assert look(root, folder, glibc="2.40").ok
        said = "asks for an executable stack, and glibc 2.41 of the node does not load such$"
        assert_problem(look(root, folder, glibc="2.41"), said, "patchelf --clear-execstack .*/libavutil.so.59")

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
