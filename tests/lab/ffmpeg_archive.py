"""FFmpeg 7.1 for aarch64 in the layout of BtbN's builds: Debian's source, built small, with what the proof decodes.

As in the upstream's builds the programs find the libraries beside them by their run path, and the libraries have none.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from armstage.errors import ArmstageError

from . import apt, image, toolchain
from .command import output_of, say
from .host import Host, cache_folder
from .packing import pack

TAG = "autobuild-2026-07-31-14-10"
PLACE = f"github.com/BtbN/FFmpeg-Builds/releases/download/{TAG}"
MINOR = "7.1"
PREFIX = "/ffmpeg"  # not in what is packed: the programs and pkg-config's files are relative to where they lie
# Two rounds of expansion, configure's and make's, come before the linker's shell sees this.
RUN_PATHS = " ".join(f"-Wl,-rpath,'\\$\\$ORIGIN{suffix}'" for suffix in ("", "/../lib"))
OPTIONS = (
    "--target-os=linux",
    "--arch=aarch64",
    "--enable-shared",
    "--disable-static",
    "--enable-gpl",
    "--enable-version3",
    "--enable-postproc",
    "--disable-everything",
    "--disable-autodetect",
    "--disable-network",
    "--disable-doc",
    "--disable-debug",
    "--disable-ffplay",
    "--enable-decoder=h264",
    "--enable-parser=h264",
    "--enable-demuxer=mov",
    "--enable-protocol=file",
    "--enable-filter=scale,format,crop,null,fps,trim,aresample,aformat,anull",
    f"--extra-ldexeflags={RUN_PATHS}",
)


def make(work: Path, host: Host) -> tuple[str, str, Path]:
    """Version, address without scheme, and the archive, made below `work` in about a minute on two cores."""
    toolchain.ensure(host)
    say("Building FFmpeg for aarch64 from Debian's source package; a minute or two, once")
    source = fetch_source(work, host)
    version = f"n{(source / 'RELEASE').read_text().strip()}"
    name = f"ffmpeg-{version}-linuxarm64-gpl-shared-{MINOR}"
    installed = build(source, work / "installed", host)
    shutil.copy(source / "COPYING.GPLv3", installed / "LICENSE.txt")
    archive = work / f"{name}.tar.xz"
    pack(installed, name, archive)
    return version, f"{PLACE}/{name}.tar.xz", archive


def fetch_source(work: Path, host: Host) -> Path:
    """Download and unpack the source package: the original archive, checked by apt against the signed index."""
    private = apt.PrivateApt(cache_folder() / "apt", apt.require_mirror(host), image.SUITE)
    downloads = work / "downloads"
    downloads.mkdir()
    private.get("update", cwd=downloads)
    private.get("source", "--download-only", "ffmpeg", cwd=downloads)
    original = next(downloads.glob("ffmpeg_*.orig.tar.xz"), None)
    if original is None or not re.match(rf"ffmpeg_{re.escape(MINOR)}\.", original.name):
        found = ", ".join(sorted(path.name for path in downloads.iterdir())) or "nothing"
        raise ArmstageError(f"Expected FFmpeg {MINOR} as the source package of {image.SUITE}, but found {found}")
    output_of(["tar", "-xf", str(original), "-C", str(work)], timeout=120)
    return next(work.glob("ffmpeg-*"))


def build(source: Path, target: Path, host: Host) -> Path:
    """The folder that holds `bin`, `lib` and `include`."""
    cross = ["--enable-cross-compile", f"--cross-prefix={toolchain.prefix(host)}"] if host.emulates else []
    output_of(["./configure", f"--prefix={PREFIX}", *cross, *OPTIONS], timeout=300, cwd=str(source))
    output_of(["make", f"-j{os.cpu_count()}"], timeout=1800, cwd=str(source))
    output_of(["make", "install", f"DESTDIR={target}"], timeout=300, cwd=str(source))
    installed = target / PREFIX.lstrip("/")
    shutil.rmtree(installed / "share")
    for path in (installed / "lib/pkgconfig").glob("*.pc"):
        text = path.read_text().replace(f"prefix={PREFIX}", "prefix=${pcfiledir}/../..", 1)
        path.write_text(text.replace(PREFIX, "${prefix}"))
    return installed


def checksum_file(address: str, digest: str) -> tuple[str, str]:
    """Where the upstream keeps this archive's checksum, and the text there."""
    folder, _, name = address.rpartition("/")
    return f"{folder}/checksums.sha256", f"{digest}  {name}\n"
