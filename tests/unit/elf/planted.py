"""A root as armstage stages it, planted from small ELF files: Python, torch, CUDA, torchcodec, FFmpeg.

Needs, names and search paths are those read from the aarch64 wheels of torch 2.11.0 and of
torchcodec 0.11.1 and 0.17.0, and from CPython 3.12 as uv installs it.
"""

from __future__ import annotations

from pathlib import Path

from .builder import Elf

HOST = ["libstdc++.so.6", "libgcc_s.so.1", "libc.so.6"]
TORCH_RPATH = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cu13/lib:$ORIGIN"

FFMPEG = {
    4: "avutil.56 avcodec.58 avformat.58 avdevice.58 avfilter.7 swscale.5 swresample.3",
    5: "avutil.57 avcodec.59 avformat.59 avdevice.59 avfilter.8 swscale.6 swresample.4",
    6: "avutil.58 avcodec.60 avformat.60 avdevice.60 avfilter.9 swscale.7 swresample.4",
    7: "avutil.59 avcodec.61 avformat.61 avdevice.61 avfilter.10 swscale.8 swresample.5",
    8: "avutil.60 avcodec.62 avformat.62 avdevice.62 avfilter.11 swscale.9 swresample.6",
    9: "avutil.61 avcodec.63 avformat.63 avdevice.63 avfilter.12 swscale.10 swresample.7",
    10: "avutil.62 avcodec.64 avformat.64 avdevice.64 avfilter.13 swscale.11 swresample.8",
}


def sonames(major: int) -> list[str]:
    return ["lib{}.so.{}".format(*name.split(".")) for name in FFMPEG[major].split()]


def symbol(soname: str) -> str:
    """The one symbol that the planted library of this soname defines: ``av_avutil``, ``sws_swscale``."""
    library = soname[3:].partition(".")[0]
    return {"swscale": "sws_", "swresample": "swr_"}.get(library, "av_") + library


def version(soname: str) -> str:
    """``LIBAVUTIL_59``."""
    library, _, number = soname[3:].partition(".so.")
    return f"LIB{library.upper()}_{number}"


class Root:
    """``env`` is the environment, ``site`` its packages, ``codec`` torchcodec, ``python`` CPython's folder."""

    def __init__(self, base: Path, torchcodec: str = "0.11.1", torch: str = "2.11.0", cuda: str | None = "13.0"):
        self.base = base
        self.env = base / "store/env-cu130-0123456789ab"
        self.site = self.env / "lib/python3.12/site-packages"
        self.codec = self.site / "torchcodec"
        self.cuda_libraries = self.site / "nvidia/cu13/lib"
        self.python = base / "python/cpython-3.12.12-linux-aarch64-gnu"
        self.system = base / "system"
        self.system.mkdir(parents=True)
        self._python()
        self._cuda()
        self._torch(torch, cuda)
        self._torchcodec(torchcodec)

    def ffmpeg(self, major: int, folder: str = "ffmpeg", **changes: object) -> Path:
        """Plant an FFmpeg whose libraries need each other, as ``folder/lib``; returns that folder."""
        lib = self.base / folder / "lib"
        names = sonames(major)
        for position, soname in enumerate(names):
            elf = Elf(
                soname=soname,
                needed=[*names[:position], "libm.so.6", "libc.so.6"],
                needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"]},
                offers=[version(soname)],
                defined=[symbol(soname)],
            )
            for name, value in changes.items():
                setattr(elf, name, value)
            (lib / f"{soname}.1.100").unlink(missing_ok=True)
            elf.write(lib / f"{soname}.1.100")
            (lib / soname).unlink(missing_ok=True)
            (lib / soname).symlink_to(f"{soname}.1.100")
        return lib

    def distribution(self, name: str, version: str) -> None:
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n")

    def _python(self) -> None:
        Elf(
            type="EXEC",
            interpreter="/lib/ld-linux-aarch64.so.1",
            needed=["libpthread.so.0", "libc.so.6"],
            rpath="$ORIGIN/../lib",
        ).write(self.python / "bin/python3.12")
        Elf(soname="libpython3.12.so.1.0", needed=["libc.so.6"]).write(self.python / "lib/libpython3.12.so.1.0")
        (self.env / "bin").mkdir(parents=True)
        (self.env / "bin/python").symlink_to("python3.12")
        (self.env / "bin/python3.12").symlink_to("../../../python/cpython-3.12.12-linux-aarch64-gnu/bin/python3.12")
        (self.env / "pyvenv.cfg").write_text(f"home = {self.python}/bin\nversion = 3.12.12\n")

    def _cuda(self) -> None:
        for name in ("libcudart.so.13", "libnvrtc.so.13", "libcublas.so.13", "libnppc.so.13"):
            Elf(soname=name, needed=["libc.so.6"]).write(self.cuda_libraries / name)
        Elf(soname="libnppicc.so.13", needed=["libnppc.so.13"], runpath="$ORIGIN").write(
            self.cuda_libraries / "libnppicc.so.13"
        )
        Elf(soname="libcudnn.so.9", needed=["libc.so.6"]).write(self.site / "nvidia/cudnn/lib/libcudnn.so.9")

    def _torch(self, version: str, cuda: str | None) -> None:
        local = f"cu{cuda.replace('.', '')}" if cuda else "cpu"
        needs = {
            "libc10.so": [],
            "libc10_cuda.so": ["libc10.so", "libcudart.so.13"],
            "libtorch_cpu.so": ["libc10.so"],
            "libtorch_cuda.so": ["libtorch_cpu.so", "libc10_cuda.so", "libcudart.so.13", "libcudnn.so.9"],
            "libtorch.so": ["libtorch_cpu.so", "libtorch_cuda.so"],
            "libtorch_python.so": ["libtorch.so"],
        }
        for name, needed in needs.items():
            if not cuda:
                if name.endswith("_cuda.so"):
                    continue
                needed = [each for each in needed if not each.endswith("_cuda.so")]
            Elf(soname=name, needed=[*needed, *HOST], rpath=TORCH_RPATH, defined=[f"torch_from_{name[3:-3]}"]).write(
                self.site / "torch/lib" / name
            )
        Elf(needed=["libtorch_python.so", "libc.so.6"], rpath="$ORIGIN/lib").write(
            self.site / "torch/_C.cpython-312-aarch64-linux-gnu.so"
        )
        (self.site / "torch/version.py").write_text(
            "from typing import Optional\n\n"
            f"__version__ = '{version}+{local}'\ndebug = False\ncuda: Optional[str] = {cuda!r}\n"
        )
        self.distribution("torch", version)

    def _torchcodec(self, version_text: str) -> None:
        recent = version_text >= "0.16"
        torch = ["libtorch.so", "libc10.so", "libnvrtc.so.13", "libc10_cuda.so"]
        after = ["libtorch_cpu.so", "libtorch_cuda.so", "libcudart.so.13", *HOST]
        npp = [] if version_text >= "0.13" else ["libnppicc.so.13"]
        for core in range(4, 10 if recent else 9):
            names = sonames(core)
            self.library(f"core{core}", [*torch, *npp, *names, *after], names)
            python = [] if recent else ["libpython3.12.so.1.0"]
            self.library(f"custom_ops{core}", [f"libtorchcodec_core{core}.so", *python, *names, *after], [])
            if not recent:
                self.library(f"pybind_ops{core}", [f"libtorchcodec_core{core}.so", *names, *after], [])
        if recent:
            self.library("pybind_ops", [*torch, *after], [])
            self.library("heic", ["libtorch.so", "libheif.so.1", *HOST], [])
            Elf(
                soname="libtorchcodec_image.so",
                needed=[*torch, "libjpeg-f2263007.so.8.3.2", *after],
                rpath="$ORIGIN/../torchcodec.libs",
            ).write(self.codec / "libtorchcodec_image.so")
            Elf(soname="libjpeg-f2263007.so.8.3.2").write(self.site / "torchcodec.libs/libjpeg-f2263007.so.8.3.2")
        (self.codec / "version.py").write_text(f"__version__ = '{version_text}+cu130'\n")
        self.distribution("torchcodec", version_text)

    def library(self, part: str, needed: list[str], ffmpeg: list[str], **changes: object) -> Path:
        """Plant a file of torchcodec; it wants the symbol of each of these FFmpeg libraries, by version."""
        elf = Elf(
            soname=f"libtorchcodec_{part}.so",
            needed=needed,
            needs={"libc.so.6": ["GLIBC_2.17"], **{name: [version(name)] for name in ffmpeg}},
            undefined=["malloc@GLIBC_2.17", *(f"{symbol(name)}@{version(name)}" for name in ffmpeg)],
        )
        for name, value in changes.items():
            setattr(elf, name, value)
        return elf.write(self.codec / f"libtorchcodec_{part}.so")
