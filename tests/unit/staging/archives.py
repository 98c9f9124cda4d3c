"""Members made to measure, and what became of them."""

import io
import os
import tarfile
import zipfile


def listing(folder):
    """Every file, link and empty folder below a folder: text -> content, target or None."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not any(path.iterdir()):
            found[name] = None
    return found


def entry(name, kind, target="", size=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


def zipped(*members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, mode, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16 or 0x20  # DOS: an archive bit and no mode
            archive.writestr(info, content)
    return buffer.getvalue()
