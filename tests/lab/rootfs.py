"""Finish an arm64 Debian root that was only unpacked: by hand what its maintainer scripts would have done.

    python rootfs.py FOLDER

Run by mmdebstrap as a hook. No maintainer script has to be emulated, and so the image is made in seconds. apt and dpkg
do not work inside, for nothing was configured.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

USER, USER_ID = "user", 1000
MINOR = "3.13"

PAM = {
    "auth": (
        "auth [success=1 default=ignore] pam_unix.so nullok\nauth requisite pam_deny.so\nauth required pam_permit.so\n"
    ),
    "account": (
        "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\n"
        "account requisite pam_deny.so\naccount required pam_permit.so\n"
    ),
    "password": (
        "password [success=1 default=ignore] pam_unix.so obscure yescrypt\n"
        "password requisite pam_deny.so\npassword required pam_permit.so\n"
    ),
    "session": "session required pam_permit.so\nsession required pam_unix.so\n",
    "session-noninteractive": "session required pam_permit.so\nsession required pam_unix.so\n",
}
SUDOERS = f"""\
# The emulator reads its CPU model from here; without it arm64 Python is six times slower.
Defaults env_keep += "QEMU_CPU"
{USER} ALL=(ALL:ALL) NOPASSWD: ALL
"""
COPIES = {
    "usr/share/base-files/profile": "etc/profile",
    "usr/share/base-files/dot.bashrc": "root/.bashrc",
    "usr/share/base-files/dot.profile": "root/.profile",
    "usr/share/libc-bin/nsswitch.conf": "etc/nsswitch.conf",
}
LINKS = {
    "usr/bin/awk": "mawk",
    "usr/bin/which": "which.debianutils",
    "etc/mtab": "../proc/self/mounts",
    "etc/localtime": "/usr/share/zoneinfo/Etc/UTC",
}
# Bytecode that stays valid whatever becomes of the dates of its sources.
UNCHECKED = ("--invalidation-mode", "unchecked-hash")
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists")


def write(root: Path, name: str, text: str, mode: int = 0o644) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def add_accounts(root: Path) -> None:
    """passwd, group and shadow from base-passwd's masters, with the test user added; no account has a password."""
    masters = root / "usr/share/base-passwd"
    passwd = (masters / "passwd.master").read_text().replace(":*:", ":x:")
    passwd += f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash\n"
    group = (masters / "group.master").read_text().replace(":*:", ":x:") + f"{USER}:x:{USER_ID}:\n"
    write(root, "etc/passwd", passwd)
    write(root, "etc/group", group)
    shadow = "".join(f"{line.split(':')[0]}:*:20000:0:99999:7:::\n" for line in passwd.splitlines())
    write(root, "etc/shadow", shadow, 0o640)
    write(root, f"etc/sudoers.d/{USER}", SUDOERS, 0o440)
    home = root / "home" / USER
    shutil.copytree(root / "etc/skel", home, dirs_exist_ok=True)
    for path in (home, *home.rglob("*")):
        shutil.chown(path, USER_ID, USER_ID)


def add_configuration(root: Path) -> None:
    for name, text in PAM.items():
        write(root, f"etc/pam.d/common-{name}", text)
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    write(root, "etc/ssl/certs/ca-certificates.crt", "".join(path.read_text() for path in certificates))
    for source, target in COPIES.items():
        if (root / source).exists():
            shutil.copy(root / source, root / target)
    for link, target in LINKS.items():
        path = root / link
        if not path.is_symlink() and not path.exists():
            path.symlink_to(target)


def compile_library(root: Path) -> None:
    """Bytecode of the standard library, by the node's own Python: the one program of it that runs here."""
    folders = [f"/usr/lib/python{MINOR}", "/usr/lib/python3"]
    command = ["chroot", str(root), "/usr/bin/python3", "-m", "compileall", "-q", "-j", "0", *UNCHECKED, *folders]
    subprocess.run(command, timeout=600, check=True)


def main() -> None:
    root = Path(sys.argv[1])
    add_accounts(root)
    add_configuration(root)
    for name in UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    compile_library(root)


if __name__ == "__main__":
    main()
