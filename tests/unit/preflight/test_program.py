"""`armstage-preflight`: the command line, and the one file it is built into."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.armstage.preflight import bundle, cli

from .hosts import Host

ROOT = Path(__file__).resolve().parents[3]
CLEAN = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program, staged as `<root>/bin/armstage-preflight`."""
    path = tmp_path_factory.mktemp("root") / "bin/armstage-preflight"
    path.parent.mkdir()
    path.write_bytes(bundle.build())
    path.chmod(0o755)
    return path


def run(program, *arguments, environ=(), **options):
    """The program with a Python on PATH that is the first of these folders, or the system's."""
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=120, env={**CLEAN, **dict(environ)}, **options
    )


class TestBuild:
    def test_the_same_sources_make_the_same_bytes(self, tmp_path):
        copy = tmp_path / "elsewhere"
        shutil.copytree(ROOT / "module_utils", copy, ignore=shutil.ignore_patterns("__pycache__"))
        for path in copy.rglob("*"):
            os.utime(path, (1, 1))
        assert bundle.build(copy) == bundle.build()

    def test_another_python_builds_the_same(self):
        others = [path for name in ("python3.9", "python3.12", "python3.13", "python3") if (path := shutil.which(name))]
        code = f"import sys, hashlib; sys.path.insert(0, {str(ROOT / 'module_utils')!r})\n"
        code += "from armstage.preflight import bundle; print(hashlib.sha256(bundle.build()).hexdigest())"
        expected = hashlib.sha256(bundle.build()).hexdigest()
        built = [
            subprocess.run([each, "-B", "-c", code], capture_output=True, text=True, check=False) for each in others
        ]
        assert {done.stdout.strip() for done in built if done.returncode == 0} == {expected}

    def test_it_holds_what_it_imports_and_no_more(self):
        modules = bundle.closure(bundle.PACKAGES)
        assert "armstage.elf.torchcodec" in modules
        assert not [name for name in modules if ".audit" in name or ".slurm" in name or name.endswith(".bundle")]

    def test_the_shell_in_front_is_sound(self, tmp_path):
        (tmp_path / "head.sh").write_text(bundle.HEAD)
        subprocess.run(["sh", "-n", tmp_path / "head.sh"], check=True)


class TestRun:
    def test_lines_verdict_and_status(self, program, tmp_path):
        host = Host(tmp_path).spark("gb10-cache-full")
        done = run(program, "--only", "g3,A1", "--root", host.root, "--nvidia-smi", host.smi)
        lines = done.stdout.splitlines()
        assert [line.split(":")[0] for line in lines[:2]] == ["A1 SKIP", "G3 WARN"]
        assert lines[3:] == [
            "verdict: ready, with warnings",
            "1. G3 unified-memory headroom: Drop it before a program that asks for much: `./armstage drop-cache`",
        ]
        assert (done.returncode, done.stderr) == (1, "")

    @pytest.mark.parametrize(("workload", "status"), [("20GiB", 0), ("45", 1), ("90GiB", 2)])
    def test_exit_status_of_the_verdict(self, program, tmp_path, workload, status):
        host = Host(tmp_path).spark("gb10-cache-full")
        done = run(program, "--only", "G3", "--root", host.root, "--nvidia-smi", host.smi, "--workload", workload)
        assert done.returncode == status, done.stdout

    def test_nobody_reads_on(self, program, tmp_path):
        host = Host(tmp_path, "x86_64")
        job = f"{program} --root {host.root} --only A1 --only A2 --only G9 | head -1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", job], capture_output=True, text=True, timeout=120, env=CLEAN, check=True)
        assert done.stdout.splitlines()[1:] == ["2"]
        assert done.stderr == ""

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--bogus"],
            ["--only", "G11"],
            ["--workload", "much"],
            ["--sample", "x"],
            ["--timeout", "0"],
            ["extra"],
            ["--root", "/nowhere"],
            ["--workload", "9" * 400],
        ],
    )
    def test_what_is_not_understood(self, program, arguments):
        done = run(program, *arguments)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith("armstage-preflight: ")

    def test_json_is_what_the_module_returns(self, program, tmp_path):
        host = Host(tmp_path).spark()
        done = run(program, "--json", "--skip", "G5", "--root", host.root, "--nvidia-smi", host.smi)
        result = json.loads(done.stdout)
        assert set(result) == {"checks", "lines", "verdict", "host"}
        assert len(result["checks"]) == 14

    def test_a_page_of_this_host(self, program, tmp_path):
        run(program, "--only", "A2,G9", "--html", tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")

    @pytest.mark.parametrize("place", ["nowhere/report.html", "."])
    def test_a_page_that_can_not_be_written_is_refused_before_the_checks(self, program, tmp_path, place):
        done = run(program, "--only", "A2,G9", "--html", tmp_path / place)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"Expected `{tmp_path / place}` in `--html` to be a file" in done.stderr

    def test_a_disk_that_is_full_is_said_and_does_not_take_the_lines(self, program):
        done = run(program, "--only", "A2,G9", "--html", "/dev/full")
        assert "verdict: " in done.stdout
        assert done.returncode in (1, 2)
        assert done.stderr == "armstage-preflight: Failed to write `/dev/full`: No space left on device\n"

    def test_a_very_long_time(self, program):
        assert run(program, "--only", "A2,G9", "--timeout", "1e99").stderr == ""

    def test_no_colour_where_nobody_looks(self, program):
        assert "\033" not in run(program, "--only", "A2").stdout

    @pytest.mark.parametrize(
        "leak",
        [{"PYTHONHOME": "/nonexistent"}, {"PYTHONPATH": "{folder}"}, {"PYTHONSTARTUP": "/x", "PYTHONSAFEPATH": "1"}],
    )
    def test_what_leaked_does_not_break_it(self, program, tmp_path, leak):
        (tmp_path / "json.py").write_text("raise SystemExit('shadowed')\n")
        (tmp_path / "argparse.py").write_text("raise SystemExit('shadowed')\n")
        leak = {name: value.format(folder=tmp_path) for name, value in leak.items()}
        done = run(program, "--only", "A2", environ=leak)
        assert done.stdout.startswith("A2 "), done.stderr

    def test_it_goes_on_to_the_next_python_where_one_does_not_start(self, program, tmp_path):
        (tmp_path / "python3").write_bytes(b"\x7fELF not for this machine")
        (tmp_path / "python3").chmod(0o755)
        assert run(program, "--only", "A2", environ={"PATH": f"{tmp_path}:/usr/bin:/bin"}).returncode in (0, 1, 2)

    def test_without_any_python_it_says_so(self, program, tmp_path):
        text = program.read_bytes().replace(b"/usr/bin/python3", b"/nonexistent/py3")
        (tmp_path / "p").write_bytes(text)
        (tmp_path / "p").chmod(0o755)
        done = run(tmp_path / "p", environ={"PATH": str(tmp_path)})
        assert (done.returncode, "no Python 3.9 or newer runs here" in done.stderr) == (3, True)

    def test_it_imports_no_torch_and_no_site(self, program, tmp_path):
        (tmp_path / "sitecustomize.py").write_text("raise SystemExit('site was imported')\n")
        assert run(program, "--only", "A2", environ={"PYTHONPATH": str(tmp_path)}).stdout.startswith("A2 ")

    def test_no_module_is_compiled_twice(self, program):
        code = (
            "import collections, runpy, sys\n"
            "compiled = collections.Counter()\n"
            "sys.addaudithook(lambda event, said: compiled.update([str(said[1])] if event == 'compile' else []))\n"
            "sys.argv = [sys.argv[1], '--help']\n"
            "try:\n"
            "    runpy.run_path(sys.argv[0], run_name='__main__')\n"
            "except SystemExit:\n"
            "    print({count for file, count in compiled.items() if '/armstage/' in file})\n"
        )
        done = subprocess.run([sys.executable, "-c", code, program], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("\n{1}\n")

    def test_what_runs_as_text_in_a_child_is_found_in_the_program(self, program):
        """NVML's probe, which a GPU node needs: its text comes out of the zip file."""
        code = (
            "import inspect, runpy, sys\n"
            "sys.path.insert(0, sys.argv[1])\n"
            "exec(inspect.cleandoc(open(sys.argv[2]).read()).split('from armstage')[0])\n"
            "from armstage.nvidia import probe\n"
            "print(inspect.getsource(probe) == probe.__loader__.get_source('armstage.nvidia.probe'))\n"
        )
        main = program.parent / "main.py"
        main.write_text(bundle.MAIN)
        done = subprocess.run([sys.executable, "-c", code, program, main], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"


def test_the_staged_root_is_where_the_program_lies(tmp_path, program):
    assert cli.staged_root(str(program)) == ""
    (tmp_path / "envs").mkdir()
    assert cli.staged_root(str(tmp_path / "bin/armstage-preflight")) == str(tmp_path)


def test_every_option_reaches_the_request():
    words = (
        "--only G4 --skip a1 --workload 90GiB --sample 600 --live --config x --env e --staged s --playbooks p --online"
    )
    words += " --timeout 9 --root /r --nvidia-smi n"
    request = cli.request_of(cli.parser().parse_args(words.split()), {}, "x")
    assert (request.checks, request.skip, request.workload, request.sample) == (("G4",), ("A1",), 90 * 2**30, 600)
    assert (request.live, request.online, request.configs, request.env, request.staged) == (
        True,
        True,
        ("x",),
        "e",
        "s",
    )
    assert (request.playbooks, request.timeout, request.root, request.nvidia_smi) == ("p", 9, "/r", "n")
