"""A project whose lock holds the CPU torch for aarch64, mended both ways and run in the node."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from lab import inventory, nodes, podman

pytestmark = pytest.mark.arm64

PROJECT = Path(__file__).resolve().parents[2]
PYPROJECT = """\
# A project of x86_64 people.
[project]
name = "demo"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = [
    "torch==2.10.0",  # what the others use
    "tqdm<4.67",
]

[project.scripts]
demo = "demo:main"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""
CODE = "def main():\n    import torch\n\n    print(torch.__version__, torch.version.cuda)\n"


@pytest.fixture(scope="module")
def locked(shared):
    """A project under version control, with the lock that uv makes of it; it is not changed."""
    folder = shared / "locked"
    (folder / "src/demo").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "src/demo/__init__.py").write_text(CODE)
    (folder / ".gitignore").write_text("__pycache__/\n")
    subprocess.run(["uv", "lock", "--quiet", "--python", sys.executable], cwd=folder, check=True)
    assert 'name = "torch"\nversion = "2.10.0"' in (folder / "uv.lock").read_text()
    git(folder, "init", "--quiet", ".")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x")
    return folder


@pytest.fixture
def project(locked):
    folder = locked.with_name("project")
    shutil.copytree(locked, folder, symlinks=True)
    yield folder
    shutil.rmtree(folder)


def git(folder, *arguments):
    argv = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout


def fix(play, root, project, lock, *options):
    variables = {"project_path": str(project), "project_lock": lock}
    return play("project", root, "--extra-vars", json.dumps(variables), *options)


def run_in(node, root, command):
    """A command as a job runs it; its last line."""
    return nodes.execute(node, ["sh", "-c", f". {root}/env.sh && {command}"]).splitlines()[-1]


def printed_commands(played):
    """The commands that the run prints for people: through uv, and without."""
    return re.findall(r'"  (.*\.venv-aarch64.*) \.\.\."', played.text)


MAIN = "-B -c 'import demo; demo.main()'"


def test_with_a_shared_lock_the_project_stays_as_it_is(staged, play, node, project):
    root, _played = staged
    played = fix(play, root, project, "shared")
    assert played.status == 0, played.text
    assert git(project, "status", "--porcelain") == ""
    assert "A3 PASS: torch 2.11.0+cu130 with CUDA 13.0" in played.text
    assert "A5 PASS" in played.text
    through_uv, _python = printed_commands(played)
    assert run_in(node, root, f"cd {project} && {through_uv} {MAIN}") == "2.11.0+cu130 13.0"
    assert "| torch | 2.10.0 | 2.11.0 |" in (project / ".venv-aarch64/share/armstage/README.md").read_text()
    assert git(project, "status", "--porcelain") == ""


def test_with_a_lock_of_its_own_only_aarch64_changes(staged, play, node, project):
    root, _played = staged
    played = fix(play, root, project, "own")
    assert played.status == 0, played.text
    assert "A3 PASS: torch 2.11.0+cu130 with CUDA 13.0" in played.text
    assert git(project, "status", "--porcelain") == " M pyproject.toml\n M uv.lock\n"
    changed = [
        line for line in git(project, "diff", "--unified=0", "pyproject.toml").splitlines() if re.match("[-+] ", line)
    ]
    assert changed == [
        '-    "torch==2.10.0",  # what the others use',
        "+    \"torch==2.10.0; platform_machine != 'aarch64'\",  # what the others use",
        "+    \"torch>=2.11.0,<2.12; platform_machine == 'aarch64'\",",
    ]
    assert re.search(r"uv\.lock, x86_64: all \d+ stay as they are", played.text)
    _through_uv, python = printed_commands(played)
    assert run_in(node, root, f"{python} {MAIN}") == "2.11.0+cu130 13.0"
    again = fix(play, root, project, "own", "--skip-tags", "project_prove")
    assert (again.status, again.changed) == (0, 0), again.text


def fake_wheel(folder, name, version, code=""):
    """A wheel for aarch64 that stands for a big one."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": "from .version import __version__, cuda\n",
        f"{name}/version.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-manylinux_2_28_aarch64\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-manylinux_2_28_aarch64.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


def test_on_an_aarch64_host_it_is_uv_sync_and_an_override(staged, node, shared, tmp_path):
    """The way of a DGX Spark, in the node: its own uv and Python make the environment."""
    root, _played = staged
    folder = shared / "native"
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    fake_wheel(wheels, "torch", "2.10.0", "__version__ = '2.10.0+cpu'\ncuda = None\n")
    fake_wheel(wheels, "torch", "2.11.0", "__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["torch<2.11"]\n'
        f'[tool.uv]\nno-index = true\nfind-links = ["{wheels}"]\n'
    )
    # Two versions of uv write the address of a folder of wheels differently: the one that checks it locks it.
    nodes.execute(node, ["sh", "-c", f"cd {folder} && {root}/bin/uv-aarch64 lock --python /usr/bin/python3.13"])
    lock = (folder / "uv.lock").read_text()
    options = {
        "path": str(folder),
        "python": "/usr/bin/python3.13",
        "tag": "cu130",
        "override": ["torch==2.11.0"],
        "mirror": str(wheels),
        "uv": f"{root}/bin/uv-aarch64",
        "cache_dir": str(folder / "cache"),
    }

    def make():
        inventory.write(tmp_path / "hosts.yml", str(root), [node])
        argv = ["ansible", "-i", str(tmp_path / "hosts.yml"), node, "-m", "project_env", "-a", json.dumps(options)]
        environment = {**os.environ, **podman.environment(), "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")}
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False).stdout

    assert f"{node} | CHANGED" in make()
    show = "python -c 'import torch; print(torch.cuda)'"
    in_project = f"cd {folder} && UV_PROJECT_ENVIRONMENT=.venv-aarch64"
    assert run_in(node, root, f"{in_project} uv run --no-sync {show}") == "13.0"
    assert run_in(node, root, f"{folder}/.venv-aarch64/bin/{show}") == "13.0"
    assert f"{node} | SUCCESS" in make()
    assert (folder / "uv.lock").read_text() == lock
    assert "uv run --no-sync" in (folder / ".venv-aarch64/share/armstage/README.md").read_text()
    undone = run_in(node, root, f"{in_project} UV_PYTHON=/usr/bin/python3.13 uv run --offline {show}")
    assert undone == "None", "without --no-sync the lock's torch is back, which is why it is printed with it"
    assert f"{node} | CHANGED" in make(), "and a run makes it right again"
