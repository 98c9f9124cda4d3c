"""What lies under a root, and whether a prediction came true."""

import hashlib
import os


def sha(content):
    return hashlib.sha256(content).hexdigest()


def snapshot(folder):
    """Every path with its kind, time and content: equal when nothing was touched."""
    paths = [folder, *folder.rglob("*")] if folder.exists() else []
    return {
        str(path): (
            path.lstat().st_mtime_ns,
            os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes(),
        )
        for path in paths
    }


def store(root):
    return sorted(entry.name for entry in (root / "store").iterdir()) if (root / "store").exists() else []


def same(predicted, done):
    return all(predicted[key] == done[key] for key in ("changed", "actions", "diff", "skipped_sources", "available"))
