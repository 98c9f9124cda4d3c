"""What lies under a root, and whether a prediction came true."""

import hashlib


def sha(content):
    return hashlib.sha256(content).hexdigest()


def store(root):
    return sorted(entry.name for entry in (root / "store").iterdir()) if (root / "store").exists() else []


def same(predicted, done):
    return all(predicted[key] == done[key] for key in ("changed", "actions", "diff", "skipped_sources", "available"))
