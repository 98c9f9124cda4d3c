"""What lies under a root."""

import os


def snapshot(folder):
    """Every path below a folder with what tells a write: times, size, mode, target."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files, "."]:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            target = os.readlink(path) if os.path.islink(path) else ""
            found[path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode, target)
    return found


def env(root, tag="cu130"):
    return root / "envs" / tag


def site(root, python="3.13", tag="cu130"):
    return env(root, tag) / f"lib/python{python}/site-packages"


def store(root):
    return sorted(name for name in os.listdir(root / "store") if not name.startswith("."))


def nothing_published(root):
    return not (root / "envs").exists() and os.listdir(root / "store") == []
