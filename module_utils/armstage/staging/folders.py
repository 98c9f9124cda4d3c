"""Folders: made for everyone to read, removed whatever their modes, and brought to the disk."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import shutil
from collections.abc import Iterable
from pathlib import Path

from ..errors import ArmstageError


def root_folder(dest: str) -> Path:
    """The root that an option names, by its full path. Raises ArmstageError for one that nobody can mean.

    `~NAME` and `$NAME` that are still there stand for nothing on this host.
    """
    if not dest.strip() or dest[0] in "~$":
        raise ArmstageError(
            f"Expected the path of a folder in `dest`, but received: `{dest}`",
            hint="Give the full path of the root, for example /opt/armstage or ~/.local",
        )
    return Path(os.path.abspath(dest))


def staged_root(dest: str) -> Path:
    """The same of a root that is there already, or may be. Raises ArmstageError for what is no folder."""
    root = root_folder(dest)
    if os.path.lexists(root) and not root.is_dir():
        raise ArmstageError(
            f"Expected a folder in `dest`, but `{root}` is none",
            hint="Give the folder that was staged, for example -e armstage_root=/opt/armstage",
        )
    return root


def require_room(link: Path) -> None:
    """Raise ArmstageError where the folder that a link belongs in is a file."""
    if os.path.lexists(link.parent) and not link.parent.is_dir():
        raise ArmstageError(
            f"Expected a folder or nothing at `{link.parent}`, but found a file",
            hint=f"Move it away, then run again: mv {link.parent} {link.parent}.before-armstage",
        )


def require_writable(folders: Iterable[Path]) -> None:
    """Raise ArmstageError where one of these folders can't be made, or written in once it is there; writes nothing."""
    for folder in folders:
        there = standing(folder)
        why = _not_writable(there)
        if why:
            raise ArmstageError(
                f"Failed to write in `{there}`{f' for `{folder}`' if folder != there else ''}: {why}",
                hint=f"Give a root that this user may write in, or see who may write in this one: ls -ld {there}",
            )


def standing(path: Path) -> Path:
    """The path, or the nearest above it that is there."""
    while not os.path.lexists(path):
        path = path.parent
    return path


def _not_writable(path: Path) -> str:
    """Why nothing can be made in what stands at a path, in the kernel's words; empty where it can."""
    if path.is_symlink() and not path.exists():
        return f"it is a link to `{os.readlink(path)}`, which is not there"
    if not path.is_dir():
        return os.strerror(errno.ENOTDIR)
    if os.access(path, os.W_OK | os.X_OK):
        return ""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return os.strerror(errno.EROFS)
    return f"{os.strerror(errno.EACCES)} for user {user_name()}"


def user_name() -> str:
    """This process's user, by name where the host knows one."""
    try:
        return f"`{pwd.getpwuid(os.geteuid()).pw_name}`"
    except KeyError:
        return f"`{os.geteuid()}`"


def make_folder(path: Path) -> None:
    """Make a folder and those above it, readable by everyone whatever the umask says."""
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        path.mkdir()
        path.chmod(path.stat().st_mode | 0o755)
    except FileExistsError:
        pass
    except OSError as error:
        raise ArmstageError(
            f"Failed to make the folder `{path}`: {error.strerror or error}",
            hint=f"This user must be able to write in `{path.parent}`",
        ) from error


def delete_tree(path: Path) -> None:
    """Remove a folder, folders without write permission inside it included; or what stands in its place."""
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
            return
        try:
            shutil.rmtree(path)
        except PermissionError:
            for folder, _folders, _files in os.walk(path):
                os.chmod(folder, 0o700)
            shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        # A file still open on another host of an NFS keeps its folder: the next run sweeps it.
        if error.errno not in (errno.ENOTEMPTY, errno.EBUSY):
            raise


def sync_filesystem(path: Path) -> None:
    """Have everything written so far on this path's filesystem reach the disk, and nothing else's.

    A rename may otherwise survive a lost node when the data it published did not.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(handle)
