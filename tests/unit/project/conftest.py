"""A folder of small wheels that stand for torch and what goes with it, and a project that uses them."""

import sys
import zipfile
from pathlib import Path

import pytest

MACHINES = ("aarch64", "x86_64")
CPU = "__version__ = '%s+cpu'\ncuda = None\n"
CUDA = "__version__ = '%s+cu130'\ncuda = '13.0'\n"


def wheel(folder, name, version, machine="any", requires=(), files=None):
    """A wheel with metadata and a few files."""
    platform = "any" if machine == "any" else f"manylinux_2_28_{machine}"
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-{platform}.whl"
    contents = {
        f"{name}/__init__.py": "",
        **(files or {}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {requirement}\n" for requirement in requires),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-{platform}\n",
    }
    contents[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*contents, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in contents.items():
            archive.writestr(file, text)
    return path


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """torch 2.10.0, a CPU build on aarch64, and 2.11.0 with CUDA libraries; others of the same in two versions."""
    folder = tmp_path_factory.mktemp("wheels")
    for machine in MACHINES:
        wheel(folder, "torch", "2.10.0", machine, ["plain"], {"torch/version.py": CPU % "2.10.0"})
        wheel(folder, "torch", "2.11.0", machine, ["plain", "nvidia_cudart"], {"torch/version.py": CUDA % "2.11.0"})
        wheel(folder, "nvidia_cudart", "13.0", machine)
    for version in ("1.0", "2.0"):
        wheel(folder, "plain", version)
        wheel(folder, "other", version)
    return folder


PYPROJECT = """\
# A project of tests.
[project]
name = "demo"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = [
    "torch==2.10.0",  # what the others use
    "other",
]

[tool.uv]
no-index = true
find-links = ["%s"]
"""


@pytest.fixture
def project(tmp_path, wheels, monkeypatch):
    """A project whose lock has the CPU build of torch for aarch64, and a lock for an older `other` and `plain`."""
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "work" / "demo"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT % wheels)
    (folder / "uv.lock").write_text(lock_text(wheels))
    return folder


def lock_text(wheels):
    """What uv wrote when `other` and `plain` were at 1.0."""
    source = f'source = {{ registry = "{wheels}" }}\n'

    def package(name, version, machines=("any",), dependencies=()):
        needs = "".join(f'    {{ name = "{dependency}" }},\n' for dependency in dependencies)
        files = [f"{name.replace('-', '_')}-{version}-py3-none-{platform(machine)}.whl" for machine in machines]
        text = f'[[package]]\nname = "{name}"\nversion = "{version}"\n{source}'
        text += f"dependencies = [\n{needs}]\n" if needs else ""
        return text + "wheels = [\n" + "".join(f'    {{ path = "{file}" }},\n' for file in files) + "]\n\n"

    def platform(machine):
        return "any" if machine == "any" else f"manylinux_2_28_{machine}"

    return (
        'version = 1\nrevision = 3\nrequires-python = ">=3.11"\n\n'
        '[[package]]\nname = "demo"\nversion = "0.1.0"\nsource = { virtual = "." }\n'
        'dependencies = [\n    { name = "other" },\n    { name = "torch" },\n]\n\n'
        '[package.metadata]\nrequires-dist = [\n    { name = "other" },\n'
        '    { name = "torch", specifier = "==2.10.0" },\n]\n\n'
        + package("other", "1.0")
        + package("plain", "1.0")
        + package("torch", "2.10.0", MACHINES, ["plain"])
    ).rstrip("\n") + "\n"


@pytest.fixture
def uv():
    return str(Path(sys.executable).with_name("uv"))
