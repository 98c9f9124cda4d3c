"""The node's image: Debian 13 for arm64, made in seconds because its maintainer scripts do not run (see rootfs.py).

Where no Debian mirror is known (Ubuntu without `ARMSTAGE_LAB_MIRROR`), the image is built on the Python project's own
container image instead; podman must then reach its registry.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from armstage.errors import ArmstageError

from . import apt, emulation, podman, rootfs
from .alone import alone
from .command import output_of, say
from .host import Host, cache_folder

SUITE = "trixie"
PYTHON_MINOR = rootfs.MINOR
ESSENTIAL = "?essential"  # apt's pattern for bash, coreutils, dash, gzip, tar, util-linux ...
PACKAGES = (
    "ca-certificates",
    "libpython3.13",
    "libstdc++6",
    "procps",
    "python3",
    "sudo",
    "tzdata",
    "xz-utils",
)
REPOSITORY = "localhost/armstage-node"
BASE_IMAGE = "docker.io/library/python:3.13-slim-trixie"
CONTAINERFILE = f"""\
FROM {BASE_IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates procps sudo xz-utils \\
 && useradd --create-home --shell /bin/bash --uid {rootfs.USER_ID} {rootfs.USER}
COPY sudoers /etc/sudoers.d/{rootfs.USER}
"""


def recipe() -> str:
    """What the image is made from; another recipe is another image."""
    here = Path(__file__).parent
    return "\n".join([SUITE, ESSENTIAL, *PACKAGES, CONTAINERFILE, (here / "rootfs.py").read_text()])


def tag() -> str:
    return hashlib.sha256(recipe().encode()).hexdigest()[:12]


def reference() -> str:
    return f"{REPOSITORY}:{tag()}"


def archive() -> Path:
    return cache_folder() / "images" / f"node-{tag()}.tar"


def ensure(host: Host) -> str:
    """The image's reference, made or loaded first where podman does not have it."""
    emulation.register(host)
    name = reference()
    if podman.succeeds("image", "exists", name):
        return name
    mirror = apt.mirror(host)
    if mirror or archive().exists():
        if not archive().exists():
            build(host, str(mirror), archive())
        podman.call("import", "--arch", "arm64", "--change", f"LABEL {podman.LABEL}=image", str(archive()), name)
    else:
        pull(name)
    return name


def build(host: Host, mirror: str, target: Path) -> None:
    """Write the root filesystem's archive to `target`: complete or absent."""
    if not apt.KEYRING.exists():
        raise ArmstageError(
            f"Expected Debian's archive keys at `{apt.KEYRING}`", hint="Install `debian-archive-keyring`"
        )
    say(f"Making the arm64 node image from {mirror} ({SUITE}); about half a minute, once")
    target.parent.mkdir(parents=True, exist_ok=True)
    with alone(), tempfile.TemporaryDirectory(prefix=".image-", dir=target.parent) as folder:
        if target.exists():
            return  # another process has just made it
        partial = Path(folder) / "rootfs.tar"
        environment = {**os.environ, "LC_ALL": "C", **emulation.environment(host)}
        output_of(bootstrap_command(host, mirror, partial), timeout=900, env=environment)
        partial.replace(target)


def bootstrap_command(host: Host, mirror: str, target: Path) -> list[str]:
    return [
        "mmdebstrap",
        "--quiet",
        "--architectures=arm64",
        "--variant=extract",
        f"--mode={'root' if host.root else 'unshare'}",
        "--format=tar",
        f"--keyring={apt.KEYRING}",
        f"--include={ESSENTIAL}",
        f"--include={','.join(PACKAGES)}",
        *(f"--aptopt={setting}" for setting in apt.inherited_settings()),
        f'--extract-hook="{sys.executable}" "{Path(rootfs.__file__)}" "$1"',
        SUITE,
        str(target),
        f"deb {mirror} {SUITE} main",
    ]


def pull(name: str) -> None:
    """Build the image on the Python project's own: the way for a machine that has a registry but no Debian mirror."""
    say(f"Pulling {BASE_IMAGE} for arm64")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Containerfile").write_text(CONTAINERFILE)
        Path(folder, "sudoers").write_text(rootfs.SUDOERS)
        Path(folder, "sudoers").chmod(0o440)
        podman.call(
            "build", "--platform", "linux/arm64", "--label", f"{podman.LABEL}=image", "-t", name, folder, timeout=1800
        )


def remove(archives: bool = False) -> None:
    """Forget every image of the lab, and the archives they come from where asked."""
    for name in podman.lines("images", "--filter", f"label={podman.LABEL}", "--format", "{{.ID}}"):
        podman.call("rmi", name)
    if archives:
        shutil.rmtree(archive().parent, ignore_errors=True)
