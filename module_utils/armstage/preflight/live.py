"""A5: the environment's own Python answers, not one that `uv run` would choose.

By default it imports no torch: it starts, says who it is and where it would take torch from. With
``live`` it imports torch and, where there is a GPU, runs a small kernel on it.
"""

from __future__ import annotations

import ast
import os
import shlex
import time
from typing import Any

from ..run import Completed, run
from .context import ARCH, Context
from .model import FAIL, PASS, SKIP, Fact, Finding

UNSET = ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "UV_PYTHON")
"""What env.sh unsets; that it is set at all is A2's finding."""

SCRIPT = """\
import os, sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec("torch")
answer = {"python": sys.version.split()[0], "machine": os.uname().machine, "prefix": sys.prefix}
answer["torch"] = found.origin if found else None
if sys.argv[1:] == ["live"] and found:
    import torch
    available = torch.cuda.is_available()
    answer["live"] = {"torch": torch.__version__, "cuda": torch.version.cuda, "available": available}
    if available:
        answer["live"]["gpu"] = torch.cuda.get_device_name(0)
        answer["live"]["capability"] = "%d.%d" % torch.cuda.get_device_capability(0)
        answer["live"]["architectures"] = torch.cuda.get_arch_list()
        answer["live"]["sum"] = torch.arange(1000, device="cuda").sum().item()
print(ascii(answer))
"""
"""Ends with its answer as a Python literal, for which nothing needs to be imported."""

SUM = 499500
"""0 + 1 + ... + 999, which the kernel must come to."""


def check(context: Context) -> Finding:
    python = os.path.join(context.env, "bin/python")
    if not os.path.lexists(python):
        return Finding(SKIP, f"there is no `{python}` to run")
    if os.uname().machine != ARCH or context.python is None:
        return Finding(SKIP, f"`{python}` can't run on this host (A1)")
    argv = [python, "-B", "-c", SCRIPT, *(["live"] if context.request.live else [])]
    environ = {name: value for name, value in context.request.environ.items() if name not in UNSET}
    started = time.monotonic()
    try:
        completed = run(argv, context.request.timeout, environ)
    except OSError as error:
        return Finding(FAIL, f"`{python}` does not start: {error.strerror}", "Stage again: `./armstage stage`", python)
    return judge(context, python, completed, time.monotonic() - started)


def judge(context: Context, python: str, completed: Completed, seconds: float) -> Finding:
    answer = _last_literal(completed.out)
    by_hand = f"Run it by hand on the node: {shlex.join([python, '-c', 'import torch'])}"
    if completed.timed_out:
        left = " and could not be killed" if completed.abandoned else ""
        detail = f"`{python}` did not answer within {context.request.timeout:g} s{left}"
        return Finding(FAIL, detail, "A wedged driver or a filesystem that hangs looks like this: dmesg | tail", python)
    if not answer:
        said = (completed.err.strip().splitlines() or [f"exit status {completed.rc}"])[-1]
        return Finding(FAIL, f"`{python}` said: {said}", by_hand, python)
    facts = (Fact("python", answer["python"], python), Fact("torch from", str(answer["torch"]), "importlib"))
    named = f"Python {answer['python']} ({answer['machine']}) answers in {seconds:.2f} s"
    if answer["torch"] and not _inside(answer["torch"], context.layout.site):
        detail = f"{named}, but takes torch from `{answer['torch']}`, outside the environment"
        return Finding(FAIL, detail, "Look for .pth files in the environment, or stage it again", python, facts)
    if "live" in answer:
        return _live(context, python, f"{named}; {sentence(answer['live'])}", answer["live"], facts)
    where = "would import torch from the environment; not imported (--live does)" if answer["torch"] else "has no torch"
    return Finding(PASS, f"{named}, {where}", source=python, facts=facts)


def _live(context: Context, python: str, said: str, live: dict[str, Any], facts: tuple[Fact, ...]) -> Finding:
    """torch was imported: with a GPU here, it must see it and come to the right sum."""
    if context.has_gpu and live["cuda"] and not live["available"]:
        hint = "Ask for a GPU in the job (--gres=gpu), and see A3: a driver that is too old looks like this"
        return Finding(FAIL, f"{said}, although {context.gpu_name} is here", hint, python, facts)
    if live["available"] and live["sum"] != SUM:
        detail = f"{said}; the sum of 0 to 999 on the GPU came out as {live['sum']}"
        return Finding(FAIL, detail, "Take the node out of service: its GPU computes wrongly", python, facts)
    return Finding(PASS, said, source=python, facts=facts)


def sentence(live: dict[str, Any]) -> str:
    text = f"torch {live['torch']}, CUDA {live['cuda']}, torch.cuda.is_available() {live['available']}"
    if live["available"]:
        text += f", a kernel ran on {live['gpu']} ({live['capability']})"
    return text


def _inside(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)


def _last_literal(text: str) -> dict[str, Any]:
    for line in reversed(text.splitlines()):
        try:
            found = ast.literal_eval(line)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return {}
