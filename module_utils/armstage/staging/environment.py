"""What a task asks of one Python environment, checked before anything is looked at.

An environment is a release named ``env-<tag>`` that the link ``envs/<tag>`` names; its record holds a
digest over what it was made from. So neither network nor uv nor a Python of the target's is needed to
see that the right one is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..elf.reader import known_machine
from ..errors import ArmstageError
from ..files import read_text
from ..options import at_least
from .folders import root_folder
from .pins import NAME, exact_version, read_pins
from .transport import local_path, without_credentials
from .uv import Places
from .venv import Interpreter, interpreter

LAYOUT = 1
"""Raised when environments of the same packages are laid out in another way: all are staged anew."""

TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

VERSIONS = r"(?:[<>]=?|===?|[!~]=)\s*[^\s,;()<>=!~][^\s,;()<>=~]*"
REQUIREMENT = re.compile(
    rf"{NAME}\s*(?:\[\s*(?:{NAME}(?:\s*,\s*{NAME})*)?\s*\]\s*)?"
    rf"(?:\(\s*{VERSIONS}(?:\s*,\s*{VERSIONS})*\s*\)|{VERSIONS}(?:\s*,\s*{VERSIONS})*)?\s*(?:;\s*\S.*)?"
)
"""PEP 508 but for addresses; what is behind the semicolon is left to uv."""


@dataclass(frozen=True)
class Source:
    """Where packages may come from: ``index_url`` before the default index, ``lock`` the text of hashed
    pins. ``unusable`` says why it can't be used, and is empty where it may be."""

    kind: str = "index"
    index_url: str = ""
    lock: str = ""
    unusable: str = ""

    @property
    def address(self) -> str:
        return without_credentials(self.index_url)

    def __str__(self) -> str:
        return f"{self.kind} `{self.address}`" if self.index_url else self.kind


@dataclass(frozen=True)
class Desired:
    """An environment as it should be.

    ``constraints`` is a text. ``compile_python`` is a path of this host, `auto` or `none`. ``timeout``
    is in seconds and holds for uv. The fields from ``mirror`` on don't change what comes out.
    """

    root: Path
    tag: str
    python: Interpreter
    requirements: tuple[str, ...] = ()
    sources: tuple[Source, ...] = (Source(),)
    constraints: str = ""
    platform: str = "aarch64-manylinux_2_28"
    machine: str = "aarch64"
    compile_python: str = "none"
    mirror: str = ""
    find_links: tuple[str, ...] = ()
    uv: str = "uv"
    cache_dir: str = ""
    offline: bool = False
    timeout: float = 3600.0
    expected_size: int = 0
    keep: int = 1
    present: bool = True
    run: str = ""

    @property
    def name(self) -> str:
        return f"env-{self.tag}"

    @property
    def link(self) -> str:
        """The link that names it, as a path from the root."""
        return f"envs/{self.tag}"

    def places(self, source: Source) -> Places:
        return Places(source.index_url, self.mirror, self.find_links)

    def version(self, source: Source) -> str:
        """The version that names the release: of torch where it is pinned, else of Python."""
        pinned = dict(found for requirement in self.requirements if (found := exact_version(requirement)))
        locked = read_pins(source.lock).get("torch")
        return pinned.get("torch") or (locked.version if locked else f"py{self.python.minor}")

    def identity(self, source: Source) -> str:
        """A digest over what the environment is made from."""
        inputs = {
            "layout": LAYOUT,
            "tag": self.tag,
            "requirements": sorted(self.requirements),
            "constraints": self.constraints,
            "lock": source.lock,
            "index": source.address,
            "python": [self.python.path, self.python.version],
            "platform": self.platform,
            "machine": self.machine,
            "bytecode": self.compile_python != "none",
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def from_options(options: Mapping[str, Any]) -> Desired:
    """The options of the module as a Desired. Raises ArmstageError for one that can't be meant."""
    if not TAG.fullmatch(options["tag"]):
        raise ArmstageError(
            f"Expected letters, digits, `.`, `_` and `-` in `tag`, but received: `{options['tag']}`",
            hint="It becomes the name of a link: envs/TAG",
        )
    present = options["state"] == "present"
    requirements = tuple(_requirement(text) for text in options["requirements"] or ())
    sources = _sources(options)
    if present and not (requirements or all(source.lock for source in sources)):
        raise ArmstageError("Expected `requirements` or a `lock`, but received neither", hint="Say what to install")
    if present and not options["python"]:
        raise ArmstageError("`python` is missing", hint="Give the path of the interpreter as the node sees it")
    return Desired(
        root=root_folder(options["dest"]),
        tag=options["tag"],
        python=interpreter(options["python"], options["python_version"] or "") if present else Interpreter("", ""),
        requirements=requirements,
        sources=sources,
        constraints=_text("constraints", options["constraints"]),
        platform=options["python_platform"],
        machine=known_machine(options["elf_machine"]),
        compile_python=options["compile_python"] or "none",
        mirror=_place(options["mirror"] or ""),
        find_links=tuple(_place(place) for place in options["find_links"] or ()),
        uv=options["uv"],
        cache_dir=options["cache_dir"] or "",
        offline=options["offline"],
        timeout=at_least("timeout", options["timeout"], 1),
        expected_size=options["expected_size"] or 0,
        keep=at_least("keep", options["keep"], 0),
        present=present,
        run=options["run_id"] or "",
    )


def _sources(options: Mapping[str, Any]) -> tuple[Source, ...]:
    """In order; with a mirror, or without network, none is asked for and so none is out of reach."""
    given = options["sources"] or [{"index_url": options["index_url"], "lock": options["lock"]}]
    unreachable = options["unreachable"] or {}
    asked = not options["mirror"] and not options["offline"]
    found = []
    for source in given:
        address = source.get("index_url") or ""
        reason = unreachable.get(address, "")
        if source.get("reachable") is False:
            reason = source.get("reason") or "not reachable"
        found.append(
            Source(
                kind="mirror" if options["mirror"] else source.get("kind") or "index",
                index_url=address,
                lock=_text("lock", source.get("lock") or options["lock"]),
                unusable=reason if asked else "",
            )
        )
    return tuple(found)


def _requirement(text: str) -> str:
    """One requirement with its spaces in order; options of pip, URLs and folders are refused."""
    plain = " ".join(re.sub(r"(^|\s)#.*", "", text).split())
    if not REQUIREMENT.fullmatch(plain) or "--" in plain:
        raise ArmstageError(
            f"Expected a requirement such as torch==2.11.0, but received: `{text}`",
            hint="Name a project of an index; hashes belong in `lock`, wheels of your own in `find_links`",
        )
    return plain


def _text(option: str, value: str | None) -> str:
    """A text, or what the file of that name holds."""
    if not value or "\n" in value or "==" in value:
        return value or ""
    content = read_text(os.path.expanduser(value), limit=16 * 1024 * 1024)
    if content is None:
        raise ArmstageError(
            f"No file `{value}`, which `{option}` names",
            hint="Give a path on the host that stages, or the text itself",
        )
    return content


def _place(place: str) -> str:
    """A URL as it is, a folder by its full path: uv runs in another folder."""
    if not place or "://" in place:
        return place
    return os.path.abspath(local_path(place))
