"""What lies under a root."""

import os


def env(root, tag="cu130"):
    return root / "envs" / tag


def site(root, python="3.13", tag="cu130"):
    return env(root, tag) / f"lib/python{python}/site-packages"


def store(root):
    return sorted(name for name in os.listdir(root / "store") if not name.startswith("."))


def nothing_published(root):
    return not (root / "envs").exists() and os.listdir(root / "store") == []
