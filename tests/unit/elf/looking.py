"""A look at a planted environment, and what is expected of it."""

import re

from ansible.module_utils.armstage.elf.torchcodec import inspect


def look(root, *folders, **options):
    """Inspect a planted environment with these folders for FFmpeg."""
    options.setdefault("env", str(root.env))
    return inspect(ffmpeg_dirs=[str(folder) for folder in folders], root=str(root.system), **options)


def statuses(found):
    return {core["core"]: core["status"] for core in found.cores}


def assert_problem(found, message, hint):
    """The first problem matches, and there is no other."""
    assert not found.ok
    assert re.search(message, found.message), found.message
    assert re.search(hint, found.hint), found.hint
    assert len(found.problems) == 1, found.problems
