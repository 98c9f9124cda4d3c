"""G8: whether the DGX Spark playbooks and container images in use are known to be outdated.

What is known is a dated list; only with ``online`` is the checkout's own origin asked. Without that a
checkout that is on no list is not fresh, it is not judged: SKIP, never PASS.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ..files import read_text
from ..run import Completed, run
from .context import Context
from .model import PASS, SKIP, WARN, Fact, Finding, worst
from .thresholds import THRESHOLDS

CHECKOUT = "dgx-spark-playbooks"

SET = re.compile(r"\s*(?:(?:ARG|ENV|export)\s+)?([A-Za-z_]\w*)=(\S+)")

IMAGE = re.compile(r"(?P<image>nvcr\.io[/#][\w./-]+):(?P<tag>(?P<version>\d\d\.\d\d)[\w.-]*)")


def check(context: Context) -> Finding:
    known = THRESHOLDS["playbook_images"]
    checkout = context.request.playbooks or _usual_place(context)
    images = list(_images(context))
    facts = tuple(Fact("image", image, source) for image, source in images)
    problems = [problem for image, source in images for problem in _outdated(image, source)]
    if checkout:
        problems += _commit(checkout)
    if problems or not checkout:
        nothing = (
            "no playbook checkout and no container image is named here"
            if not images
            else f"{images[0][0]} is on no list"
        )
        hint = "" if images else "Name one: --playbooks PATH, or an image in a file given with --config"
        return worst(
            problems, Finding(SKIP, f"{nothing}; the list is of {known['date']}", hint, known["source"], facts)
        )
    return _origin(context, checkout, known["date"], facts)


def _usual_place(context: Context) -> str:
    home = context.request.environ.get("HOME", "")
    path = os.path.join(home, CHECKOUT) if home and context.live_host else ""
    return path if os.path.isdir(os.path.join(path, ".git")) else ""


def _images(context: Context) -> Iterator[tuple[str, str]]:
    """Image names with a dated tag: of the container this runs in, and in the files given."""
    version = context.request.environ.get("NVIDIA_PYTORCH_VERSION", "")
    if re.fullmatch(r"\d\d\.\d\d", version):
        yield f"nvcr.io/nvidia/pytorch:{version}-py3", "NVIDIA_PYTORCH_VERSION"
    if not context.request.configs:
        return
    from .settings import find  # not at the start: few runs are given a configuration

    for path in find(context.request.configs):
        if os.path.isfile(path):
            yield from ((image, path) for image in images_in(read_text(path) or ""))


def images_in(text: str) -> Iterator[str]:
    """The images that a file names outside of comments, also by what it has set before: ``$TAG``, ``${TAG:-25.09}``."""
    from .shell import expand

    known: dict[str, str] = {}
    for line in text.splitlines():
        code = "" if line.lstrip().startswith("#") else line.partition(" #")[0]
        match = SET.match(code)
        if match:
            known[match[1]] = expand(match[2].strip("'\""), known)
        for found in IMAGE.finditer(expand(code, known) if "$" in code else code):
            yield found[0].replace("#", "/")


def _outdated(image: str, source: str) -> Iterator[Finding]:
    match = IMAGE.match(image)
    for known in THRESHOLDS["playbook_images"]["images"]:
        if match and match["image"] == known["image"] and match["version"] < known["before"]:
            detail = f"`{image}` ({source}) is older than {known['before']}: {known['why']}"
            yield Finding(WARN, detail, f"Use {known['image']}:{known['before']}-py3 or newer", known["source"])


def _commit(checkout: str) -> Iterator[Finding]:
    """A checkout whose newest commit is older than a fault that was repaired."""
    completed = _git(checkout, "log", "-1", "--format=%cs")
    date = completed.out.strip()
    for known in THRESHOLDS["playbook_images"]["commits"]:
        if completed.ok and re.fullmatch(r"\d{4}-\d\d-\d\d", date) and date < known["before"]:
            detail = f"`{checkout}` is of {date}: {known['why']} ({known['before']})"
            yield Finding(WARN, detail, f"Bring it up to date: `git -C {checkout} pull`", known["source"])


def _origin(context: Context, checkout: str, dated: str, facts: tuple[Fact, ...]) -> Finding:
    """Whether the checkout is what its origin has now: a question to the network, if it may be asked."""
    if not context.request.online:
        detail = f"`{checkout}` is on no list of outdated ones, which is of {dated}; its origin was not asked"
        return Finding(SKIP, detail, "Ask it: --online", checkout, facts)
    here, there = _git(checkout, "rev-parse", "HEAD"), _git(checkout, "ls-remote", "origin", "HEAD")
    wanted = there.out.split()
    if not (here.ok and there.ok and wanted):
        said = ((there.err or here.err).strip().splitlines() or ["no answer"])[-1]
        return Finding(SKIP, f"the origin of `{checkout}` does not answer: {said}", "", checkout, facts)
    facts = (*facts, Fact("HEAD", here.out.strip(), checkout), Fact("origin HEAD", wanted[0], "git ls-remote"))
    if wanted[0] == here.out.strip():
        return Finding(PASS, f"`{checkout}` is what its origin has today", "", checkout, facts)
    hint = f"Bring it up to date: `git -C {checkout} pull`"
    return Finding(WARN, f"`{checkout}` is behind its origin", hint, checkout, facts)


def _git(checkout: str, *words: str) -> Completed:
    """git without a question on the terminal."""
    environ = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return run(["git", "-C", checkout, *words], 10.0, environ)
    except OSError as error:
        return Completed(("git",), 127, "", f"git does not start: {error.strerror}")
