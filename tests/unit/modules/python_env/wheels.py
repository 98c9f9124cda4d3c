"""Wheels as a build tool makes them: torch for CUDA, and a tool that it needs."""

import base64
import hashlib
import struct
import zipfile

LINUX = "cp313-cp313-manylinux_2_28_aarch64"
AARCH64, X86_64 = 183, 62

SCRIPT = "#!python\nimport sys\nimport tool\nprint(tool.NAME, sys.argv[1:])\n"
TOOL = "import sys\nNAME = 'tool'\ndef main():\n    print(NAME, sys.argv[1:])\n"


def elf(machine):
    """The header of a 64-bit little-endian shared object."""
    return (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)
    )


def wheel(folder, name, version, files, tag="py3-none-any", requires=(), entry_points=""):
    """A wheel as a build tool would make it. ``files``: path -> text or bytes."""
    distribution = f"{name.replace('-', '_')}-{version}"
    info = f"{distribution}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
        **({f"{info}/entry_points.txt": entry_points} if entry_points else {}),
    }
    record = ""
    path = folder / f"{distribution}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, content in contents.items():
            data = content if isinstance(content, bytes) else content.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            archive.writestr(inside, data)
            record += f"{inside},sha256={digest},{len(data)}\n"
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


def torch(folder, build="cu130", version="2.11.0", machine=AARCH64, requires=("tool",)):
    files = {
        "torch/version.py": f"__version__ = '{version}+{build}'\ncuda = '13.0'\n",
        "torch/__init__.py": "",
        "torch/lib/libtorch.so": elf(machine),
        "torch/lib/kernel.cubin": elf(190),
        "torch/include/torch.h": "",
    }
    return wheel(folder, "torch", version, files, LINUX, requires)


def tool(folder, version="1.0"):
    files = {
        "tool.py": TOOL,
        f"tool-{version}.data/scripts/plain": SCRIPT,
        f"tool-{version}.data/scripts/shell": "#!/bin/sh\necho shell\n",
        f"tool-{version}.data/data/share/man/man1/tool.1": "man",
        f"tool-{version}.data/headers/tool.h": "header",
    }
    return wheel(folder, "tool", version, files, entry_points="[console_scripts]\ntool = tool:main\n")


def digest_of(folder, name):
    return hashlib.sha256(next(folder.glob(f"{name}-*.whl")).read_bytes()).hexdigest()


def lock_text(folder, **changed):
    return "".join(
        f"{name}=={version} \\\n    --hash=sha256:{changed.get(name) or digest_of(folder, name)}\n"
        for name, version in (("torch", "2.11.0"), ("tool", "1.0"))
    )
