"""`./armstage lock` with the real uv, against an index served here."""

import hashlib
import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("lock", ROOT / "scripts" / "lock.py")
lock = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lock)


@pytest.fixture
def index(server, wheel, monkeypatch, tmp_path):
    """``index("beta==1.0", "beta==1.1", ...)`` serves these wheels; returns name==version -> sha256."""
    assert shutil.which("uv"), "the project's environment has uv"
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{server.base}/simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))

    def serve(*pins, requires=()):
        digests, pages = {}, {}
        for pin in pins:
            name, version = pin.split("==")
            file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
            info = f"{name.replace('-', '_')}-{version}.dist-info"
            needs = "".join(f"Requires-Dist: {need}\n" for owner, need in requires if owner == name)
            content = wheel(
                {
                    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode(),
                    f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                    f"{info}/RECORD": b"",
                }
            )
            digests[pin] = hashlib.sha256(content).hexdigest()
            url = server.put(f"/files/{file}", content)
            pages.setdefault(name, []).append(f'<a href="{url}#sha256={digests[pin]}">{file}</a>')
        for name, links in pages.items():
            server.put(f"/simple/{name}/", "\n".join(links).encode(), content_type="text/html")
        return digests

    return serve


def test_pins_have_hashes_and_no_address(index, tmp_path):
    digests = index("alpha==1.0", "beta==2.0", requires=[("alpha", "beta>=1")])
    pins = lock.compile_pins("alpha", tmp_path / "absent.txt")
    assert lock.entries(pins) == [
        f"{pin} \\\n    --hash=sha256:{digests[pin]}\n" for pin in ("alpha==1.0", "beta==2.0")
    ]
    assert "http" not in pins


def test_a_pin_stays_until_it_no_longer_serves_or_an_upgrade_is_asked(index, tmp_path):
    known = tmp_path / "known.txt"
    index("alpha==1.0")
    known.write_text(lock.HEADER + lock.compile_pins("alpha", tmp_path / "absent.txt"))
    index("alpha==1.0", "alpha==1.1")
    shutil.rmtree(tmp_path / "cache")
    assert "alpha==1.0" in lock.compile_pins("alpha", known)
    assert "alpha==1.1" in lock.compile_pins("alpha>1.0", known)
    assert "alpha==1.1" in lock.compile_pins("alpha", known, "--upgrade")


@pytest.mark.parametrize(
    ("entry", "own_build"),
    [
        ("torch==2.11.0 \\", True),
        ("torchvision==0.26.0", True),
        ("nvidia-cublas==13.1.0.3", True),
        ("cuda-toolkit==13.0.2", True),
        ("triton==3.6.0", True),
        ("numpy==2.5.5", False),
        ("torchmetrics==1.0", False),
    ],
)
def test_packages_of_which_every_cuda_has_its_own_build(entry, own_build):
    assert bool(lock.CUDA_BUILDS.match(entry)) is own_build
