"""The upstream archives that a test machine cannot reach, made for real from what it can.

Each has its upstream's layout, name and place, and holds real aarch64 programs: uv's own binary from its PyPI wheel,
Debian's CPython repacked, FFmpeg 7.1 built from Debian's source package. They are other bytes than the upstream's, so a
stack's own sha256 cannot match: `extra_vars` gives the sources that name these.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import tempfile
import urllib.parse
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from armstage.files import write_atomic

from . import cpython_archive, ffmpeg_archive, image, uv_archive
from .host import Host, cache_folder
from .packing import sha256_of

CHECKSUMS = "checksums.sha256"
COMPONENTS: Mapping[str, ModuleType] = {"uv": uv_archive, "cpython": cpython_archive, "ffmpeg": ffmpeg_archive}


@dataclass(frozen=True)
class Archive:
    """One file of the mirror. `address` is its upstream's without the scheme, which is its path below the mirror."""

    component: str
    version: str
    address: str
    sha256: str

    @property
    def url(self) -> str:
        """The upstream's own URL."""
        return f"https://{urllib.parse.quote(self.address)}"


def ensure(component: str, host: Host) -> tuple[Archive, Path]:
    """The archive of a component and its file in the cache, made first where it is not there: complete or absent."""
    module = COMPONENTS[component]
    recipe = inspect.getsource(module) + (image.recipe() if module is cpython_archive else "")
    folder = cache_folder() / "archives" / f"{component}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{component}-", dir=folder.parent) as work:
            version, address, file = module.make(Path(work), host)
            ready = Path(work, "ready")
            ready.mkdir()
            file.rename(ready / file.name)
            archive = Archive(component, version, address, sha256_of(ready / file.name))
            write_atomic(ready / "archive.json", json.dumps(asdict(archive), indent=2) + "\n")
            ready.rename(folder)
    archive = Archive(**json.loads((folder / "archive.json").read_text()))
    return archive, folder / archive.address.rpartition("/")[2]


def lay_out(mirror: Path, host: Host, components: tuple[str, ...] = tuple(COMPONENTS)) -> list[Archive]:
    """Fill a folder as a mirror keeps it, with each upstream's own checksum file and one over all."""
    made = []
    for component in components:
        archive, file = ensure(component, host)
        target = mirror / archive.address
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            copy(file, target)
        path, text = COMPONENTS[component].checksum_file(archive.address, archive.sha256)
        write_atomic(mirror / path, text)
        made.append(archive)
    write_atomic(mirror / CHECKSUMS, "".join(f"{archive.sha256}  {archive.address}\n" for archive in made))
    return made


def copy(source: Path, target: Path) -> None:
    """A hard link where both are on one filesystem, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def extra_vars(archives: list[Archive], mirror: str = "") -> dict[str, object]:
    """Variables for the roles: `mirror` is asked first, and the sources are these archives instead of the stack's."""
    variables: dict[str, object] = {"armstage_mirror": mirror} if mirror else {}
    for archive in archives:
        source = {"kind": "upstream", "url": archive.url, "sha256": archive.sha256, "strip_components": 1}
        variables[f"armstage_{archive.component}_version"] = archive.version
        variables[f"armstage_{archive.component}_sources"] = [source]
    return variables
