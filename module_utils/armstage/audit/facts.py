"""What the rules know about aarch64: vars/compatibility.yml, and the driver of the node where one was given.

Nothing is stated here that the data holds: tags, versions and CUDA numbers are looked up in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import torch_index
from ..compatibility import PACKAGES, Compatibility, newest_first
from ..errors import ArmstageError
from ..files import read_text
from ..readers import yaml
from ..readers.nodes import ReadError
from ..versions import release
from .pep440 import Specifier, Version

FAMILY = PACKAGES
"""The packages whose aarch64 builds the data describes."""

CPU = "cpu"
_INDEX = re.compile(r"/whl/(?:nightly/|test/)?(?P<tag>cu\d{2,3}|cpu|rocm[\d.]+|xpu)(?:/|$|[?#])")


CHECKOUT = Path(__file__).resolve().parents[3] / "vars" / "compatibility.yml"
"""The data of the checkout that this code lies in; on a node there is none."""


def read_compatibility(path: Path = CHECKOUT) -> Mapping[str, Any]:
    """armstage_compatibility of a file. Raises ArmstageError where there is none to be had."""
    text = read_text(path)
    try:
        document: Any = yaml.read(text or "")[0][0]
        found: Mapping[str, Any] = document["armstage_compatibility"]
    except (ReadError, IndexError, KeyError, TypeError) as error:
        raise ArmstageError(
            f"Expected the compatibility data in `{path}`, but "
            + ("there is no such file" if text is None else f"read: {error}"),
            hint="Pass on armstage_compatibility of vars/compatibility.yml as `compatibility`",
        ) from error
    return found


def node_facts(cuda: Mapping[str, Any], cuda_version: str) -> Mapping[str, Any]:
    """The facts of cuda_facts, or what stands for them where only the CUDA version of the driver is given."""
    if cuda_version:
        return {"status": "ok", "arch": "aarch64", "gpus": [], **cuda, "cuda_version": cuda_version}
    return cuda if cuda.get("arch") == "aarch64" else {}


def index_tag(url: str) -> str:
    """The tag of a PyTorch wheel index, `cu128` or `cpu`; empty for any other address."""
    match = _INDEX.search(url.strip())
    return match["tag"] if match else ""


@dataclass(frozen=True)
class Objection:
    """Why an index does not serve the aarch64 nodes; ``certain`` where no node could do with it."""

    reason: str
    certain: bool


@dataclass(frozen=True)
class Facts:
    """``compatibility`` is armstage_compatibility; ``cuda`` what cuda_facts found on the node, or empty."""

    compatibility: Mapping[str, Any]
    cuda: Mapping[str, Any] = field(default_factory=dict)
    python: str = "3.12"

    @property
    def indexes(self) -> Mapping[str, Any]:
        """The wheel indexes with CUDA builds for aarch64, by tag."""
        found: Mapping[str, Any] = self.compatibility["indexes"]
        return found

    @property
    def driver_cuda(self) -> str:
        """The newest CUDA that the node's driver runs; empty where the driver is not known."""
        return str(self.cuda.get("cuda_version") or "")

    @property
    def on_spark(self) -> bool:
        return self.cuda.get("platform") == "spark"

    def served(self) -> list[str]:
        """The tags that the node's driver and GPUs allow; all of them where the node is not known."""
        return [
            tag
            for tag, index in self.indexes.items()
            if (not self.driver_cuda or release(index["cuda"]) <= release(self.driver_cuda))
            and all(torch_index.runs_on(index, gpu) for gpu in self._capabilities())
        ]

    def known(self, package: str) -> list[str]:
        """Every version of torch, torchvision or torchcodec in the data, newest first."""
        return Compatibility(self.compatibility).versions(package)

    def may_come(self, package: str, specifier: Specifier, tags: Iterable[str]) -> bool:
        """Whether a version newer than the data knows may meet the conditions, from an index that still gets any."""
        newest = self.known(package)[0]
        if not any(newest in self.indexes[tag][package] for tag in tags):
            return False
        bounds = [version for operator, version in specifier.clauses if operator in ("==", "~=", ">", ">=")]
        later = f"{Version.parse(newest).release[0] + 1000}.0"
        return specifier.admits(later) or any(
            Version.parse(version.rstrip(".*")) > Version.parse(newest) for version in bounds
        )

    def builds(self, package: str, tags: Iterable[str] | None = None) -> list[str]:
        """The versions with a CUDA build for aarch64 in these indexes (default: in any), newest first."""
        return newest_first(
            {version for tag in (self.indexes if tags is None else tags) for version in self.indexes[tag][package]}
        )

    def admitted(self, versions: Sequence[str], specifier: Specifier) -> list[str]:
        public = specifier.public()
        return [version for version in versions if public.admits(version)]

    def pypi_tag(self, package: str, version: str) -> str | None:
        """What PyPI's aarch64 wheel of this version is built for: an index's tag, `cpu`, or None where the data does
        not say. What is older than the oldest CPU build is one too."""
        data: Mapping[str, Any] = self.compatibility[package]
        tags = {release(known): str(entry["pypi"]) for known, entry in data.items()}
        wanted, oldest = release(version), min(tags)
        return tags.get(wanted) or (CPU if wanted < oldest and tags[oldest] == CPU else None)

    def first_cuda_on_pypi(self) -> str:
        """The oldest torch whose aarch64 wheel on PyPI is a CUDA build."""
        built = [str(version) for version, entry in self.compatibility["torch"].items() if entry["pypi"] != CPU]
        return newest_first(built)[-1]

    def minimum(self, package: str) -> str:
        """The oldest version that serves aarch64, where the data sets one."""
        limit = self.compatibility["limits"].get(package, {}).get("minimum")
        return str(limit["version"]) if limit else ""

    def denied(self, package: str, version: str) -> str:
        """Why this version is refused whatever it goes with; empty where it is not. `0.0.0.dev0` counts as `0.0.0`."""
        for denied, entry in self.compatibility["limits"].get(package, {}).get("denied", {}).items():
            if release(denied) == release(version):
                return str(entry["reason"])
        return ""

    def choice(self, specifier: Specifier | None = None) -> dict[str, Any] | None:
        """The index for the node's driver, as torch_index chooses it, with the newest torch the conditions
        admit in ``torch``; None where the driver is not known or none fits."""
        if not self.driver_cuda:
            return None
        for version in self.admitted(self.builds("torch"), specifier or Specifier()):
            try:
                chosen = torch_index.choose(self.cuda, self.compatibility, torch=version, python=self.python)
            except ArmstageError:
                continue
            return {**chosen, "torch": version}
        return None

    def objection(self, tag: str, specifier: Specifier | None = None) -> Objection | None:
        """Why an index that is written down does not serve the aarch64 nodes; None where nothing is wrong with it."""
        if tag == CPU:
            return Objection("it holds CPU builds: torch.version.cuda is None on the node", True)
        index = self.indexes.get(tag)
        if index is None:
            held = _listed(list(self.indexes))
            return Objection(f"it holds no CUDA build of torch for aarch64; those are in {held}", True)
        if self.driver_cuda:
            return self._against_driver(tag, index, specifier or Specifier())
        return self._against_every_gpu(index) or self._ended(tag)

    def _against_driver(self, tag: str, index: Mapping[str, Any], specifier: Specifier) -> Objection | None:
        if release(index["cuda"]) > release(self.driver_cuda):
            reason = f"its CUDA {index['cuda']} is newer than the {self.driver_cuda} that the node's driver runs"
            return Objection(reason, True)
        unserved = [gpu for gpu in self._capabilities() if not torch_index.runs_on(index, gpu)]
        if unserved:
            gpus = _listed(unserved)
            return Objection(f"its builds have no kernels for the node's GPU (compute capability {gpus})", True)
        chosen = self.choice(specifier)
        if chosen and chosen["tag"] != tag:
            reason = f"for the node's driver, of CUDA {self.driver_cuda}, {chosen['tag']} is the index, with torch "
            return Objection(reason + chosen["torch"], False)
        return None

    def _capabilities(self) -> list[str]:
        found = {str(gpu["compute_capability"]) for gpu in self.cuda.get("gpus") or [] if gpu.get("compute_capability")}
        return sorted(found, key=release)

    def _against_every_gpu(self, index: Mapping[str, Any]) -> Objection | None:
        """Why it does not serve every GPU of aarch64 servers and workstations."""
        architectures = self.compatibility["gpu_architectures"]
        unserved = {
            entry["name"]
            for gpu, entry in architectures.items()
            if entry["name"] != "Thor" and not torch_index.runs_on(index, gpu)
        }
        if not unserved:
            return None
        return Objection(f"its aarch64 builds have no kernels for {_listed(sorted(unserved))} GPUs", False)

    def _ended(self, tag: str) -> Objection | None:
        newest, last = self.builds("torch")[0], self.builds("torch", [tag])[0]
        if release(last) == release(newest):
            return None
        current = [other for other in self.indexes if newest in self.indexes[other]["torch"]]
        return Objection(
            f"it fixes CUDA {self.indexes[tag]['cuda']} for every driver, and its aarch64 builds end at torch {last} "
            f"({newest} is in {_listed(current)})",
            False,
        )


def _listed(words: Sequence[str], last: str = " and ") -> str:
    return last.join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
