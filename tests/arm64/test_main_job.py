"""The main job on real aarch64 programs: staged from this machine, run in the node, and with what can break broken."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from lab import nodes
from lab.host import read_host

from armstage.elf.reader import find_elf

pytestmark = pytest.mark.arm64

PROJECT = Path(__file__).resolve().parents[2]


def site_packages(root):
    return next((root / "envs/cu130/lib").glob("python3.*")) / "site-packages"


def mtimes(root):
    """The modification time of everything below a root, folders and links included."""
    found = {root: os.lstat(root).st_mtime_ns}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[path] = os.lstat(path).st_mtime_ns
    return found


def test_the_summary_names_each_component_and_what_to_type_next(staged):
    root, played = staged
    for words in ("uv ", "ffmpeg ", "env-cu130", "pypi", "ELF files staged", "WARN: CPython 3.12.12 is not staged"):
        assert words in played.text
    assert f"Next: in a job script, on the node:  . {root}/env.sh" in played.text


def test_the_decode_in_the_node_is_real(staged, node, clip):
    root, _played = staged
    script = f". {root}/env.sh && exec python -B {root}/share/armstage/prove.py"
    proof = json.loads(nodes.execute(node, ["sh", "-c", script]).splitlines()[-1])
    expected = json.loads(clip.with_suffix(".json").read_text())
    assert proof["machine"] == "aarch64"
    assert (proof["torch"], proof["torch_cuda"], proof["ffmpeg_major"]) == ("2.11.0+cu130", "13.0", 7)
    assert (proof["frames"], proof["shape"]) == (60, [3, 180, 320])
    for frame, mean in expected["mean_rgb"].items():
        assert proof["means"][frame] == pytest.approx(mean, abs=expected["tolerance"])


def test_every_elf_file_is_aarch64(staged):
    root, played = staged
    machines = [machine for _path, machine in find_elf(str(root))]
    assert len(machines) > 200
    assert set(machines) == {"aarch64"}
    assert f"ELF files staged: {len(machines)}; {len(machines)} are aarch64" in played.text


def test_the_staged_uv_runs_in_the_node(staged, node):
    root, _played = staged
    assert nodes.execute(node, [f"{root}/bin/uv-aarch64", "--version"]).startswith("uv 0.10.0")


def test_the_manifest_lists_every_release_with_its_source(staged):
    root, _played = staged
    releases = json.loads((root / "manifest.json").read_text())["releases"]
    assert {release["name"] for release in releases} == {"uv", "ffmpeg", "env-cu130"}
    assert all(release["source"]["kind"] and release["size"] and release["created"] for release in releases)
    assert all(len(release["source"]["sha256"]) == 64 for release in releases if release["name"] != "env-cu130")


def test_a_second_run_changes_nothing_even_on_a_read_only_root(staged, play):
    root, _played = staged
    before = mtimes(root)
    script = f'mount --bind "{root}" "{root}" && mount -o remount,ro,bind "{root}" && exec "$@"'
    read_only = ("unshare", "--mount", "sh", "-c", script, "sh") if read_host().root else ()
    played = play("stage", root, prefix=read_only)
    assert played.status == 0, played.text
    assert played.changed == 0, played.changed_tasks
    assert mtimes(root) == before


def test_check_mode_on_an_empty_host_predicts_the_run(staged, play, shared):
    _root, real = staged
    empty = shared / "empty" / ".local"
    played = play("stage", empty, "--check", "--diff")
    assert played.status == 0, played.text
    assert not empty.parent.exists()
    assert played.changed_tasks == real.changed_tasks
    assert "+" in played.text
    assert "env.sh" in played.text


def test_nothing_staged_is_executed_to_stage_it(play, shared):
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    root, log = shared / "traced" / ".local", shared / "execve.log"
    trace = ("strace", "--follow-forks", "--seccomp-bpf", "--trace=execve", "--output", str(log))
    played = play("stage", root, "--skip-tags", "armstage_prove", prefix=trace)
    assert played.status == 0, played.text
    calls = log.read_text(errors="replace")
    assert calls.count("execve(") > 50
    assert not [line for line in calls.splitlines() if f'execve("{root}/' in line]
    shutil.rmtree(root)


# --- what can break -------------------------------------------------------------------------------------------------


def replace_ffmpeg(root, wheel_requirement):
    """Put the libraries of another PyAV wheel where the staged ones are."""
    folder = root / "other-ffmpeg"
    target = folder / "wheel"
    install = "uv pip install -q --no-config --no-deps --python-platform aarch64-manylinux_2_28 --python-version 3.11"
    subprocess.run([*install.split(), "--only-binary", ":all:", "--target", str(target), wheel_requirement], check=True)
    (folder / "lib").mkdir()
    for library in (target / "av.libs").iterdir():
        shutil.copy(library, folder / "lib")
        named = re.fullmatch(r"(lib(?:av|sw|postproc)\w*)-\w+\.so\.(\d+)\..*", library.name)
        if named:
            (folder / "lib" / f"{named[1]}.so.{named[2]}").symlink_to(library.name)
    (root / "ffmpeg-linuxarm64").unlink()
    (root / "ffmpeg-linuxarm64").symlink_to("other-ffmpeg")


def remove_npp(root):
    for library in (site_packages(root) / "nvidia/cu13/lib").glob("libnpp*"):
        library.unlink()


def put_an_x86_library(root):
    library = (root / "ffmpeg-linuxarm64/lib/libavcodec.so.61").resolve()
    content = bytearray(library.read_bytes())
    content[18:20] = (62).to_bytes(2, "little")
    library.unlink()
    library.write_bytes(content)


def remove_half_of_ffmpeg(root):
    (root / "ffmpeg-linuxarm64/lib/libavdevice.so.61").unlink()


def make_torch_a_cpu_build(root):
    version = site_packages(root) / "torch/version.py"
    text = version.read_text().replace("+cu130", "+cpu").replace("'13.0'", "None")
    version.unlink()
    version.write_text(text)


def damage_the_clip(root):
    clip = root / "share/armstage/clip.json"
    text = clip.read_text().replace('"frames": 60', '"frames": 61')
    clip.unlink()
    clip.write_text(text)


FAULTS = {
    # The index has no wheel with FFmpeg 5 for aarch64; tests/unit/elf plants that one.
    "ffmpeg-6": (lambda root: replace_ffmpeg(root, "av==12.3.0"), ["FFmpeg 6 would be loaded, expected 7"]),
    "ffmpeg-8": (lambda root: replace_ffmpeg(root, "av==16.0.1"), ["FFmpeg 8 would be loaded, expected 7"]),
    "ffmpeg-partly": (remove_half_of_ffmpeg, ["libavdevice.so.61"]),
    "nvidia-npp": (remove_npp, ["libnppicc.so.13", "nvidia-npp"]),
    "x86-library": (put_an_x86_library, ["libavcodec", "x86_64"]),
    "cpu-torch": (make_torch_a_cpu_build, ["CPU build"]),
    "another-clip": (damage_the_clip, ["expected 61 frames, but decoded 60"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_verify_says_the_one_thing_that_is_wrong(copy_of_staged, play, fault):
    plant, words = FAULTS[fault]
    plant(copy_of_staged)
    played = play("verify", copy_of_staged)
    assert played.status != 0
    errors = [line for line in played.text.splitlines() if line.startswith("[ERROR]")]
    assert len(errors) == 1, played.text
    said = played.text[played.text.index("[ERROR]") : played.text.index("PLAY RECAP")]
    assert all(word in said for word in words), said
    assert "hint:" in said


def test_verify_names_libpython_where_the_node_has_none(staged, play, node):
    root, _played = staged
    library = "/usr/lib/aarch64-linux-gnu/libpython3.13.so.1.0"
    nodes.execute(node, ["mv", library, "/var/tmp/"])
    try:
        played = play("verify", root)
    finally:
        nodes.execute(node, ["mv", f"/var/tmp/{Path(library).name}", library])
    assert played.status != 0
    said = played.text[played.text.index("[ERROR]") : played.text.index("PLAY RECAP")]
    assert "libpython3.13.so.1.0" in said
    assert "hint:" in said


def test_verify_on_an_empty_root_says_what_to_type(play, shared):
    played = play("verify", shared / "nothing" / ".local")
    assert played.status != 0
    assert "envs/cu130` is not staged" in played.text
    assert "./armstage stage" in played.text
