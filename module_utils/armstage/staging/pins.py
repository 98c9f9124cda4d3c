"""Pins: what requirements came to, each wheel with its digest, in pip's own format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import ArmstageError
from ..wheels import normalise
from .transport import without_credentials

NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
PINNED = rf"\s*({NAME})\s*(?:\[[^\]]*\])?\s*===?\s*([^\s;,*]+)\s*(?=;|$|--hash)"
SHA256 = re.compile(r"\bsha256[:\s=\"']+([0-9a-f]{64})\b")


@dataclass(frozen=True)
class Pin:
    """One project's version. ``digests`` are sha256 of the wheels that will do; ``url`` and ``size``
    in bytes are of the one that was chosen, where that is known."""

    name: str
    version: str
    digests: tuple[str, ...] = ()
    url: str = ""
    size: int = 0


def read_pylock(text: str) -> list[Pin]:
    """The pins of a pylock.toml as uv writes it for one platform.

    A reader for this one writer: Python has one for TOML from 3.11 on only, and this runs on 3.9.
    """
    pins = []
    for entry in text.split("\n[[packages]]\n")[1:]:
        keys = dict(re.findall(r'^(name|version) = "([^"]+)"$', entry, re.MULTILINE))
        if "version" not in keys:
            raise ArmstageError(
                f"Expected a version for `{keys.get('name', entry.strip())}` in what uv resolved, but found none",
                hint="Name the project with a version of an index, not by a URL or folder",
            )
        url, size = (re.search(pattern, entry) for pattern in (r'\burl = "([^"]+)"', r"\bsize = (\d+)"))
        digests = tuple(dict.fromkeys(SHA256.findall(entry)))
        pins.append(
            Pin(
                keys["name"],
                keys["version"],
                digests,
                without_credentials(url[1]) if url else "",
                int(size[1]) if size else 0,
            )
        )
    return pins


def write_pins(pins: Iterable[Pin]) -> str:
    """Pins as a requirements file that pip and uv read, each after the address of its wheel."""
    lines = []
    for pin in pins:
        lines += [f"# {pin.url}"] if pin.url else []
        lines.append(" ".join([f"{pin.name}=={pin.version}", *(f"--hash=sha256:{digest}" for digest in pin.digests)]))
    return "".join(f"{line}\n" for line in lines)


def read_pins(text: str) -> dict[str, Pin]:
    """The pins of a requirements file, by normalised name; lines that pin nothing are left out."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    found = ((line, match) for line in lines if (match := re.match(PINNED, line)))
    return {normalise(match[1]): Pin(match[1], match[2], tuple(SHA256.findall(line))) for line, match in found}


def confirmed(pins: Iterable[Pin], known: dict[str, Pin]) -> list[Pin]:
    """Pins with no digest but those that are known of their projects already, where any are.

    Raises ArmstageError for a pin that is another file than the one that is known.
    """
    checked = []
    for pin in pins:
        before = known.get(normalise(pin.name))
        if before is not None and before.digests:
            digests = tuple(digest for digest in before.digests if digest in pin.digests or not pin.digests)
            if not digests:
                raise ArmstageError(
                    f"The wheel of `{pin.name}=={pin.version}` has the sha256 `{pin.digests[0]}`, which is none of "
                    "those that the constraints hold",
                    hint=f"Find out why `{pin.url}` is another file than the one that was pinned",
                )
            pin = replace(pin, digests=digests)
        checked.append(pin)
    return checked


def unconditional(lock: str) -> list[str]:
    """The pins of a requirements file that hold everywhere: those without a marker."""
    lines = re.sub(r"\\\n", " ", lock).splitlines()
    return [match[0] for line in lines if ";" not in line and (match := re.match(PINNED, line))]


def named(requirement: str) -> str:
    """The normalised name of the project that a requirement is of, or an empty string."""
    found = re.match(rf"\s*({NAME})", requirement)
    return normalise(found[1]) if found else ""


def exact_version(requirement: str) -> tuple[str, str] | None:
    """`torch==2.11.0` -> its normalised name and version; None where it is a range."""
    found = re.match(PINNED, requirement)
    return (normalise(found[1]), found[2]) if found else None


def disagreement(requirements: Iterable[str], lock: dict[str, Pin]) -> str:
    """Where a lock is not of these requirements, or an empty string: a project that it lacks or pins
    to another version. Ranges are not compared."""
    for requirement in requirements:
        name = re.match(rf"\s*({NAME})", requirement)
        if name is None:
            continue
        pin, wanted = lock.get(normalise(name[1])), exact_version(requirement)
        if pin is None:
            return f"the requirement `{requirement}`, but the lock does not hold `{name[1]}`"
        if wanted and wanted[1] not in (pin.version, pin.version.partition("+")[0]):
            return f"the requirement `{requirement}`, but the lock holds `{pin.name}=={pin.version}`"
    return ""
