"""apt as it is configured on this machine, and an apt of our own for another release and architecture.

The address of the Debian mirror is never the project's: it comes from sources.list(5), one-line or deb822.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from armstage.errors import ArmstageError

from .command import output_of
from .host import Host

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "ARMSTAGE_LAB_MIRROR"
# How this machine reaches its mirror: these settings hold for another release of the same mirror too.
INHERITED = ("Acquire::http", "Acquire::https", "Acquire::Check-Date", "Acquire::Check-Valid-Until", "Acquire::Retries")


@dataclass(frozen=True)
class Source:
    """One `deb` entry: an archive's base address and the suites taken from it."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    architectures: tuple[str, ...] = ()


def parse_one_line(text: str) -> list[Source]:
    """`deb [arch=amd64 signed-by=...] uri suite component ...`, one a line; `deb-src` and comments are left out."""
    sources = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words or words[0] != "deb":
            continue
        options, rest = _split_options(words[1:])
        if len(rest) >= 2:
            architectures = tuple(options.get("arch", "").replace(",", " ").split())
            sources.append(Source(rest[0], (rest[1],), tuple(rest[2:]), architectures))
    return sources


def _split_options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    if not words or not words[0].startswith("["):
        return {}, words
    end = next((index for index, word in enumerate(words) if word.endswith("]")), len(words) - 1)
    options = " ".join(words[: end + 1]).strip("[] ").split()
    return dict(option.split("=", 1) for option in options if "=" in option), words[end + 1 :]


def parse_deb822(text: str) -> list[Source]:
    """Stanzas of `Types`, `URIs`, `Suites`, `Components`; those with `Enabled: no` or without `deb` are left out."""
    sources = []
    for fields in _stanzas(text):
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        suites, components, architectures = (
            tuple(fields.get(name, "").split()) for name in ("suites", "components", "architectures")
        )
        sources += [Source(uri, suites, components, architectures) for uri in fields.get("uris", "").split()]
    return sources


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    name = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, ""
        elif line[0].isspace():
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()


def read_sources(folder: str | Path = "/etc/apt") -> list[Source]:
    """Every enabled source, in apt's own order: sources.list, then sources.list.d by name."""
    main = Path(folder, "sources.list")
    files = ([main] if main.exists() else []) + sorted(Path(folder, "sources.list.d").glob("*"))
    parsers = {".list": parse_one_line, ".sources": parse_deb822}
    return [source for file in files if file.suffix in parsers for source in parsers[file.suffix](file.read_text())]


def debian_mirror(host: Host, sources: list[Source]) -> str | None:
    """The base address of this machine's Debian archive: of the first source of its own release, whatever that is.

    None where the machine is not Debian: a derivative's mirror holds no Debian suite.
    """
    if host.distribution != "debian":
        return None
    own = (source for source in sources if host.codename in source.suites and "main" in source.components)
    return next((source.uri for source in own), None)


def mirror(host: Host) -> str | None:
    """The Debian mirror to use: the one named in the environment, else this machine's own, else None."""
    return os.environ.get(MIRROR_VARIABLE) or debian_mirror(host, read_sources())


def inherited_settings() -> list[str]:
    """This machine's apt settings for reaching a mirror, as lines of apt.conf(5)."""
    if not shutil.which("apt-config"):
        return []
    dump = output_of(["apt-config", "dump", "--format", '%f "%v";%n', *INHERITED], timeout=30)
    return [line for line in dump.splitlines() if not line.endswith(' "";')]


class PrivateApt:
    """apt with its state in a folder of ours, for a release and architecture that are not this machine's.

    It reads none of this machine's sources, locks none of its files and installs nothing: it downloads.
    """

    def __init__(self, folder: Path, mirror: str, suite: str, architecture: str = "arm64") -> None:
        self.folder = folder
        for name in ("state/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        entry = f"[signed-by={KEYRING}] {mirror} {suite} main"
        (folder / "sources.list").write_text(f"deb {entry}\ndeb-src {entry}\n")
        settings = [
            f'Dir::State "{folder}/state";',
            f'Dir::State::status "{folder}/status";',
            f'Dir::Cache "{folder}/cache";',
            f'Dir::Etc::sourcelist "{folder}/sources.list";',
            'Dir::Etc::sourceparts "/dev/null";',
            f'APT::Architecture "{architecture}";',
            f'APT::Architectures {{ "{architecture}"; }};',
            'APT::Sandbox::User "root";',
            'Acquire::Languages "none";',
            *inherited_settings(),
        ]
        (folder / "apt.conf").write_text("\n".join(settings) + "\n")

    def get(self, *arguments: str, cwd: Path, timeout: float = 300) -> str:
        """Run apt-get with this configuration in folder `cwd`."""
        environment = {**os.environ, "APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C"}
        return output_of(["apt-get", "-q", *arguments], timeout=timeout, env=environment, cwd=str(cwd))


def require_mirror(host: Host) -> str:
    """As `mirror`, but an error where there is none."""
    found = mirror(host)
    if not found:
        raise ArmstageError(
            f"Expected a Debian mirror, but this machine's own sources are for `{host.distribution or 'no Debian'}`",
            hint=f"Name one: {MIRROR_VARIABLE}=http://mirror.example/debian",
        )
    return found
