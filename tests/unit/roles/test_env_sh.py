"""env.sh in bash, dash and zsh: what it sets, what it refuses, and that a second sourcing changes nothing."""

import shlex
import shutil
import subprocess
from pathlib import Path

import jinja2
import pytest
import yaml

TEMPLATES = Path(__file__).resolve().parents[3] / "roles" / "job_env" / "templates"
SHELLS = [shell for shell in ("bash", "dash", "zsh") if shutil.which(shell)]
COMPATIBILITY = yaml.safe_load((TEMPLATES.parents[2] / "vars" / "compatibility.yml").read_text())
DRIVERS = COMPATIBILITY["armstage_compatibility"]["driver_cuda"]


class Root:
    """A staged root in outline, on a host whose `uname -m` and driver are given."""

    def __init__(self, path, assumed="", forced=""):
        self.path = path / "work dir" / ".local"
        self.system = path / "system"
        self.tools = path / "tools"
        for folder in (self.path / "cache", self.system, self.tools):
            folder.mkdir(parents=True)
        environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
        environment.filters["quote"] = shlex.quote
        data = {
            "ansible_managed": "Ansible managed",
            "job_env_root": str(self.path),
            "job_env_drivers": DRIVERS,
            "job_env_assumed_cuda": assumed,
            "job_env_index": forced,
            "job_env_sbatch": {},
        }
        for name in ("env.sh", "sbatch-prologue.sh", "job.sbatch"):
            text = environment.from_string((TEMPLATES / f"{name}.j2").read_text()).render(data)
            (self.path / name).write_text(text)
        self.machine("aarch64")

    def machine(self, name):
        uname = self.tools / "uname"
        uname.write_text(f'#!/bin/sh\n[ "$1" = -n ] && echo gb01 || echo {name}\n')
        uname.chmod(0o755)

    def stage(self, tag, library_dirs=()):
        folder = self.path / "envs" / tag
        (folder / "share/armstage").mkdir(parents=True)
        (folder / "pyvenv.cfg").write_text("")
        (folder / "share/armstage/library_dirs").write_text("".join(f"{line}\n" for line in library_dirs))

    def driver(self, version):
        file = self.system / "sys/module/nvidia/version"
        file.parent.mkdir(parents=True)
        file.write_text(version + "\n")

    def run(self, shell, script, **variables):
        environment = {
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "HOME": str(self.tools),
            "ARMSTAGE_SYSTEM_ROOT": str(self.system),
        }
        command = f". {shlex.quote(str(self.path))}/env.sh\n{script}"
        return subprocess.run(
            [
                shell,
                "-c",
                script.replace("SOURCE", f". {shlex.quote(str(self.path))}/env.sh") if "SOURCE" in script else command,
            ],
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def root(tmp_path):
    return Root(tmp_path)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("driver", "chosen"),
    [
        ("570.172.08", "cu128"),
        ("575.57.08", "cu128"),
        ("580.95.05", "cu130"),
        ("590.48.01", "cu130"),
        ("595.71.05", "cu132"),
        ("615.71.09", "cu132"),
        ("560.35.05", "cu126"),
    ],
)
def test_the_newest_environment_that_the_driver_supports_is_chosen(root, shell, driver, chosen):
    for tag in ("cu126", "cu128", "cu130", "cu132"):
        root.stage(tag)
    root.driver(driver)
    done = root.run(shell, 'echo "$ARMSTAGE_INDEX $ARMSTAGE_ENV"')
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == f"{chosen} {root.path}/envs/{chosen}"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_driver_is_also_read_from_proc(root, shell):
    root.stage("cu130")
    root.stage("cu128")
    file = root.system / "proc/driver/nvidia/version"
    file.parent.mkdir(parents=True)
    file.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.133.20  Release Build  (dvs-builder@U22)\n"
        "GCC version:  gcc version 580.0.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
    )
    assert root.run(shell, 'echo "$ARMSTAGE_INDEX"').stdout.strip() == "cu128"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "line",
    [
        "NVIDIA UNIX Open Kernel Module for aarch64  570.133.20  Release Build  (root@192.168.130.25)  Thu Feb 19 2026",
        "NVIDIA UNIX Open Kernel Module for aarch64  570.133.20  Release Build  (builder@node-617.615.71)",
        "NVIDIA UNIX aarch64 Kernel Module  570.133.20  Fri Sep 13 11:01:10 UTC 2024",
        "NVIDIA UNIX Open Kernel Module for aarch64  570.133.20",
    ],
)
def test_who_built_the_driver_does_not_matter(root, shell, line):
    root.stage("cu130")
    root.stage("cu128")
    file = root.system / "proc/driver/nvidia/version"
    file.parent.mkdir(parents=True)
    file.write_text(f"NVRM version: {line}\n")
    assert root.run(shell, 'echo "$ARMSTAGE_INDEX"').stdout.strip() == "cu128"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_version_without_a_line_end_is_one(root, shell):
    root.stage("cu130")
    root.driver("580.95.05")
    (root.system / "sys/module/nvidia/version").write_text("580.95.05")
    assert root.run(shell, 'echo "$ARMSTAGE_INDEX"').stdout.strip() == "cu130"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("options", ["", "set -eu; "])
def test_an_environment_of_another_name_is_not_chosen_and_not_stumbled_over(root, shell, options):
    """python_env takes any tag: its owner names that environment, env.sh does not guess what it runs on."""
    for tag in ("cu130-test", "cu13.0", "cu9", "cu128"):
        root.stage(tag)
    root.driver("580.95.05")
    done = root.run(shell, f'{options}SOURCE; echo "$ARMSTAGE_INDEX"')
    assert (done.stdout, done.stderr) == ("cu128\n", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_where_nothing_is_staged_it_is_said_once(root, shell):
    root.driver("580.95.05")
    done = root.run(shell, 'SOURCE; echo "status $?"')
    assert done.stdout == "status 1\n"
    assert [line.partition(" ")[0] for line in done.stderr.splitlines()] == ["armstage:"] * 2


@pytest.mark.parametrize("shell", SHELLS)
def test_a_driver_without_an_environment_is_named_and_the_shell_goes_on(root, shell):
    root.stage("cu130")
    root.driver("570.172.08")
    done = root.run(shell, 'SOURCE; echo "status $?, still here, PATH=$PATH"')
    assert done.stdout.startswith("status 1, still here")
    assert str(root.path) not in done.stdout
    for word in ("gb01", "570.172.08", "12.8", "cu130"):
        assert word in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_that_is_not_aarch64_is_told_so(root, shell):
    root.stage("cu130")
    root.machine("x86_64")
    done = root.run(shell, 'SOURCE; echo "status $?"; echo "${VIRTUAL_ENV-unset}"', VIRTUAL_ENV="/home/u/venv")
    assert done.stdout.split() == ["status", "1", "/home/u/venv"]
    assert "gb01 is x86_64" in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_without_a_driver_the_cuda_is_given_or_the_answer_is_no(root, shell, tmp_path):
    root.stage("cu130")
    refused = root.run(shell, "true")
    assert refused.returncode == 0
    assert "no NVIDIA driver" in refused.stderr
    assert root.run(shell, 'echo "$ARMSTAGE_INDEX"', ARMSTAGE_CUDA_VERSION="13.0").stdout.strip() == "cu130"
    assumed = Root(tmp_path / "assumed", assumed="13.0")
    assumed.stage("cu130")
    assert assumed.run(shell, 'echo "$ARMSTAGE_INDEX"').stdout.strip() == "cu130"


@pytest.mark.parametrize("shell", SHELLS)
def test_what_leaks_from_the_login_node_is_unset(root, shell):
    root.stage("cu130")
    root.driver("580.95.05")
    names = ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")
    script = "; ".join(f'echo "{name}=${{{name}-unset}}"' for name in names)
    done = root.run(shell, script, **dict.fromkeys(names, "/home/u/x86"))
    assert done.stdout.split() == [f"{name}=unset" for name in names]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_library_path_has_ffmpeg_first_and_no_empty_element(root, shell):
    root.stage("cu130", ["lib/python3.12/site-packages/nvidia/cu13/lib"])
    root.driver("580.95.05")
    done = root.run(shell, 'echo "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH=":/opt/a::/opt/b:")
    assert done.stdout.strip().split(":") == [
        f"{root.path}/ffmpeg-linuxarm64/lib",
        f"{root.path}/envs/cu130/lib/python3.12/site-packages/nvidia/cu13/lib",
        "/opt/a",
        "/opt/b",
    ]
    assert root.run(shell, "case $LD_LIBRARY_PATH in *:) echo bad;; esac").stdout == ""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("options", ["", "set -eu; "])
def test_sourcing_twice_changes_nothing(root, shell, options):
    root.stage("cu128", ["lib/python3.12/site-packages/nvidia/cu12/lib"])
    root.driver("570.172.08")
    moving = "BASH _= PPID= RANDOM SECONDS EPOCH SRANDOM LINENO PIPESTATUS OPTIND"
    show = "set | grep -v " + " ".join(
        f"-e ^{name}" for name in [*moving.split(), "TTYIDLE", "ZSH_EXECUTION_STRING", "\\'.\\'="]
    )
    once = root.run(shell, f"{options}SOURCE; {show}")
    twice = root.run(shell, f"{options}SOURCE; SOURCE; {show}")
    assert once.returncode == twice.returncode == 0, twice.stderr
    assert "_armstage" not in once.stdout
    assert once.stdout == twice.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "options", ["IFS=,", "IFS='\n'", "IFS=", "set -f", "set -euf; IFS=:", "set -eu; unset HOME", "cd /proc; set -eu"]
)
def test_the_callers_own_settings_change_nothing_and_are_kept(root, shell, options):
    """A script in `strict mode` sets IFS; job scripts set whatever they like."""
    root.stage("cu130", ["lib/a b/lib"])
    root.driver("580.95.05")
    plain = root.run(shell, 'SOURCE; echo "$ARMSTAGE_INDEX" "$PATH" "$LD_LIBRARY_PATH"')
    done = root.run(shell, f'{options}; before="$-|$IFS"; SOURCE; [ "$before" = "$-|$IFS" ] || echo changed; '
                    'echo "$ARMSTAGE_INDEX" "$PATH" "$LD_LIBRARY_PATH"')  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == plain.stdout
    assert done.stdout.startswith("cu130 ")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("given", "chosen"), [("13.0", "cu130"), ("13", "cu130"), ("13.0.2", "cu130"), ("13.2", "cu132"), ("12", "")]
)
def test_a_cuda_version_in_any_form(root, shell, given, chosen):
    for tag in ("cu128", "cu130", "cu132"):
        root.stage(tag)
    assert root.run(shell, 'echo "$ARMSTAGE_INDEX"', ARMSTAGE_CUDA_VERSION=given).stdout.strip() == chosen


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("given", ["abc", "cu130", "13,0", "-1", ".5", "13.0; echo no"])
def test_what_is_no_cuda_version_is_named(root, shell, given):
    root.stage("cu130")
    done = root.run(shell, 'SOURCE; echo "status $?"', ARMSTAGE_CUDA_VERSION=given)
    assert done.stdout == "status 1\n"
    assert f"expected a CUDA version such as 13.0 in ARMSTAGE_CUDA_VERSION, but found: {given}\n" in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_other_programs_below_the_root_stay_on_the_path(root, shell):
    """Where the root is ~/.local, other installers have folders there too."""
    root.stage("cu130")
    root.driver("580.95.05")
    other = f"{root.path}/share/pnpm:{root.path}/bin-of-mine"
    done = root.run(shell, 'SOURCE; SOURCE; echo "$PATH"; echo "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH=f"{root.path}/lib",
                    PATH=f"{other}:{root.tools}:{root.path}/bin:/usr/bin:/bin")  # fmt: skip
    path, libraries = done.stdout.split("\n")[:2]
    assert path.endswith(f":{other}:{root.tools}:/usr/bin:/bin")
    assert path.split(":").count(f"{root.path}/bin") == 1
    assert libraries == f"{root.path}/ffmpeg-linuxarm64/lib:{root.path}/lib"


@pytest.mark.parametrize("shell", SHELLS)
def test_uv_is_kept_apart_per_architecture(root, shell):
    root.stage("cu130")
    root.driver("580.95.05")
    script = 'echo "$UV_PYTHON_INSTALL_DIR|$UV_PROJECT_ENVIRONMENT|$UV_CACHE_DIR|${UV_LINK_MODE-}"'
    here = root.run(shell, f"cd {shlex.quote(str(root.path))}; SOURCE; {script}")
    assert here.stdout.strip() == f"{root.path}/python|.venv-aarch64|{root.path}/cache/uv-aarch64|"
    elsewhere = root.run(shell, f"cd /proc; SOURCE; {script}")
    assert elsewhere.stdout.strip().endswith("|copy")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_prologue_ends_a_job_without_an_environment(root, shell):
    prologue = shlex.quote(f"{root.path}/sbatch-prologue.sh")
    done = subprocess.run(
        [shell, "-c", f". {prologue}; echo job runs"],
        env={"PATH": f"{root.tools}:/usr/bin:/bin", "HOME": "/"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "job runs" not in done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_a_forced_environment_is_used_whatever_the_driver(tmp_path, shell):
    root = Root(tmp_path, forced="cu128")
    root.stage("cu130")
    root.stage("cu128")
    root.driver("580.95.05")
    assert root.run(shell, 'echo "$ARMSTAGE_INDEX"').stdout.strip() == "cu128"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_job_keeps_its_releases_when_links_move(root, shell):
    """What is staged is reached through links; a job's variables name the releases themselves."""
    for name in ("env-cu130-1", "env-cu130-2", "ffmpeg-1", "ffmpeg-2", "uv-1"):
        (root.path / "store" / name / "bin").mkdir(parents=True)
        (root.path / "store" / name / "pyvenv.cfg").write_text("")
    (root.path / "envs").mkdir()
    (root.path / "envs/cu130").symlink_to("../store/env-cu130-1")
    (root.path / "ffmpeg-linuxarm64").symlink_to("store/ffmpeg-1")
    (root.path / "uv-aarch64").symlink_to("store/uv-1")
    root.driver("580.95.05")
    move = "ln -sfn ../store/env-cu130-2 envs/cu130; ln -sfn store/ffmpeg-2 ffmpeg-linuxarm64"
    show = 'echo "$ARMSTAGE_ENV|$PATH|$LD_LIBRARY_PATH"'
    done = root.run(shell, f'SOURCE; cd "$ARMSTAGE_ROOT"; {move}; {show}; SOURCE; echo "$ARMSTAGE_ENV"')
    before, after = done.stdout.splitlines()
    store = root.path / "store"
    env, path, libraries = before.split("|")
    assert env == f"{store}/env-cu130-1"
    assert path.startswith(f"{store}/env-cu130-1/bin:{store}/uv-1:{root.path}/bin:{store}/ffmpeg-1/bin:")
    assert libraries == f"{store}/ffmpeg-1/lib"
    assert after == f"{store}/env-cu130-2"


def test_a_job_proves_each_environment_at_its_first_use_only(root):
    for number in (1, 2):
        python = root.path / f"store/env-cu130-{number}/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\necho proved {number}\n")
        python.chmod(0o755)
        (python.parents[1] / "pyvenv.cfg").write_text("")
    link = root.path / "envs/cu130"
    link.parent.mkdir()
    root.driver("580.95.05")
    job, said = f"sh {shlex.quote(str(root.path))}/job.sbatch echo ran", []
    for number in (1, 1, 2, 2, 1):
        link.unlink(missing_ok=True)
        link.symlink_to(f"../store/env-cu130-{number}")
        said.append(root.run("sh", f"{job}; SOURCE >/dev/null").stdout.split())
    assert said == [["proved", "1", "ran"], ["ran"], ["proved", "2", "ran"], ["ran"], ["ran"]]


def test_shellcheck_finds_nothing(root):
    checked = subprocess.run(
        [
            "shellcheck",
            "--shell=dash",
            "--severity=warning",
            str(root.path / "env.sh"),
            str(root.path / "sbatch-prologue.sh"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
