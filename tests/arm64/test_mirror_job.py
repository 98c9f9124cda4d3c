"""The main job from a mirror: CPython and FFmpeg in their upstreams' layout, which upstreams out of reach can't show.

The archives are real aarch64 programs repacked by the lab (docs/lab.md): other bytes than the upstreams', same layout.
"""

import json

import pytest
from lab import archives, nodes
from lab.mirror import Mirror

pytestmark = pytest.mark.arm64

REFUSED = {
    "html": "HTML",
    "truncated": "ended",
    "wrong": "sha256",
    "escape": "sha256",
    "missing": "404",
}


@pytest.fixture(scope="module")
def mirror(mirror_folder):
    folder, _archives = mirror_folder
    with Mirror(folder) as served:
        yield served


@pytest.fixture(scope="module")
def variables(mirror, mirror_folder, shared):
    """An extra-vars file that names the mirror and its archives."""
    _folder, made = mirror_folder
    file = shared / "mirror.json"
    file.write_text(json.dumps(archives.extra_vars(list(made.values()), mirror.url)))
    return f"@{file}"


def test_cpython_and_ffmpeg_from_the_mirror_decode_in_the_node(play, variables, shared, mirror, node, mirror_folder):
    root = shared / "from-mirror" / ".local"
    played = play("stage", root, "-e", variables)
    assert played.status == 0, played.text
    version = mirror_folder[1]["cpython"].version
    python = root / f"python/cpython-{version}-linux-aarch64-gnu"
    assert (root / "envs/cu130/bin/python").resolve().is_relative_to(python.resolve())
    assert "WARN" not in played.text
    kinds = {release["name"]: release["source"]["kind"] for release in read_manifest(root)["releases"]}
    assert kinds == {"uv": "mirror", "cpython": "mirror", "ffmpeg": "mirror", "env-cu130": "pypi"}
    assert f"{mirror.url}/download.pytorch.org/whl/cu130" in played.text  # asked, has no such index, said
    settings = next(python.glob("lib/python3.*/_sysconfigdata_*.py")).read_text()
    assert f"{python}/" in settings
    assert "/install/" not in settings
    found = f". {root}/env.sh && uv python find --no-config --offline {version}"
    assert nodes.execute(node, ["sh", "-c", found]).strip().startswith(f"{root}/store/env-cu130-")
    again = play("stage", root, "-e", variables, "--skip-tags", "armstage_prove")
    assert (again.status, again.changed) == (0, 0), again.changed_tasks


def read_manifest(root):
    return json.loads((root / "manifest.json").read_text())


@pytest.mark.parametrize("fault", REFUSED)
def test_a_bad_download_is_refused_by_name_and_nothing_is_published(play, variables, shared, mirror, fault):
    root = shared / f"refused-{fault}" / ".local"
    mirror.faults = {"FFmpeg-Builds": fault}
    try:
        played = play("stage", root, "-e", variables, "--skip-tags", "armstage_prove")
    finally:
        mirror.faults = {}
    assert played.status != 0
    said = played.text[played.text.index("[ERROR]") : played.text.index("PLAY RECAP")]
    assert "ffmpeg" in said
    assert REFUSED[fault] in said
    published = {release["name"] for release in read_manifest(root)["releases"]}
    assert published == {"uv", "cpython"}
    assert not [path for path in (root / "store").iterdir() if path.name.startswith((".partial", "ffmpeg"))]
