"""Archives packed the same way each time: members by name, no owner, one date."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import tarfile
from pathlib import Path

DATE = 1777593600  # 2026-05-01, for every member


def pack(folder: Path, top: str, target: Path) -> None:
    """Write `folder` as the one top folder `top` of a .tar.gz or .tar.xz file; links stay links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in [folder, *sorted(folder.rglob("*"))]:
            tar.add(path, str(Path(top, path.relative_to(folder))), recursive=False, filter=_plain)
    target.write_bytes(compress(buffer.getvalue(), target.name))


def pack_one(name: str, data: bytes) -> bytes:
    """An uncompressed tar of one member of any name, such as one that leaves the folder it is unpacked in."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def compress(data: bytes, name: str) -> bytes:
    """As the ending of `name` says: .gz, .xz, else as it is."""
    if name.endswith(".gz"):
        return gzip.compress(data, compresslevel=6, mtime=0)
    return lzma.compress(data) if name.endswith(".xz") else data


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = DATE
    return member
