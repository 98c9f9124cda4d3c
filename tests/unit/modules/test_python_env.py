"""python_env through its main(), with the real uv: small wheels from a folder or from a local index."""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
import python_env
from ansible.module_utils.armstage.staging.publish import read_manifest

ROOT = Path(__file__).resolve().parents[3]
UV = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
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


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A folder of wheels: torch for CUDA 13.0, which needs tool."""
    folder = tmp_path_factory.mktemp("wheels")
    torch(folder)
    tool(folder)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A uv cache for the whole file."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "a root"


@pytest.fixture(autouse=True)
def no_retries(monkeypatch):
    """uv asks an address that is down once; and this host's own settings don't matter."""
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")


@pytest.fixture
def run(run_module, root, cache, wheels):
    """Run the module on ``root`` with torch from the folder of wheels, if not told otherwise."""

    def call(check=False, diff=False, **options):
        arguments = {
            "dest": str(root),
            "tag": "cu130",
            "requirements": ["torch==2.11.0"],
            "python": "/usr/bin/python3.13",
            "mirror": str(wheels),
            "cache_dir": str(cache),
            "uv": UV,
            **options,
        }
        given = {name: value for name, value in arguments.items() if value is not None}
        return run_module(python_env, check=check, diff=diff, **given)

    return call


def snapshot(folder):
    """Every path below a folder with what tells a write: times, size, mode, target."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files, "."]:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            target = os.readlink(path) if os.path.islink(path) else ""
            found[path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode, target)
    return found


def env(root, tag="cu130"):
    return root / "envs" / tag


def site(root, python="3.13"):
    return env(root) / f"lib/python{python}/site-packages"


def store(root):
    return sorted(name for name in os.listdir(root / "store") if not name.startswith("."))


# What is staged


def test_an_environment_is_staged(run, root):
    result = run()
    release = result["release"]
    assert result["changed"]
    assert result["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    assert release["elf"] == {"aarch64": 1, "cuda": 1}
    assert (release["name"], release["version"]) == ("env-cu130", "2.11.0")
    assert release["source"]["kind"] == "mirror"
    assert (
        release["source"]["sha256"] == hashlib.sha256((env(root) / "share/armstage/lock.txt").read_bytes()).hexdigest()
    )
    assert release["path"] == str(root / "store" / f"env-cu130-2.11.0-{release['digest'][:12]}")
    assert os.readlink(env(root)) == f"../store/{Path(release['path']).name}"
    assert result["actions"] == [
        f"publish store/{Path(release['path']).name} from mirror",
        f"point envs/cu130 to ../store/{Path(release['path']).name}",
    ]
    assert result["origins"] == {"folder": 2}
    assert (result["drift"], result["unhashed"], result["skipped_sources"], result["library_dirs"]) == ("", [], [], [])
    entry = read_manifest(root)["releases"][0]
    assert entry["extra"]["installed"] == result["installed"]
    assert entry["extra"]["builds"] == {"torch": "cu130"}
    assert read_manifest(root)["links"] == {"envs/cu130": os.readlink(env(root))}


def test_the_layout_is_that_of_an_environment_of_the_target(run, root):
    run()
    assert sorted(os.listdir(env(root))) == [
        ".armstage.json", "bin", "include", "lib", "lib64", "pyvenv.cfg", "share",
    ]  # fmt: skip
    assert sorted(os.listdir(env(root) / "bin")) == ["plain", "python", "python3", "python3.13", "shell", "tool"]
    assert os.readlink(env(root) / "bin/python") == "/usr/bin/python3.13"
    assert os.listdir(env(root) / "lib") == ["python3.13"]
    assert (env(root) / "share/man/man1/tool.1").read_text() == "man"
    assert (env(root) / "include/site/python3.13/tool/tool.h").read_text() == "header"
    assert (env(root) / "share/armstage/requirements.txt").read_text() == "torch==2.11.0\n"
    assert (env(root) / "share/armstage/library_dirs").read_text() == ""
    assert (env(root) / "pyvenv.cfg").read_text() == (
        "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.13\n"
    )


def test_nothing_in_an_environment_names_the_folder_that_it_was_made_in(run, root):
    run()
    for path in env(root).rglob("*"):
        if path.is_file() and path.name != ".armstage.json":
            assert b".partial" not in path.read_bytes(), path


def test_each_record_is_true(run, root):
    run()
    for record in site(root).glob("*.dist-info/RECORD"):
        for line in record.read_text().splitlines():
            name, digest, size = line.rsplit(",", 2)
            content = (site(root) / name).read_bytes()
            if digest:
                assert size == str(len(content)), name
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={expected}", name


def test_scripts_run_after_the_rename_and_uninstalling_is_complete(run, root, tmp_path):
    """This host's Python stands for the target's, so that what was staged can be run."""
    real = os.path.realpath(sys.executable)
    run(python=real, python_version=HERE, requirements=["tool"], python_platform="x86_64-manylinux_2_28")
    (tmp_path / "link to tool").symlink_to(env(root) / "bin/tool")
    for script in (env(root) / "bin/tool", env(root) / "bin/plain", tmp_path / "link to tool"):
        assert subprocess.run([script, "x y"], capture_output=True, text=True, check=True).stdout == "tool ['x y']\n"
    assert subprocess.run([env(root) / "bin/shell"], capture_output=True, text=True, check=True).stdout == "shell\n"
    subprocess.run(
        [UV, "pip", "uninstall", "--python", env(root) / "bin/python", "tool"], check=True, capture_output=True
    )
    left = {path.name for path in env(root).rglob("*") if path.is_file() and not path.is_symlink()}
    assert left - {".armstage.json", "pyvenv.cfg", "lock.txt", "requirements.txt", "library_dirs", ".lock"} == set()


def test_everyone_may_read_it_whatever_the_umask(run, root, tmp_path):
    before = os.umask(0o077)
    try:
        run(cache_dir=str(tmp_path / "own cache"))
    finally:
        os.umask(before)
    for path in [root / "store", *env(root).resolve().rglob("*")]:
        if not path.is_symlink():
            assert path.stat().st_mode & 0o044 == 0o044, path
            assert not path.is_dir() or path.stat().st_mode & 0o055 == 0o055, path


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no second filesystem here")
def test_the_cache_may_lie_on_another_filesystem(run, root, tmp_path):
    cache = Path("/dev/shm") / f"armstage-test-{os.getpid()}"
    try:
        assert os.stat("/dev/shm").st_dev != os.stat(tmp_path).st_dev
        assert run(cache_dir=str(cache))["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    assert (site(root) / "torch/lib/libtorch.so").stat().st_nlink == 1


def test_files_are_linked_from_the_cache_of_the_same_filesystem_and_never_written_to(run, root, cache):
    run()
    linked = site(root) / "torch/lib/libtorch.so"
    assert linked.stat().st_nlink > 1
    assert {path.read_text() for path in cache.rglob("scripts/plain")} == {SCRIPT}


def test_bytecode_is_compiled_on_wish_and_does_not_look_at_its_source(run, root):
    real = os.path.realpath(sys.executable)
    options = {
        "python": real,
        "python_version": HERE,
        "requirements": ["tool"],
        "python_platform": "x86_64-manylinux_2_28",
        "compile_python": "auto",
    }
    run(**options)
    compiled = list(env(root).rglob("tool.*.pyc"))
    assert [path.read_bytes()[4:8] for path in compiled] == [b"\x01\0\0\0"]
    assert not run(**options)["changed"]


# The second run


def test_a_second_run_writes_nothing_and_needs_neither_uv_nor_wheels(run, root):
    first = run()
    before = snapshot(root)
    result = run(uv="/no/such/uv", mirror="/no/such/wheels", cache_dir="/no/such/cache")
    assert (result["changed"], result["actions"]) == (False, [])
    assert snapshot(root) == before
    keep = ("name", "version", "path", "digest", "source", "size", "files", "elf", "link")
    assert {key: result["release"][key] for key in keep} == {key: first["release"][key] for key in keep}
    assert result["installed"] == first["installed"]
    assert result["diff"]["before"] == result["diff"]["after"] == first["diff"]["after"]


def test_bytecode_that_python_leaves_behind_is_no_change(run, root):
    run()
    (site(root) / "torch/__pycache__").mkdir()
    (site(root) / "torch/__pycache__/version.cpython-313.pyc").write_bytes(b"x")
    assert not run()["changed"]


def test_check_mode_predicts_what_a_run_does_and_writes_nothing(run, root):
    predicted = run(check=True, diff=True)
    assert not root.exists()
    done = run(diff=True)
    assert predicted["changed"]
    assert predicted["actions"] == done["actions"]
    assert predicted["diff"] == done["diff"]
    assert predicted["release"]["path"] == done["release"]["path"]
    assert done["diff"]["before"] == ""
    assert "envs/cu130 -> ../store/env-cu130-2.11.0-" in done["diff"]["after"]
    assert not run(check=True)["changed"]


def test_check_mode_needs_no_uv(run, root):
    assert run(check=True, uv="/no/such/uv")["changed"]
    assert not root.exists()


def test_another_requirement_stages_beside_and_the_old_one_is_there_to_go_back_to(run, root):
    first = run()
    second = run(requirements=["torch==2.11.0", "tool"])
    assert second["release"]["path"] != first["release"]["path"]
    assert len(store(root)) == 2
    before = snapshot(root / "store")
    back = run(uv="/no/such/uv")
    assert back["actions"] == [f"point envs/cu130 to ../store/{Path(first['release']['path']).name}"]
    assert {path: seen for path, seen in snapshot(root / "store").items() if "/env-" in path} == {
        path: seen for path, seen in before.items() if "/env-" in path
    }


def grow_older(root):
    """Let every release have been made a day before."""
    for record in (root / "store").glob("*/.armstage.json"):
        content = json.loads(record.read_text())
        content["created"] = f"2001-01-{int(content['created'][8:10]) - 1:02}T00:00:00Z"
        record.write_text(json.dumps(content))


def test_old_environments_of_the_same_tag_go_and_those_of_another_stay(run, root):
    other = run(tag="other")["release"]["path"]
    paths = []
    for requirements in (["torch"], ["torch", "tool"], ["torch==2.11.0"]):
        last = run(requirements=requirements, keep=1)
        paths.append(last["release"]["path"])
        grow_older(root)
    assert last["actions"][-1] == f"remove store/{Path(paths[0]).name}"
    assert store(root) == sorted(Path(path).name for path in (other, *paths[1:]))
    assert run(keep=0)["actions"][0] == f"remove store/{Path(paths[1]).name}"
    assert store(root) == sorted(Path(path).name for path in (other, paths[2]))


# Drift


def replace_torch(root):
    """What pip does that installs another torch over the one that is there."""
    shutil.rmtree(site(root) / "torch-2.11.0.dist-info")
    info = site(root) / "torch-2.10.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.10.0\n")


def add_package(root):
    info = site(root) / "tqdm-4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tqdm\nVersion: 4\n")


def cut_short(root):
    path = site(root) / "torch/version.py"
    path.unlink()
    path.write_text("")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (replace_torch, "torch was 2.11.0 and is 2.10.0"),
        (add_package, "tqdm was absent and is 4"),
        (cut_short, "bytes when it was published"),
        (lambda root: (site(root) / "torch/lib/libtorch.so").unlink(), "files with"),
        (lambda root: shutil.rmtree(site(root)), "Failed to list"),
        (lambda root: shutil.rmtree(site(root) / "tool-1.0.dist-info"), "tool was 1.0 and is absent"),
        (lambda root: (env(root) / "bin/python").unlink(), "files with"),
    ],
)
def test_what_was_changed_in_place_is_rebuilt_beside_it(run, root, change, words):
    first = run()
    change(root)
    predicted = run(check=True)
    result = run()
    assert result["changed"]
    assert words in result["drift"]
    assert predicted["actions"] == result["actions"]
    assert result["actions"][0].startswith(f"replace ../store/{Path(first['release']['path']).name}: ")
    assert result["release"]["path"] != first["release"]["path"]
    assert Path(first["release"]["path"]).exists()
    assert env(root).resolve() == Path(result["release"]["path"]).resolve()
    assert not run()["changed"]


@pytest.mark.parametrize("lost", ["link", "manifest"])
def test_what_lies_beside_an_environment_is_put_right_without_uv(run, root, lost):
    run()
    (env(root) if lost == "link" else root / "manifest.json").unlink()
    assert run(uv="/no/such/uv")["changed"]
    assert not run()["changed"]


def test_a_folder_where_the_link_belongs_is_not_touched(run, root):
    (root / "envs/cu130").mkdir(parents=True)
    result = run(check=True)
    assert result["msg"] == f"Expected a symbolic link or nothing at `{root}/envs/cu130`, but found a file or folder"
    assert run()["msg"] == result["msg"]
    assert os.listdir(root) == ["envs"]


def test_an_environment_is_removed(run, root):
    run()
    run(tag="other")
    predicted = run(state="absent", check=True, python=None, requirements=None)
    result = run(state="absent", python=None, requirements=None)
    assert result["actions"] == predicted["actions"] != []
    assert os.listdir(root / "envs") == ["other"]
    assert [name.startswith("env-other-") for name in store(root)] == [True]
    assert not run(state="absent", python=None, requirements=None)["changed"]


# What is refused


def nothing_published(root):
    return not (root / "envs").exists() and os.listdir(root / "store") == []


@pytest.mark.parametrize("build", ["cpu", "cu128", "cu129"])
def test_a_torch_of_another_build_is_refused(run, root, tmp_path, build):
    torch(tmp_path, build=build, requires=())
    result = run(mirror=str(tmp_path))
    assert result["msg"] == f"Wrong wheel: +{build}: torch 2.11.0 is built for `{build}`, expected `cu130`"
    assert result["hint"]
    assert nothing_published(root)


def test_a_mixture_of_builds_is_refused(run, root, tmp_path):
    torch(tmp_path, requires=())
    wheel(tmp_path, "torchvision", "0.26.0", {"torchvision/version.py": "__version__ = '0.26.0+cu129'\n"}, LINUX)
    result = run(mirror=str(tmp_path), requirements=["torch", "torchvision"])
    assert result["msg"] == "Wrong wheels: torch is built for `cu130`, but torchvision 0.26.0 for `cu129`"
    assert nothing_published(root)


def test_the_placeholder_of_torchcodec_is_refused(run, root, tmp_path):
    torch(tmp_path, requires=())
    wheel(tmp_path, "torchcodec", "0.0.0", {"torchcodec/__init__.py": ""})
    result = run(mirror=str(tmp_path), requirements=["torch", "torchcodec"])
    assert result["msg"].startswith("torchcodec 0.0.0 is an empty placeholder")
    assert nothing_published(root)


def test_a_library_of_another_machine_is_refused_by_name(run, root, tmp_path):
    torch(tmp_path, machine=X86_64, requires=())
    result = run(mirror=str(tmp_path))
    assert result["msg"] == "`lib/python3.13/site-packages/torch/lib/libtorch.so` is for x86_64, expected aarch64"
    assert nothing_published(root)


def test_a_wheel_of_another_platform_is_refused_and_an_environment_in_use_stays(run, root, tmp_path):
    first = run()
    wheel(tmp_path, "torch", "2.12.0", {}, "cp313-cp313-manylinux_2_28_x86_64")
    result = run(mirror=str(tmp_path), requirements=["torch==2.12.0"])
    assert result["msg"] == (
        f"There is no wheel of `torch==2.12.0` for Python 3.13 on `aarch64-manylinux_2_28` in the mirror `{tmp_path}`"
    )
    assert "manylinux_2_28_x86_64" in result["detail"]
    assert store(root) == [Path(first["release"]["path"]).name]
    assert not run()["changed"]


def test_a_source_distribution_is_not_built(run, tmp_path, root):
    (tmp_path / "tool-9.tar.gz").write_bytes(b"")
    result = run(mirror=str(tmp_path), requirements=["tool"])
    assert result["failed"]
    assert nothing_published(root)


# Locks


def digest_of(folder, name):
    return hashlib.sha256(next(folder.glob(f"{name}-*.whl")).read_bytes()).hexdigest()


def lock_text(folder, **changed):
    return "".join(
        f"{name}=={version} \\\n    --hash=sha256:{changed.get(name) or digest_of(folder, name)}\n"
        for name, version in (("torch", "2.11.0"), ("tool", "1.0"))
    )


def test_a_lock_is_installed_as_it_is(run, root, wheels):
    lock = lock_text(wheels)
    result = run(lock=lock)
    assert result["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    assert (env(root) / "share/armstage/lock.txt").read_text() == lock
    assert result["release"]["source"]["sha256"] == hashlib.sha256(lock.encode()).hexdigest()


def test_what_was_resolved_is_a_lock_that_serves_again(run, root, wheels, tmp_path):
    run()
    lock = (env(root) / "share/armstage/lock.txt").read_text()
    assert [line for line in lock.splitlines() if not line.startswith("#")] == [
        f"tool==1.0 --hash=sha256:{digest_of(wheels, 'tool')}",
        f"torch==2.11.0 --hash=sha256:{digest_of(wheels, 'torch')}",
    ]
    assert run(dest=str(tmp_path / "other"), lock=lock)["installed"] == {"torch": "2.11.0", "tool": "1.0"}


def test_a_wheel_of_another_digest_is_refused(run, root, wheels):
    result = run(lock=lock_text(wheels, torch="0" * 64))
    assert result["msg"] == (
        f"The wheel of `torch==2.11.0` has the sha256 `{digest_of(wheels, 'torch')}`, expected `{'0' * 64}`"
    )
    assert nothing_published(root)


def test_a_lock_that_lacks_something_is_refused(run, root, wheels):
    result = run(lock=f"torch==2.11.0 --hash=sha256:{digest_of(wheels, 'torch')}\n")
    assert result["msg"].startswith("The lock is not complete: ")
    assert "`tool`" in result["msg"]
    assert nothing_published(root)


def test_a_lock_of_other_requirements_is_refused_before_uv_runs(run, wheels):
    result = run(lock=lock_text(wheels), requirements=["torch==2.12.0"], uv="/no/such/uv")
    assert result["msg"] == "Found the requirement `torch==2.12.0`, but the lock holds `torch==2.11.0`"


def test_digests_in_constraints_are_verified(run, root, wheels):
    known = f"tool==1.0 --hash=sha256:{digest_of(wheels, 'tool')}\nunused==3 --hash=sha256:{'1' * 64}\n"
    assert run(constraints=known)["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    assert (env(root) / "share/armstage/constraints.txt").read_text() == known
    changed = run(constraints=known.replace(digest_of(wheels, "tool"), "0" * 64))
    assert changed["msg"].startswith("The wheel of `tool==1.0` has the sha256 `")
    assert changed["msg"].endswith("`, which is none of those that the constraints hold")


def test_constraints_limit_what_is_chosen(run, wheels):
    assert run(constraints="tool<1\n")["msg"] == (
        f"There is only `tool==1.0` in the mirror `{wheels}`, but `tool<1` is required"
    )


UNHASHED = """\
import os, sys
if sys.argv[2] == "compile":
    print('lock-version = "1.0"\\n')
    for name, version in (("tool", "1.0"), ("torch", "2.11.0")):
        print(f'[[packages]]\\nname = "{name}"\\nversion = "{version}"')
        print('wheels = [{ url = "https://x.test", hashes = {} }]\\n')
else:
    os.execv(%r, sys.argv)
"""


def program(path, body):
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return str(path)


def test_wheels_without_a_digest_are_said(run, root, wheels, tmp_path):
    """uv 0.10.0 gives none for an index that has none; newer ones compute it."""
    uv = program(tmp_path / "uv", UNHASHED % UV)
    assert run(uv=uv)["unhashed"] == ["tool", "torch"]
    known = f"tool==1.0 --hash=sha256:{digest_of(wheels, 'tool')}\n"
    assert run(uv=uv, constraints=known)["unhashed"] == ["torch"]
    assert (
        f"tool==1.0 --hash=sha256:{digest_of(wheels, 'tool')}\n" in (env(root) / "share/armstage/lock.txt").read_text()
    )
    assert "has the sha256" in run(uv=uv, constraints=known.replace(digest_of(wheels, "tool"), "0" * 64))["msg"]


# Indexes


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A server of simple indexes: `/NAME/` lists the wheels of the folder NAME. Yields (address, folder)."""
    folder = tmp_path_factory.mktemp("indexes")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_arguments):
            pass

        def send_head(self):
            parts = self.path.strip("/").split("/")
            if len(parts) != 2 or parts[1].endswith(".whl"):
                return super().send_head()
            found = [path for path in (folder / parts[0]).glob("*.whl") if name_of(path) == parts[1]]
            if not found:
                return self.send_error(404)
            links = "".join(
                f'<a href="/{parts[0]}/{path.name}#sha256={digest(path)}">{path.name}</a>\n' for path in found
            )
            page = f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            return io.BytesIO(page)

    def name_of(path):
        return re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower()

    def digest(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


@pytest.fixture
def two_indexes(index, monkeypatch):
    """A PyTorch index with an old tool, and a default index with a new one and a CPU build of torch."""
    address, folder = index
    if not folder.joinpath("whl").exists():
        (folder / "whl").mkdir()
        (folder / "pypi").mkdir()
        torch(folder / "whl", requires=("tool",))
        tool(folder / "whl", "0.9")
        torch(folder / "pypi", build="cpu", version="2.10.0", requires=())
        tool(folder / "pypi", "1.0")
        tool(folder / "pypi", "2.0")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/pypi")
    return address


def test_the_index_comes_first_and_the_default_index_has_what_it_lacks(run, root, two_indexes):
    result = run(mirror=None, index_url=f"{two_indexes}/whl", requirements=["torch", "tool>=1,<2"])
    assert result["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    assert result["release"]["source"]["url"] == f"{two_indexes}/whl"
    lock = (env(root) / "share/armstage/lock.txt").read_text().splitlines()
    assert lock[0] == f"# {two_indexes}/pypi/tool-1.0-py3-none-any.whl"
    assert result["origins"] == {two_indexes.partition("//")[2]: 2}
    assert lock[2] == f"# {two_indexes}/whl/torch-2.11.0-{LINUX}.whl"


def test_what_the_index_has_is_taken_from_it_though_the_default_index_has_a_newer_one(run, two_indexes):
    result = run(mirror=None, index_url=f"{two_indexes}/whl", requirements=["torch"])
    assert result["installed"] == {"torch": "2.11.0", "tool": "0.9"}


def test_a_mirror_that_is_an_index_replaces_the_others(run, two_indexes, monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:1/simple")
    result = run(mirror=f"{two_indexes}/whl", index_url="http://127.0.0.1:1/whl")
    assert result["installed"] == {"torch": "2.11.0", "tool": "0.9"}


def test_settings_that_would_change_the_outcome_are_not_seen(run, tmp_path, monkeypatch):
    torch(tmp_path, build="cpu", version="2.11.0.post1", requires=())
    for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("UV_TORCH_BACKEND", "cpu")
    monkeypatch.setenv("UV_EXCLUDE_NEWER", "2001-01-01")
    monkeypatch.setenv("UV_CONSTRAINT", "/no/such/file")
    assert run(requirements=["torch>=2.11"])["installed"] == {"torch": "2.11.0", "tool": "1.0"}


DOWN = "http://127.0.0.1:1/whl"


def test_the_first_source_that_answers_is_used_and_the_others_are_said(run, two_indexes):
    sources = [
        {"kind": "mirror", "index_url": f"{two_indexes}/known-down"},
        {"kind": "upstream", "index_url": DOWN},
        {"kind": "pypi", "index_url": f"{two_indexes}/whl"},
    ]
    result = run(mirror=None, sources=sources, unreachable={f"{two_indexes}/known-down": "no answer within 5 s"})
    assert result["installed"]["torch"] == "2.11.0"
    assert result["release"]["source"]["kind"] == "pypi"
    assert [(item["kind"], item["url"]) for item in result["skipped_sources"]] == [
        ("mirror", f"{two_indexes}/known-down"),
        ("upstream", DOWN),
    ]
    assert result["skipped_sources"][0]["reason"] == "no answer within 5 s"
    assert "Connection refused" in result["skipped_sources"][1]["reason"]
    assert result["actions"][0] == f"skip mirror `{two_indexes}/known-down`: no answer within 5 s"
    back = run(mirror=None, sources=sources, uv="/no/such/uv")
    assert (back["changed"], back["skipped_sources"]) == (False, [])


def test_an_index_that_is_down_is_named(run, root):
    result = run(mirror=None, index_url=DOWN)
    assert result["msg"] == f"`{DOWN}/torch/` can't be reached: Connection refused (os error 111)"
    assert nothing_published(root)


def test_without_network_what_is_missing_is_named(run, root, tmp_path, two_indexes):
    options = {"mirror": None, "index_url": f"{two_indexes}/whl", "offline": True, "cache_dir": str(tmp_path / "cache")}
    assert run(**options)["msg"] == "`torch` is not in uv's cache, and the network is off"
    assert nothing_published(root)
    run(**{**options, "offline": False, "dest": str(tmp_path / "other")})
    assert run(**options)["installed"]["torch"] == "2.11.0"


# Interruptions


WAITING = """\
import os, sys, time
if sys.argv[2] == %(step)r:
    open(%(mark)r + ".new", "w").write(str(os.getpid()))
    os.rename(%(mark)r + ".new", %(mark)r)
    time.sleep(60)
os.execv(%(uv)r, sys.argv)
"""


AS_A_PROCESS = """\
import json, sys
import ansible.module_utils
from ansible.module_utils.testing import patch_module_args
ansible.module_utils.__path__.append(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import python_env
with open(sys.argv[3]) as file, patch_module_args(json.load(file)):
    python_env.main()
"""


def module_process(tmp_path, options):
    arguments = tmp_path / "arguments.json"
    arguments.write_text(json.dumps(options))
    return subprocess.Popen(
        [sys.executable, "-c", AS_A_PROCESS, str(ROOT / "module_utils"), str(ROOT / "library"), str(arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(path, seconds=20):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)


@pytest.mark.parametrize("step", ["compile", "install"])
def test_after_a_kill_the_next_run_finishes(run, root, tmp_path, wheels, cache, step):
    mark = tmp_path / "started"
    options = {
        "dest": str(root),
        "tag": "cu130",
        "requirements": ["torch==2.11.0"],
        "python": "/usr/bin/python3.13",
        "mirror": str(wheels),
        "cache_dir": str(cache),
        "uv": program(tmp_path / "uv", WAITING % {"step": step, "mark": str(mark), "uv": UV}),
    }
    module = module_process(tmp_path, options)
    wait_for(mark)
    module.send_signal(signal.SIGKILL)
    module.wait()
    assert [name for name in os.listdir(root / "store") if name.startswith(".partial-env-cu130-")]
    assert not (root / "envs").exists()
    assert run()["changed"]
    assert all(name.startswith("env-cu130-") for name in os.listdir(root / "store"))
    assert not run()["changed"]
    os.kill(int(mark.read_text()), signal.SIGKILL)


def test_uv_that_is_killed_is_said(run, root, tmp_path):
    uv = program(tmp_path / "uv", "import os\nos.kill(os.getpid(), 9)\n")
    assert run(uv=uv)["msg"] == "uv was ended by signal 9"
    assert nothing_published(root)


def test_uv_that_does_not_end_is_ended_and_was_watched_until_then(run, root, wheels, tmp_path):
    """The progress file is gone afterwards: a folder that is watched shows that it was there."""
    mark, progress = tmp_path / "started", tmp_path / "progress"
    uv = program(tmp_path / "uv", WAITING % {"step": "install", "mark": str(mark), "uv": UV})
    seen = []

    def watch():
        while not seen:
            with contextlib.suppress(FileNotFoundError):
                seen.append(progress.read_text())
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    result = run(uv=uv, timeout=1.5, progress=str(progress), expected_size=4096)
    watcher.join()
    assert result["msg"] == f"uv had not finished after 2 s; it was fetching from the mirror `{wheels}`"
    assert re.fullmatch(r"\d+ 4096 env-cu130, resolving\n", seen[0])
    assert not progress.exists()
    assert nothing_published(root)
    assert not Path("/proc", mark.read_text()).exists()


def test_two_runs_at_once_stage_once(root, tmp_path, wheels, cache, run):
    options = {
        "dest": str(root),
        "tag": "cu130",
        "requirements": ["torch==2.11.0"],
        "python": "/usr/bin/python3.13",
        "mirror": str(wheels),
        "cache_dir": str(cache),
        "uv": UV,
    }
    modules = []
    for number in ("one", "two"):
        (tmp_path / number).mkdir()
        modules.append(module_process(tmp_path / number, options))
    results = [json.loads(module.communicate(timeout=60)[0]) for module in modules]
    assert [result.get("msg") for result in results] == [None, None]
    assert len(store(root)) == 1
    assert not run()["changed"]
