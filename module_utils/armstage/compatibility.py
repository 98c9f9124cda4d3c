"""Questions to the data of ``vars/compatibility.yml``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ArmstageError
from .versions import matches, release, within

Data = Mapping[str, Any]

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
        return ArmstageError(
            f"Expected one of the known versions of {name} ({', '.join(self.versions(name))}), "
            f"but received: `{version}`",
            hint="To use another, add it to vars/compatibility.yml; "
            "`./armstage indexes --refresh` shows which indexes hold it",
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
