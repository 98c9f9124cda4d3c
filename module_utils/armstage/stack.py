"""Whether the parts of a stack belong together, asked before anything is downloaded; pure.

A stack is the value of ``armstage_stack`` in ``vars/stacks/*.yml``, with whatever versions were overridden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .compatibility import PACKAGES, Compatibility, Data
from .versions import matches, minor, release

Problem = dict[str, str]
"""``message``: what does not go together, with both versions; ``hint``: what to choose instead."""


def problems(stack: Data, compatibility: Data, python: str | None = None) -> list[Problem]:
    """What is wrong with a stack; empty when nothing is.

    ``python`` is the version of the environments where it is not that of the stack's own CPython.
    """
    known = Compatibility(compatibility)
    versions = {"uv": str(stack["uv"]["version"]), **{name: str(stack["torch"][name]) for name in PACKAGES}}
    refused = {name: list(_refusals(name, version, versions["torch"], known)) for name, version in versions.items()}
    # Only versions that may be used at all are held against each other.
    sound = {name: version for name, version in versions.items() if not refused[name] and name in PACKAGES}
    return [
        *(problem for found in refused.values() for problem in found),
        *_pairs(sound, known),
        *_pythons(sound, minor(python or stack["cpython"]["version"]), known),
        *_ffmpeg(stack["ffmpeg"], sound, known),
    ]


def torch_requirements(versions: Mapping[str, Any], compatibility: Data, tag: str) -> list[str]:
    """What to install for a stack's ``torch`` part from the index ``tag``.

    The three packages, pinned, and what torchcodec links of that CUDA without declaring it.
    """
    cuda_major = compatibility["indexes"][tag]["cuda"].split(".")[0]
    libraries = compatibility["torchcodec_libraries"]
    needs = compatibility["torchcodec"].get(versions["torchcodec"], {"needs": ()})["needs"]
    undeclared = [libraries[name]["packages"].get(cuda_major) for name in needs]
    return [f"{name}=={versions[name]}" for name in PACKAGES] + [package for package in undeclared if package]


def _refusals(name: str, version: str, torch: str, known: Compatibility) -> Iterator[Problem]:
    """A version that is denied, too old, or not in the data."""
    limits = known.data["limits"].get(name)
    if limits:
        minimum = limits["minimum"]
        denied = next((fact for bad, fact in limits["denied"].items() if release(bad) == release(version)), None)
        if denied or matches(version, f"<{minimum['version']}"):
            trouble, fact = ("is refused", denied) if denied else ("is too old", minimum)
            partners = known.partners(name, torch) if name in PACKAGES and torch in known.data["torch"] else []
            instead = (
                f"{name} {partners[0]} for torch {torch}"
                if partners
                else f"another {name} from {minimum['version']} on"
            )
            yield _problem(f"{name} `{version}` {trouble}: {fact['reason']} ({fact['source']})", "Choose " + instead)
            return
    error = known.unknown(name, version) if name in PACKAGES else None
    if error:
        yield _problem(error.message, error.hint)


def _pairs(sound: Mapping[str, str], known: Compatibility) -> Iterator[Problem]:
    """A torchvision or torchcodec that goes with another torch."""
    torch = sound.get("torch")
    for name, version in sound.items():
        error = known.unpaired(name, version, torch) if torch else None
        if error:
            yield _problem(error.message, error.hint)


def _pythons(sound: Mapping[str, str], python: str, known: Compatibility) -> Iterator[Problem]:
    """A package without an aarch64 wheel for the Python."""
    for name, version in sound.items():
        if not known.has_wheel(name, version, python):
            others = [other for other in known.versions(name) if known.has_wheel(name, other, python)]
            spans = [f"a Python of {span}" for span in known.pythons(name, version)]
            instead = [*spans, *(f"{name} {other}" for other in others[:1])]
            yield _problem(
                f"{name} `{version}` has no aarch64 wheel for Python `{python}`", "Choose " + " or ".join(instead)
            )


def _ffmpeg(ffmpeg: Mapping[str, Any], sound: Mapping[str, str], known: Compatibility) -> Iterator[Problem]:
    """An FFmpeg that is not of the major it is said to be, or one that torchcodec has no core for."""
    version, major = str(ffmpeg["version"]), int(ffmpeg["major"])
    named = re.match(r"n?(\d+)\.", version)
    if named and int(named.group(1)) != major:
        yield _problem(
            f"FFmpeg `{version}` is not of major `{major}`",
            f"Set the major to {named.group(1)}, or choose a version of FFmpeg {major}",
        )
    codecs = known.data["torchcodec"]
    codec, torch = sound.get("torchcodec"), sound.get("torch")
    if codec and major not in codecs[codec]["ffmpeg"]:
        cores = codecs[codec]["ffmpeg"]
        fitting = known.partners("torchcodec", torch) if torch else known.versions("torchcodec")
        others = [f"torchcodec {other}" for other in fitting if major in codecs[other]["ffmpeg"]]
        yield _problem(
            f"torchcodec `{codec}` has no core for FFmpeg `{major}`, only for {', '.join(map(str, cores))}",
            "Choose " + " or ".join([f"FFmpeg {max(cores)}", *others[:1]]),
        )


def _problem(message: str, hint: str) -> Problem:
    return {"message": message, "hint": hint}
