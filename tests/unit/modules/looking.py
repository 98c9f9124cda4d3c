"""Whether anything was written."""

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
