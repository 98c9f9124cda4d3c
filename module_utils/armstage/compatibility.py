"""Questions to the data of ``vars/compatibility.yml``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ArmstageError
from .versions import matches, release, within

Data = Mapping[str, Any]

_OTHERWISE_WRITTEN = re.compile(r"\s*v?\d+(\.\d+)*(\+\S+)?\s*")
"""A release as people also write it: `v2.11`, `2.11.0+cu130`; nothing before or after a release."""

PACKAGES = ("torch", "torchvision", "torchcodec")
"""What an environment is chosen by; of each, the data says which versions there are."""


@dataclass(frozen=True)
class Compatibility:
    """The value of ``armstage_compatibility``, with what follows from it."""

    data: Data

    def indexes(self) -> list[tuple[str, Data]]:
        """The wheel indexes, (tag, what it holds), newest CUDA first."""
        return sorted(self.data["indexes"].items(), key=lambda entry: release(entry[1]["cuda"]), reverse=True)

    def versions(self, name: str) -> list[str]:
        """Every version of torch, torchvision or torchcodec in the data, newest first."""
        if name == "torchvision":
            return newest_first({version for torch in self.data["torch"].values() for version in torch["torchvision"]})
        return newest_first(self.data[name])

    def unknown(self, name: str, version: str) -> ArmstageError | None:
        """What to say of a version that the data lacks; None for one it has."""
        if version in self.versions(name):
            return None
        hint = (
            "To use another, add it to vars/compatibility.yml; "
            "`./armstage indexes --refresh` shows which indexes hold it"
        )
        if _OTHERWISE_WRITTEN.fullmatch(version):
            meant = (known for known in self.versions(name) if release(known) == release(version))
            hint = next((f"Write it as `{known}`. {hint}" for known in meant), hint)
        return ArmstageError(
            f"Expected one of the known versions of {name} ({', '.join(self.versions(name))}), "
            f"but received: `{version}`",
            hint=hint,
        )

    def unpaired(self, name: str, version: str, torch: str) -> ArmstageError | None:
        """What to say of a torchvision or torchcodec that was made for another torch; None for one that fits."""
        if name == "torch" or self.goes_with(name, version, torch):
            return None
        torches = self.torches(name, version)
        partners = [f"{name} {partner} for torch {torch}" for partner in self.partners(name, torch)[:1]]
        return ArmstageError(
            f"{name} `{version}` goes with torch {', '.join(torches)}, not with torch `{torch}`",
            hint="Choose " + " or ".join([*partners, f"torch {torches[0]} for {name} {version}"]),
        )

    def goes_with(self, name: str, version: str, torch: str) -> bool:
        """True when a torchvision or torchcodec was made for this torch."""
        if name == "torchvision":
            return version in self.data["torch"][torch]["torchvision"]
        return matches(torch, self.data[name][version]["torch"])

    def torches(self, name: str, version: str) -> list[str]:
        """The torches that a torchvision or torchcodec goes with, newest first."""
        return newest_first(torch for torch in self.data["torch"] if self.goes_with(name, version, torch))

    def partners(self, name: str, torch: str) -> list[str]:
        """The torchvisions or torchcodecs that go with a torch, the one to take first."""
        if name == "torchvision":
            return list(self.data["torch"][torch]["torchvision"])
        return newest_first(version for version in self.data[name] if self.goes_with(name, version, torch))

    def pythons(self, name: str, version: str) -> list[str]:
        """The spans of Pythons a version has aarch64 wheels for; torchvision: those of the torches it goes with."""
        if name == "torchvision":
            return list(dict.fromkeys(self.data["torch"][torch]["pythons"] for torch in self.torches(name, version)))
        return [self.data[name][version]["pythons"]]

    def has_wheel(self, name: str, version: str, python: str) -> bool:
        return any(within(python, span) for span in self.pythons(name, version))


def newest_first(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=release, reverse=True)
