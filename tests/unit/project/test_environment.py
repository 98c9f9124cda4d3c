"""An environment made from a lock, on a host of another architecture than the nodes'."""

import json
import shutil
import subprocess
import sys

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.project import environment, note
from ansible.module_utils.armstage.staging.uv import Places
from ansible.module_utils.armstage.staging.venv import interpreter

PYTHON = interpreter("/opt/python/bin/python3.12")
pytestmark = pytest.mark.skipif(environment.os.uname().machine == "aarch64", reason="this host could be a node")


@pytest.fixture
def wanted(project, wheels, uv, tmp_path):
    def make(*override, tag="cu130", **options):
        return environment.Wanted(
            project=project,
            folder=project / ".venv-aarch64",
            python=PYTHON,
            uv=uv,
            tag=tag,
            override=override,
            places=Places(mirror=str(wheels)),
            cache_dir=str(tmp_path / "cache"),
            **options,
        )

    return make


@pytest.fixture
def git(project):
    def run(*arguments):
        argv = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
        return subprocess.run(argv, cwd=project, check=True, capture_output=True, text=True).stdout

    run("init", "-q", ".")
    run("add", "-A")
    run("commit", "-q", "-m", "x")
    return run


def test_an_override_replaces_torch_and_leaves_the_rest_to_the_lock(wanted, project, git):
    shared = wanted("torch==2.11.0")
    before = {path.name: path.read_bytes() for path in project.iterdir() if path.is_file()}
    packages = environment.make(shared, note.text(shared, "because"))
    assert packages == {"nvidia-cudart": "13.0", "other": "1.0", "plain": "1.0", "torch": "2.11.0"}
    assert {path.name: path.read_bytes() for path in project.iterdir() if path.is_file()} == before
    assert git("status", "--porcelain") == ""
    assert sorted(path.name for path in project.iterdir()) == [".git", ".venv-aarch64", "pyproject.toml", "uv.lock"]


def test_the_environment_is_the_nodes(wanted):
    environment.make(wanted("torch==2.11.0"))
    folder = wanted().folder
    assert (folder / "bin/python").readlink().as_posix() == PYTHON.path
    assert "home = /opt/python/bin" in (folder / "pyvenv.cfg").read_text()
    assert (
        (folder / "lib/python3.12/site-packages/torch/version.py")
        .read_text()
        .startswith("__version__ = '2.11.0+cu130'")
    )
    assert (
        not (folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages").exists()
        or sys.version_info.minor == 12
    )


def test_it_is_made_once(wanted, project):
    shared = wanted("torch==2.11.0")
    assert not environment.is_made(shared)
    environment.make(shared)
    assert environment.is_made(shared)
    assert not environment.is_made(wanted("torch==2.10.0"))
    assert not environment.is_made(wanted("torch==2.11.0", selection=("--group=x",)))
    (project / "uv.lock").write_text((project / "uv.lock").read_text() + "\n")
    assert not environment.is_made(shared)


def test_what_uv_sync_did_to_it_is_seen(wanted):
    shared = wanted("torch==2.11.0")
    environment.make(shared)
    site = shared.folder / "lib/python3.12/site-packages"
    (site / "torch-2.11.0.dist-info").rename(site / "torch-2.10.0.dist-info")
    metadata = site / "torch-2.10.0.dist-info/METADATA"
    text = metadata.read_text()
    metadata.unlink()
    metadata.write_text(text.replace("2.11.0", "2.10.0"))
    assert not environment.is_made(shared)
    environment.make(shared)
    assert environment.is_made(shared)


def test_another_build_of_the_same_version_is_seen(wanted):
    shared = wanted("torch==2.11.0")
    environment.make(shared)
    version = shared.folder / "lib/python3.12/site-packages/torch/version.py"
    version.unlink()  # it may be a link into uv's cache
    version.write_text("__version__ = '2.11.0+cpu'\ncuda = None\n")
    assert not environment.is_made(shared)


def test_a_cpu_build_is_not_published(wanted):
    own = wanted()
    with pytest.raises(ArmstageError, match=r"Wrong wheel: \+cpu: torch 2.10.0 is built for `cpu`, expected `cu130`"):
        environment.make(own)
    assert not own.folder.exists()
    assert not own.folder.with_name(".venv-aarch64.partial").exists()


def test_the_environment_in_use_survives_a_failure(wanted):
    environment.make(wanted("torch==2.11.0"))
    broken = wanted("torch==9.9")
    with pytest.raises(ArmstageError, match=r"torch==9\.9"):
        environment.make(broken)
    assert environment.is_made(wanted("torch==2.11.0"))


def test_a_library_of_this_host_is_refused(wanted, monkeypatch):
    def built_here(_wanted, partial):
        original(_wanted, partial)
        shutil.copy(shutil.which("true"), partial / "lib/python3.12/site-packages/ext.so")

    original = environment._cross
    monkeypatch.setattr(environment, "_cross", built_here)
    with pytest.raises(ArmstageError, match=r"site-packages/ext.so` is for x86_64, expected aarch64"):
        environment.make(wanted("torch==2.11.0"))


def test_the_project_itself_is_installed_where_it_is_a_package(wanted, project):
    lock = (project / "uv.lock").read_text()
    (project / "uv.lock").write_text(lock.replace('{ virtual = "." }', '{ editable = "." }'))
    assert environment.local_packages(wanted()) == [str(project)]
    (project / "uv.lock").write_text(lock)
    assert environment.local_packages(wanted()) == []


def test_a_project_without_a_lock_is_refused(wanted, project):
    (project / "uv.lock").unlink()
    with pytest.raises(ArmstageError, match=r"There is no uv\.lock in"):
        environment.is_made(wanted())


def test_a_stale_lock_is_refused(wanted, project):
    text = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(text.replace('"other",', '"other>=2",'))
    with pytest.raises(ArmstageError, match=r"does not go with its pyproject\.toml"):
        environment.make(wanted("torch==2.11.0"))


def test_a_leftover_of_a_killed_run_is_in_no_ones_way(wanted, git):
    partial = wanted().folder.with_name(".venv-aarch64.partial")
    partial.mkdir()
    (partial / "half").write_text("")
    (partial / ".gitignore").write_text("*\n")
    assert git("status", "--porcelain") == ""
    environment.make(wanted("torch==2.11.0"))
    assert not partial.exists()


def test_the_note_says_what_differs_and_why(wanted, project):
    text = note.text(wanted("torch==2.11.0", "nvidia-npp>=13.0"), "PyPI has it")
    assert "| torch | 2.10.0 | 2.11.0 |" in text
    assert "nvidia-npp |" not in text
    assert "cu130 build: PyPI has it." in text
    assert f"./armstage project fix {project} --lock shared" in text
    assert all(f"    {command}\n" in text for command in note.commands(wanted()))
    environment.make(wanted("torch==2.11.0"), text)
    assert (wanted().folder / environment.NOTE).read_text() == text
    assert json.loads((wanted().folder / environment.RECORD).read_text())["made_from"]["override"] == ["torch==2.11.0"]


def test_every_command_that_is_printed_keeps_the_override(wanted):
    for command in note.commands(wanted()):
        assert "uv sync" not in command
        assert "uv run" not in command or "uv run --no-sync" in command


def test_on_an_aarch64_host_it_is_uv_sync_and_then_the_override(wanted):
    assert environment.sync_arguments(wanted("torch==2.11.0", "nvidia-npp>=13.0", selection=("--extra=train",))) == [
        *("sync", "--locked", "--python", PYTHON.path, "--extra=train"),
        *("--no-install-package", "torch"),
    ]
    assert environment.sync_arguments(wanted()) == ["sync", "--locked", "--python", PYTHON.path]


@pytest.mark.parametrize(
    ("pins", "override", "expected"),
    [
        (
            "a==1 \\\n    --hash=sha256:1\nb==1\n",
            "b==2 \\\n    --hash=sha256:2\n",
            "a==1 \\\n    --hash=sha256:1\nb==2 \\\n    --hash=sha256:2\n",
        ),
        ("# c\na_b==1 ; x == 'y'\n", "A-B==2\n", "A-B==2\n"),
        ("", "a==1\n", "a==1\n"),
        ("a==1\n", "", "a==1\n"),
    ],
)
def test_pins_are_replaced_by_name(pins, override, expected):
    assert environment.overridden(pins, override) == expected
