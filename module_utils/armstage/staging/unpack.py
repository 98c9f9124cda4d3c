"""Archives into an empty folder, member by member, trusting none of them.

Files are written only below folders made here; links are made last and then followed to see that
they end inside. So no member is ever written through a link, however the links are arranged.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import posixpath
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Callable

from ..elf.image import MAGIC
from ..elf.reader import is_program
from ..errors import ArmstageError
from .fetch import Progress, Refused
from .space import MARGIN, full, human

CHUNK = 1024 * 1024

MAX_RATIO = 200
"""Unpacked bytes for each packed one that are still believed."""

RATIO_FREE = 256 * 1024 * 1024
"""Unpacked bytes for which the ratio is not asked: small archives of text pack well."""

MAX_MEMBERS = 500_000
MAX_LINK = 4096
MAX_NAME = 255
"""Bytes of one name that filesystems take."""

MAX_PATH = 3072
"""Bytes of a path below the release; Linux takes 4096 with the root in front of it."""

MAX_DEPTH = 255
"""Folders within folders; what walks a release later goes down as deep."""

LAST_TIME = 1 << 33
"""A time stamp beyond any that filesystems hold."""

COMPRESSIONS: tuple[tuple[bytes, Callable[[Path], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"\xfd7zXZ\x00", lzma.open),
    (b"BZh", bz2.open),
)
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error, tarfile.TarError, zipfile.BadZipFile, NotImplementedError,
           ValueError, IndexError, OverflowError, struct.error)  # fmt: skip
"""What the readers raise on an archive that is cut short or not what its first bytes say."""

NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""How filesystems say that they have none, or no more for one file."""


@dataclass(frozen=True)
class Layout:
    """Which part of an archive becomes which part of a release.

    ``strip_components`` leading folders are dropped; of what is left the folder ``select`` is the
    content, and it is put into the folder ``into`` of the release. Empty: all of it, at the top.
    """

    strip_components: int = 0
    select: str = ""
    into: str = ""


@dataclass(frozen=True)
class Member:
    """One entry of an archive. ``kind``: file, folder, link, hardlink, or the words for what it is else.

    ``executable`` is None where the archive does not say: a zip made where files have no modes.
    """

    name: str
    kind: str
    size: int = 0
    executable: bool | None = False
    target: str = ""
    mtime: float | None = None


Read = Callable[[], "IO[bytes]"]


def unpack(
    archive: Path,
    folder: Path,
    layout: Layout = Layout(),
    shown: str = "",
    progress: Progress | None = None,
) -> None:
    """Unpack ``archive`` into ``folder``; ``shown`` is how messages name it.

    Modes are made plain: readable by all, writable by the owner, executable where the archive says
    so, and programs always: the zips of CI systems lose their modes. Raises Refused, naming archive and
    member; what was unpacked by then is the caller's to remove.
    """
    shown = shown or str(archive)
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize - MARGIN
    packed = archive.stat().st_size
    work = _Unpacking(folder, layout, shown, budget=free, most=max(packed * MAX_RATIO, RATIO_FREE), packed=packed)
    try:
        for member, read in _members(archive, shown):
            work.add(member, read)
            if progress is not None:
                progress(work.written, None)
    except DAMAGED as error:
        if isinstance(error, OSError) and not _is_readers(error):
            raise full(error, folder, f"while `{shown}` was unpacked") or error from error
        raise Refused(f"The archive `{shown}` is damaged: {error or type(error).__name__}", hint=HINT) from error
    work.finish()


HINT = "Nothing was published. If this is the file you meant, look at it with tar -tvf or unzip -l"


def _is_readers(error: OSError) -> bool:
    """Whether an error is about the archive and not this host's: it has no number, or is a seek to nowhere."""
    return error.errno is None or (error.errno == errno.EINVAL and error.filename is None)


def _members(archive: Path, shown: str) -> Iterator[tuple[Member, Read]]:
    with open(archive, "rb") as file:
        head = file.read(512)
    if head.startswith(ZIP_MAGIC):
        return _zip_members(archive)
    for magic, decompress in COMPRESSIONS:
        if head.startswith(magic):
            return _tar_members(decompress(archive))
    if head[257:262] == b"ustar":
        return _tar_members(open(archive, "rb"))
    if head.startswith(ZSTD_MAGIC):
        raise Refused(
            f"The archive `{shown}` is packed with zstd, which Python before 3.14 can't read", hint=HINT_PACKED
        )
    raise Refused(f"Expected a tar, zip or wheel archive, but `{shown}` begins with `{head[:16]!r}`", hint=HINT_PACKED)


HINT_PACKED = "Choose the .tar.xz, .tar.gz or .zip of the same release"


def _tar_members(stream: IO[bytes]) -> Iterator[tuple[Member, Read]]:
    kinds = {
        tarfile.SYMTYPE: "link",
        tarfile.LNKTYPE: "hardlink",
        tarfile.CHRTYPE: "a device",
        tarfile.BLKTYPE: "a device",
        tarfile.FIFOTYPE: "a pipe",
    }
    with stream, tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK, errorlevel=2) as tar:
        for info in tar:
            kind = "folder" if info.isdir() else "file" if info.isreg() else kinds.get(info.type, "an unknown type")
            yield (
                Member(info.name, kind, info.size, bool(info.mode & 0o111), info.linkname, info.mtime),
                lambda info=info: _opened(tar.extractfile(info)),  # type: ignore[misc]
            )


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _zip_members(archive: Path) -> Iterator[tuple[Member, Read]]:
    with zipfile.ZipFile(archive) as content:
        for info in content.infolist():
            mode = info.external_attr >> 16
            kind = _zip_kind(info, mode)
            target = ""
            if kind == "link":
                target = content.open(info).read(MAX_LINK + 1).decode("utf-8", "surrogateescape")
            script = ".data/scripts/" in info.filename  # wheels: pip marks them, whatever the archive says
            executable = (bool(mode & 0o111) or script) if mode else None
            yield (
                Member(info.filename, kind, info.file_size, executable, target),
                lambda info=info: content.open(info),  # type: ignore[misc]
            )


def _zip_kind(info: zipfile.ZipInfo, mode: int) -> str:
    if info.flag_bits & 0x1:
        return "encrypted"
    if info.is_dir() or stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    return "file" if stat.S_IFMT(mode) in (0, stat.S_IFREG) else "a device or pipe"


@dataclass
class _Unpacking:
    """An unpacking in progress: what was written, and what waits until everything else is."""

    folder: Path
    layout: Layout
    shown: str
    budget: int
    most: int
    packed: int
    written: int = 0
    members: int = 0
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=lambda: {""})
    links: dict[str, str] = field(default_factory=dict)

    def add(self, member: Member, read: Read) -> None:
        self.members += 1
        if self.members > MAX_MEMBERS:
            raise self._refusal(member, f"it comes after {MAX_MEMBERS} others")
        place = self._place(member, member.name)
        if place is None:
            return
        if place in self.files or place in self.links or (place in self.folders and member.kind != "folder"):
            raise self._refusal(member, "another member has the same name")
        if member.kind == "folder":
            self._make_folder(member, place)
            return
        self._make_folder(member, posixpath.dirname(place))
        if member.kind == "file":
            self._write(member, place, read)
        elif member.kind == "hardlink":
            self._link_hard(member, place)
        elif member.kind == "link":
            self._remember_link(member, place)
        else:
            raise self._refusal(member, f"it is {member.kind}")

    def finish(self) -> None:
        """Make the links, then follow each: it must end at something that was unpacked."""
        if not self.files and not self.links:
            wanted = f"a folder `{self.layout.select}` with files" if self.layout.select else "files"
            raise Refused(f"Expected {wanted} in `{self.shown}`, but found none", hint=HINT)
        for place, target in self.links.items():
            os.symlink(target, self.folder / place)
        inside = os.path.realpath(self.folder) + os.sep
        for place, target in self.links.items():
            real = os.path.realpath(self.folder / place)
            if not (real + os.sep).startswith(inside):
                raise self._refusal(Member(place, "link"), f"it leads outside, to `{target}`")
            if not os.path.exists(real):
                raise self._refusal(Member(place, "link"), f"it names `{target}`, which is not there")

    def _place(self, member: Member, name: str) -> str | None:
        """Where in the release a name of the archive goes, or None when it is not wanted."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise self._refusal(member, f"`{name}` is not a path below the archive")
        parts = parts[self.layout.strip_components :]
        chosen = [part for part in self.layout.select.split("/") if part]
        if parts[: len(chosen)] != chosen or len(parts) == len(chosen):
            return None
        place = posixpath.join(self.layout.into.strip("/"), *parts[len(chosen) :])
        self._require_room_for(member, place)
        return place

    def _require_room_for(self, member: Member, place: str) -> None:
        parts = os.fsencode(place).split(b"/")
        longest = max(map(len, parts))
        if longest > MAX_NAME:
            raise self._refusal(member, f"a name in it has {longest} bytes, and filesystems take {MAX_NAME}")
        if len(os.fsencode(place)) > MAX_PATH or len(parts) > MAX_DEPTH:
            raise self._refusal(member, f"it lies {len(parts)} names deep, in a path of {len(place)} letters")

    def _make_folder(self, member: Member, place: str) -> None:
        """Make a folder and those above it, each a real one; what is in ``folders`` was made here."""
        if place in self.folders:
            return
        self._make_folder(member, posixpath.dirname(place))
        if place in self.files or place in self.links:
            raise self._refusal(member, f"`{place}` is not a folder in the same archive")
        os.mkdir(self.folder / place)
        os.chmod(self.folder / place, 0o755)
        self.folders.add(place)

    def _write(self, member: Member, place: str, read: Read) -> None:
        self.written += member.size
        if self.written > self.most:
            raise self._refusal(member, f"{human(self.packed)} would unpack to more than {human(self.most)}")
        if self.written > self.budget:
            raise ArmstageError(
                f"Not enough space in `{self.folder.parent}` to unpack `{self.shown}`: more than "
                f"{human(self.written)} needed, {human(max(self.budget, 0))} free",
                hint=f"Make room there (df -h {self.folder.parent}), or choose another root",
            )
        path = self.folder / place
        with read() as source, open(path, "xb") as file:
            head = source.read(CHUNK)
            file.write(head)
            shutil.copyfileobj(source, file, CHUNK)
            if file.tell() != member.size:
                raise self._refusal(member, f"it ends after {file.tell()} of {member.size} bytes")
            file.flush()
            script = member.executable is None and head.startswith(b"#!")
            executable = member.executable or script or (head.startswith(MAGIC) and is_program(str(path)))
            os.fchmod(file.fileno(), 0o755 if executable else 0o644)
        if member.mtime is not None and 0 <= member.mtime < LAST_TIME:
            os.utime(path, (member.mtime, member.mtime))  # bytecode beside a source is valid for its time only
        self.files.add(place)

    def _link_hard(self, member: Member, place: str) -> None:
        origin = self._place(member, member.target)
        if origin is None or origin not in self.files:
            raise self._refusal(member, f"it is a hard link to `{member.target}`, which is no file before it")
        try:
            os.link(self.folder / origin, self.folder / place)
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            shutil.copy2(self.folder / origin, self.folder / place)
        self.files.add(place)

    def _remember_link(self, member: Member, place: str) -> None:
        target = member.target
        if not target or len(target) > MAX_LINK or "\0" in target:
            raise self._refusal(member, "it is a link with no usable target")
        end = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        if posixpath.isabs(end) or end.split("/")[0] == "..":
            raise self._refusal(member, f"it leads outside, to `{target}`")
        self.links[place] = target

    def _refusal(self, member: Member, why: str) -> Refused:
        name = member.name if len(member.name) <= MAX_NAME else f"{member.name[:MAX_NAME]}..."
        text = f"Refused `{self.shown}` for its member `{name}`: {why}"
        return Refused(text.encode("utf-8", "backslashreplace").decode(), hint=HINT)
