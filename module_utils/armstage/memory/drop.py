"""Write to /proc/sys/vm/drop_caches: sync first, then one digit, each with a time limit.

The write happens in a child, since writing 2 or 3 has hung for good
(https://github.com/openzfs/spl/issues/388): a child that cannot be killed is abandoned and said.
Who may not write uses the helper that the role page_cache installs, through sudo.
"""

from __future__ import annotations

import errno
import os
import re
import sys

from ..errors import ArmstageError
from ..files import read_text
from ..run import run

DIGITS = {"pagecache": "1", "slab": "2", "all": "3"}
"""What the kernel takes (Documentation/admin-guide/sysctl/vm.rst, drop_caches)."""

HELPER = "/usr/local/sbin/armstage-drop-cache"

WRITE = """\
import os, sys
try:
    handle = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
    os.write(handle, sys.argv[2].encode())
except OSError as error:
    sys.exit("errno %d" % error.errno)
"""

HINTS = {
    "missing": "Run on Linux with /proc mounted, or name the folder that holds proc/ with root",
    "read-only": "Run on the host: in a container the page cache can't be dropped. Named files can be evicted (paths)",
    "denied": "Run as root (become: true, or -K), have the role page_cache applied, or evict your own files (paths)",
    "hung": "The kernel may still be at it; look for ZFS or a stuck filesystem (dmesg), and use mode: pagecache",
    "failed": "Look at the kernel's messages: dmesg | tail",
    "helper": "Apply the role page_cache again with page_cache_mode, or ask for the mode the helper has",
}
"""What to do, by the reason why the cache was not dropped."""


class DropError(ArmstageError):
    """The cache was not dropped. ``reason`` is a key of HINTS, or ``busy``."""

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint or HINTS[reason])
        self.reason = reason


def target_of(root: str) -> str:
    return os.path.join(root, "proc/sys/vm/drop_caches")


def obstacle(target: str, mode: str, helper: str = HELPER) -> DropError | None:
    """Why the cache can't be dropped here, found without touching anything; None where it can be."""
    try:
        flags = os.statvfs(target).f_flag
    except OSError as error:
        return _refused(target, error.errno)
    if flags & os.ST_RDONLY:
        return _refused(target, errno.EROFS)
    if os.access(target, os.W_OK):
        return None
    installed = helper_mode(target, helper)
    if not installed:
        return _refused(target, errno.EACCES)
    if installed != mode:
        return DropError("helper", f"Expected `{helper}` to drop `{mode}`, but it was installed for `{installed}`")
    return None


def helper_mode(target: str, helper: str = HELPER) -> str:
    """The mode that the installed helper drops; empty without one, and where ``target`` is a stand-in."""
    if target != target_of("/"):
        return ""
    try:
        text = read_text(helper) or ""
    except ArmstageError:
        return ""
    digit = re.search(r"^echo ([123]) >/proc/sys/vm/drop_caches$", text, re.MULTILINE)
    return {digit: mode for mode, digit in DIGITS.items()}[digit[1]] if digit else ""


def drop(target: str, mode: str, timeout: float, helper: str = HELPER) -> tuple[str, list[str]]:
    """Drop. Returns how, ``write`` or ``helper``, and what to warn of. Raises DropError.

    ``timeout`` holds for the sync and for the write, each.
    """
    refusal = obstacle(target, mode, helper)
    if refusal:
        raise refusal
    if not os.access(target, os.W_OK):
        _through_helper(helper, target, timeout)
        return "helper", []
    synced = run(["sync"], timeout)
    written = run([sys.executable, "-I", "-S", "-c", WRITE, target, DIGITS[mode]], timeout)
    if written.timed_out:
        raise _hung(target, timeout, written.abandoned)
    if written.rc != 0:
        number = re.search(r"^errno (\d+)$", written.err, re.MULTILINE)
        raise _refused(target, int(number[1]) if number else None, written.err)
    late = f"`sync` did not end within {timeout:g} s: what is not yet written stays in memory"
    return "write", [] if synced.ok else [late]


def _through_helper(helper: str, target: str, timeout: float) -> None:
    try:
        done = run(["sudo", "-n", helper], 2 * timeout)
    except OSError as error:
        raise _refused(target, errno.EACCES) from error
    if done.timed_out:
        raise _hung(target, 2 * timeout, done.abandoned)
    if done.rc != 0:
        raise DropError("denied", f"Failed to run `sudo -n {helper}`: {done.err.strip() or done.rc}")


def _hung(target: str, timeout: float, abandoned: bool) -> DropError:
    fate = "the writing process can't be killed and was abandoned" if abandoned else "the writing process was killed"
    return DropError("hung", f"Writing `{target}` did not end within {timeout:g} s; {fate}")


def _refused(target: str, number: int | None, text: str = "") -> DropError:
    if number in (errno.ENOENT, errno.ENOTDIR):
        return DropError("missing", f"Expected the kernel's `{target}`, but there is no such file")
    if number == errno.EROFS:
        return DropError("read-only", f"Failed to write `{target}`: it is on a read-only mount, as in a container")
    if number in (errno.EACCES, errno.EPERM):
        return DropError("denied", f"Failed to write `{target}`: permission denied for uid {os.geteuid()}")
    return DropError("failed", f"Failed to write `{target}`: {os.strerror(number) if number else text.strip()}")
