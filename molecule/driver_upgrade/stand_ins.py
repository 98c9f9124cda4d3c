"""Stand-ins for what this scenario stages and asks: a few hundred bytes each, laid out as the real thing is.

    python stand_ins.py make FOLDER NODE...
    python stand_ins.py driver FOLDER/NODE KERNEL LIBRARIES [GPU]

`make` makes below FOLDER a mirror of the PyTorch indexes cu128 and cu130 (torch, torchvision, torchcodec, nvidia-npp,
as wheels for aarch64), archives of uv and FFmpeg, and for each node a driver: libcuda.so.1 and libnvidia-ml.so.1,
compiled for aarch64, and a folder to mount as /sys/module. It writes the variables of the run as variables.json.
`driver` upgrades a node: the version of the module that is loaded, and that of the libraries. Nothing here computes.
"""

import base64
import hashlib
import io
import json
import socket
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:1] = [str(PROJECT / "tests"), str(PROJECT / "module_utils")]

from lab import toolchain  # noqa: E402
from lab.host import read_host  # noqa: E402
from lab.stubs.build import build  # noqa: E402

INDEXES = {"cu128": ("12.8", "nvidia-npp-cu12", "12.4.1.87"), "cu130": ("13.0", "nvidia-npp", "13.0.1.2")}
VERSIONS = {"torch": "2.11.0", "torchvision": "0.26.0", "torchcodec": "0.11.1"}
TAG = "cp313-cp313-manylinux_2_28_aarch64"
AARCH64 = 183
ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, AARCH64, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)
CUDA = {"560.35.05": 12060, "570.172.08": 12080, "580.95.05": 13000, "610.43.02": 13030}
FIRST = "570.172.08"
GPUS = {
    "GB200": "NVIDIA GB200|GPU-0|00000008:01:00.0|189471|10.0|0",
    "GH200": "NVIDIA GH200 480GB|GPU-0|00000009:01:00.0|97871|9.0|0",
}


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> None:
    """A wheel for aarch64, and the page of the index that lists it."""
    distribution = f"{name.replace('-', '_')}-{version}"
    info = f"{distribution}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(),
    }
    record = ""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in contents.items():
            archive.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    page = folder / name
    page.mkdir(parents=True)
    file = f"{distribution}-{TAG}.whl"
    (page / file).write_bytes(buffer.getvalue())
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    (page / "index.html").write_text(f'<!DOCTYPE html>\n<a href="{file}#sha256={digest}">{file}</a>\n')


def index(mirror: Path, tag: str) -> None:
    """A PyTorch wheel index under its upstream's own host and path."""
    folder = mirror / "download.pytorch.org/whl" / tag
    cuda, npp, npp_version = INDEXES[tag]
    for name, version in VERSIONS.items():
        build = f"{version}+{tag}"
        files = {
            f"{name}/__init__.py": b"",
            f"{name}/late.py": f"BUILD = {tag!r}\n".encode(),
            f"{name}/version.py": f"__version__ = {build!r}\ncuda = {cuda!r}\n".encode(),
            f"{name}/lib/{name}.so": ELF,
        }
        wheel(folder, name, build, files)
    wheel(folder, npp, npp_version, {f"nvidia/{npp}/lib/libnppicc.so": ELF})


def archive(folder: Path, component: str, member: str) -> dict[str, object]:
    """A tar archive with one aarch64 file, as a source."""
    file = folder / f"{component}.tar.gz"
    with tarfile.open(file, "w:gz") as packed:
        info = tarfile.TarInfo(f"{component}/{member}")
        info.size, info.mode = len(ELF), 0o755
        packed.addfile(info, io.BytesIO(ELF))
    return {
        "kind": "mirror",
        "url": file.as_uri(),
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "strip_components": 1,
    }


def upgrade(folder: Path, kernel: str, libraries: str, gpu: str = "GB200") -> None:
    """What the node's driver says from now on, at once, as an upgrade of its packages makes it."""
    for name in ("libcuda", "libnvidia-ml"):
        link = folder / "lib" / f"{name}.so.1"
        link.resolve().rename(folder / "lib" / f"{name}.so.{libraries}")
        link.unlink()
        link.symlink_to(f"{name}.so.{libraries}")
    (folder / "module/nvidia/version").write_text(f"{kernel}\n")
    answers = [
        f"driver {libraries}",
        f"cuda {CUDA[libraries]}",
        f"gpu {GPUS[gpu]}",
    ]
    if kernel != libraries:
        answers.append("fail nvmlInit_v2 18")
    (folder / "stub.conf").write_text("".join(f"{line}\n" for line in answers))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def make(folder: Path, nodes: list[str]) -> None:
    for tag in INDEXES:
        index(folder / "mirror", tag)
    toolchain.ensure(read_host())
    compiler = f"{toolchain.prefix(read_host())}gcc"
    for node in nodes:
        (folder / node / "module/nvidia").mkdir(parents=True)
        build(folder / node / "lib", compiler, version=FIRST)
        upgrade(folder / node, FIRST, FIRST)
    variables = {
        "armstage_mirror": f"http://127.0.0.1:{free_port()}",
        "armstage_uv_sources": [archive(folder, "uv", "uv")],
        "armstage_ffmpeg_sources": [archive(folder, "ffmpeg", "lib/libavutil.so.59")],
        # Not there, so that the nodes' own Python is used, which runs.
        "armstage_cpython_sources": [
            {"kind": "mirror", "url": (folder / "cpython.tar.gz").as_uri(), "sha256": 64 * "0"}
        ],
        "armstage_torch_also": [],
    }
    (folder / "variables.json").write_text(json.dumps(variables, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), sys.argv[3:])
    else:
        upgrade(Path(sys.argv[2]), *sys.argv[3:])
