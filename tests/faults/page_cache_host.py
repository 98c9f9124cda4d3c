"""What tests of the page cache share: another user, a private mount namespace, a folder on a real disk."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
NOBODY = 65534
CLONE_NEWNS = 0x20000

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it plays a second user or mounts")


def may_mount():
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not may_mount(), reason="needs root and unshare(1) that may make a mount namespace")


def filesystem(path):
    return subprocess.run(["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True).stdout.strip()


def real_disk():
    """A new folder that everyone may look into, whose files the page cache holds apart from their disk, or a skip."""
    for base in (tempfile.gettempdir(), "/var/tmp"):
        if filesystem(base) not in ("tmpfs", "ramfs"):
            return open_folder(base)
    pytest.skip("needs a temporary folder on a real disk, and both TMPDIR and /var/tmp are memory")


def cached_file(path, mebibytes, synced=False):
    """A file whose pages are all in memory, still dirty unless ``synced``."""
    block = os.urandom(1024 * 1024)
    with path.open("wb") as file:
        for _number in range(mebibytes):
            file.write(block)
        if synced:
            file.flush()
            os.fsync(file.fileno())
    return path


def open_folder(base=None):
    """A new folder that every user may look into."""
    folder = Path(tempfile.mkdtemp(prefix="armstage-test-", dir=base))
    folder.chmod(0o755)
    return folder


def mount_read_only(folder):
    """Make a folder read-only for this process and its children alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWNS) == 0
    for arguments in (["--make-rprivate", "/"], ["--bind", folder, folder], ["-o", "remount,bind,ro", folder]):
        subprocess.run(["mount", *arguments], check=True)


def as_child(function, user=NOBODY, before=lambda: None):
    """The JSON-able result of ``function``, run in a child as ``user`` after what only root can do ``before``."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before()
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.write(writable, json.dumps(function()).encode())
        except BaseException:
            os.write(2, traceback.format_exc().encode())
            os._exit(1)
        os._exit(0)
    os.close(writable)
    with open(readable, "rb") as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(text)


def in_namespace(script, *arguments, **variables):
    """Run a shell script that may mount what it likes; returns the CompletedProcess, text."""
    command = ["unshare", "--mount", "--propagation", "private", "bash", "-euc", script, "test", *map(str, arguments)]
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(PROJECT / "module_utils"), **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
