"""The layout of an environment made by hand: scripts, RECORD, links, pyvenv.cfg."""

import base64
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging.venv import (
    Interpreter,
    configuration,
    corrected_record,
    finish,
    interpreter,
    prepare,
    relocatable,
    site_packages,
)

PROGRAM = b"import sys\nprint([sys.argv[0], sys.argv[1:], __name__, 'caf\xc3\xa9'])\n"


@pytest.mark.parametrize(
    ("path", "version", "expected"),
    [
        ("/r/python/cpython-3.12.12-linux-aarch64-gnu/bin/python3.12", "", "3.12.12"),
        ("/r/python/cpython-3.12.12-linux-aarch64-gnu/bin/python3", "", "3.12.12"),
        ("/r/python/cpython-3.12.12-linux-aarch64-gnu/bin/python3.12", "3.12", "3.12.12"),
        ("/r/python/cpython-3.12-linux-aarch64-gnu/bin/python", "", "3.12"),
        ("/opt/python3.9-tools/bin/python3.13", "", "3.13"),
        ("/usr/bin/python3.13", "", "3.13"),
        ("/usr/bin/python3", "3.13", "3.13"),
        ("/usr/bin/python3", "3.13.5", "3.13.5"),
    ],
)
def test_the_version_is_read_from_the_path_or_given(path, version, expected):
    found = interpreter(path, version)
    assert (found.path, found.version) == (path, expected)
    assert found.minor == ".".join(expected.split(".")[:2])


@pytest.mark.parametrize(
    ("path", "version", "words"),
    [
        ("bin/python3.13", "", "Expected an absolute path in `python`, but found `bin/python3.13`"),
        ("/usr/bin/python3", "", "The version of Python can't be read from the path `/usr/bin/python3`"),
        ("/usr/bin/python3", "3", "Expected a version such as 3.12 in `python_version`, but found `3`"),
        ("/usr/bin/python3.13", "3.12", "`python_version` is `3.12`, but `python` is `/usr/bin/python3.13`"),
    ],
)
def test_an_interpreter_that_can_not_be_meant_is_refused(path, version, words):
    with pytest.raises(ArmstageError) as failure:
        interpreter(path, version)
    assert failure.value.message == words


HEADS = [
    b"#!/usr/bin/python3\n",
    b"#!/usr/bin/python\n",
    b"#!python\n",
    b"#!pythonw\n",
    b"#! /opt/venv/bin/python3.11\n",
    b"#!/opt/very" + b"/long" * 20 + b"/bin/python3.11\n",
    b"#!/bin/sh\n'''exec' '/home/a user/bin/python3' \"$0\" \"$@\"\n' '''\n",
]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("coding", [b"", b"# -*- coding: utf-8 -*-\n"])
@pytest.mark.parametrize("folder", ["bin", "with space/bin", "quote's $HOME/bin"])
def test_a_script_finds_the_python_beside_it(tmp_path, head, coding, folder):
    """Run, by its path, through a link, through a link to a folder, by a relative path and by PATH."""
    bin_folder = tmp_path / folder
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").symlink_to(sys.executable)
    script = bin_folder / "tool"
    script.write_bytes(relocatable(head + coding + PROGRAM))
    script.chmod(0o755)
    links = tmp_path / "links"
    links.mkdir()
    (links / "tool").symlink_to(script)
    (links / "folder").symlink_to(bin_folder)
    ways = [str(script), str(links / "tool"), str(links / "folder/tool"), "./tool", "tool"]
    for way in ways:
        cwd = bin_folder if way == "./tool" else "/"
        search = {"PATH": f"{bin_folder}:{os.environ['PATH']}"} if way == "tool" else {}
        ran = subprocess.run(
            [way, "a b", "$c"], capture_output=True, text=True, cwd=cwd, env={**os.environ, **search}, check=True
        )
        name = str(script) if way == "tool" else way
        assert ran.stdout == f"{[name, ['a b', '$c'], '__main__', 'café']}\n"


def test_a_script_keeps_the_options_of_its_python(tmp_path):
    (tmp_path / "python").symlink_to(sys.executable)
    script = tmp_path / "tool"
    script.write_bytes(relocatable(b"#!python -I -E\nimport sys\nprint(sys.flags.isolated)\n"))
    script.chmod(0o755)
    assert subprocess.run([str(script)], capture_output=True, text=True, check=True).stdout == "1\n"


def test_a_declared_coding_still_counts(tmp_path):
    (tmp_path / "python").symlink_to(sys.executable)
    script = tmp_path / "tool"
    script.write_bytes(relocatable(b"#!python\n# coding: latin-1\nprint(ascii('\xe9'))\n"))
    script.chmod(0o755)
    assert subprocess.run([str(script)], capture_output=True, text=True, check=True).stdout == "'\\xe9'\n"


def test_a_relocatable_script_may_begin_with_future_imports():
    compile(relocatable(b"#!python\nfrom __future__ import annotations\n"), "tool", "exec")


@pytest.mark.parametrize(
    "script",
    [
        b"#!/bin/sh\necho\n",
        b"#!/usr/bin/env python3\nprint()\n",
        b"#!/usr/bin/perl\n",
        b"#!/opt/python-tools/run\n",
        b"\x7fELF\x02\x01",
        b"",
    ],
)
def test_what_is_no_script_of_uvs_python_is_left(script):
    assert relocatable(script) is None


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def test_a_record_is_corrected_for_scripts_and_headers_only():
    text = (
        "../../../bin/tool,sha256=old,10\n"
        "../../../bin/other,sha256=o,3\n"
        '"../../../bin/odd, name",sha256=old,1\n'
        "../../../include/site/python3.11/greenlet/greenlet.h,sha256=g,4\n"
        "../../../share/man/man1/tool.1,sha256=m,5\n"
        "../../libx.so,sha256=x,6\n"
        '"pkg/a,b.py",sha256=p,7\n'
        "pkg/__init__.py,sha256=q,0\n"
        "pkg-1.dist-info/RECORD,,\n"
    )
    new = b"#!/bin/sh\n"
    corrected = corrected_record(
        text, {"tool": new, "odd, name": new, "absent": new}, "../../../include/site/python3.13/"
    )
    expected = text.replace("bin/tool,sha256=old,10", f"bin/tool,sha256={digest(new)},10")
    expected = expected.replace('name",sha256=old,1\n', f'name",sha256={digest(new)},10\n')
    assert corrected == expected.replace("python3.11", "python3.13")


def test_an_environment_is_finished_for_the_target(tmp_path):
    """From the folders that uv leaves when it runs on Python 3.11, with files linked into its cache."""
    python = Interpreter("/r/python/cpython-3.13.1/bin/python3.13", "3.13.1")
    env, cache = tmp_path / "env", tmp_path / "cache"
    env.mkdir()
    cache.mkdir()
    prepare(env)
    site = env / "lib/python3.11/site-packages"
    info = site / "pkg-1.dist-info"
    info.mkdir(parents=True)
    (env / "include/site/python3.11/pkg").mkdir(parents=True)
    (env / ".lock").touch()
    (cache / "tool").write_bytes(b"#!/usr/bin/python3\nprint()\n")
    (cache / "RECORD").write_text("../../../bin/tool,sha256=o,1\n")
    os.link(cache / "tool", env / "bin/tool")
    os.link(cache / "RECORD", info / "RECORD")
    (env / "bin/native").write_bytes(b"\x7fELF")
    finish(env, python)
    assert sorted(os.listdir(env)) == ["bin", "include", "lib", "lib64", "pyvenv.cfg", "share"]
    assert sorted(os.listdir(env / "bin")) == ["native", "python", "python3", "python3.13", "tool"]
    assert [os.readlink(env / "bin" / name) for name in ("python", "python3", "python3.13")] == [
        python.path,
        "python",
        "python",
    ]
    assert os.readlink(env / "lib64") == "lib"
    assert os.listdir(env / "lib") == os.listdir(env / "include/site") == ["python3.13"]
    assert (env / "pyvenv.cfg").read_text() == configuration(python)
    assert (cache / "tool").read_bytes() == b"#!/usr/bin/python3\nprint()\n"
    assert (cache / "RECORD").read_text() == "../../../bin/tool,sha256=o,1\n"
    assert os.access(env / "bin/tool", os.X_OK)
    record = (site_packages(env, python) / "pkg-1.dist-info/RECORD").read_text()
    assert (
        record
        == f"../../../bin/tool,sha256={digest((env / 'bin/tool').read_bytes())},{(env / 'bin/tool').stat().st_size}\n"
    )


def test_python_takes_it_for_an_environment(tmp_path):
    """This host's Python stands for the target's: sys.prefix, site-packages and the version are right."""
    real = Path(sys.executable).resolve()
    python = Interpreter(str(real), ".".join(map(str, sys.version_info[:3])))
    env = tmp_path / "store/env one"
    env.mkdir(parents=True)
    prepare(env)
    finish(env, python)
    (site_packages(env, python) / "probe.py").write_text(
        "import sys\nprint(sys.prefix, sys.base_prefix != sys.prefix)\n"
    )
    (tmp_path / "link").symlink_to("store/env one")
    for way in (env, tmp_path / "link"):
        ran = subprocess.run([way / "bin/python", "-m", "probe"], capture_output=True, text=True, check=True, cwd="/")
        assert ran.stdout == f"{way} True\n"
