"""Shell scripts as the shell reads them: words, quotes, comments, here-documents, substitutions, compound commands."""

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible.module_utils.armstage.audit import scripts
from ansible.module_utils.armstage.audit.readers import shell
from ansible.module_utils.armstage.audit.readers.shell_tree import (
    Arithmetic,
    Literal,
    Parameter,
    Substitution,
    simple_commands,
)
from ansible.module_utils.armstage.audit.source import Source
from ansible.module_utils.armstage.readers.nodes import ReadError
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[3]


def commands(text):
    """(line, words, assignments) of every simple command."""
    return [
        (
            seen.command.line,
            [word.text if word.literal is None else word.literal for word in seen.command.words],
            {assignment.name: assignment.value.text for assignment in seen.command.assignments},
        )
        for seen in simple_commands(shell.read(text))
    ]


def words(text):
    return [found for _line, found, _assignments in commands(text)]


WORDS = [
    ("a b  c", [["a", "b", "c"]]),
    ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
    ("a'b'\"c\"d", [["abcd"]]),
    ("a '' \"\"", [["a", "", ""]]),
    ("a # b\nc#d '#e' \"#f\" \\#g # h", [["a"], ["c#d", "#e", "#f", "#g"]]),
    ("a \\\n  b", [["a", "b"]]),
    ("a; b && c || d & e | f |& g\n! h", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"], ["h"]]),
    ("a $'x\\ty\\'z' $\"b\"", [["a", "x\ty'z", "b"]]),
    (
        "a $(b \"$(c 'd)')\") `e \\`f\\``",
        [["c", "d)"], ["b", "\"$(c 'd)')\""], ["f"], ["e", "`f`"], ["a", "$(b \"$(c 'd)')\")", "`e \\`f\\``"]],
    ),
    ("a <(b) >(c)", [["b"], ["c"], ["a", "<(b)", ">(c)"]]),
    ("a $((1 + (2 * 3) << 1)) ${#b} ${c//x\\/y/z}", [["a", "$((1 + (2 * 3) << 1))", "${#b}", "${c//x\\/y/z}"]]),
    ("a {1..3} *.py [abc]*", [["a", "{1..3}", "*.py", "[abc]*"]]),
    ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
    ("while a; do b; done; until c\ndo d\ndone", [["a"], ["b"], ["c"], ["d"]]),
    (
        "for i in 1 $(a); do b $i; done; for i; do c; done; for ((i=0; i<3; i++)); do d; done",
        [["a"], ["b", "$i"], ["c"], ["d"]],
    ),
    ("case $a in x|y) b ;; (z) c ;& *) d; esac", [["b"], ["c"], ["d"]]),
    ("f() { a; }; function g { b; }; h () ( c )", [["a"], ["b"], ["c"]]),
    ("(a; b) 2>&1 | { c; }", [["a"], ["b"], ["c"]]),
    ("[[ -f $a && $b =~ ^(x|y)$ ]] && c; [ d = e ]", [["c"], ["[", "d", "=", "e", "]"]]),
    ("((i++)); ((a)) && b", [["b"]]),
    ("echo if then fi do", [["echo", "if", "then", "fi", "do"]]),
    ("time -p a; coproc b", [["a"], ["b"]]),
    ("a > b 2>>c <d 3<&4 &>e >|f", [["a"]]),
    ("cat <<A <<-'B' x\n$(a) # b\nA\n\tc\n\tB\nd", [["a"], ["cat", "x"], ["d"]]),
    ('a <<< "b c"', [["a"]]),
    ("a;", [["a"]]),
    ("", []),
    ("# a\n\n  # b", []),
]


@pytest.mark.parametrize(("text", "expected"), WORDS, ids=[text[:40] for text, _expected in WORDS])
def test_words(text, expected):
    assert words(text) == expected
    bash = shutil.which("bash")
    assert bash is None or subprocess.run([bash, "-n", "-c", text], check=False).returncode == 0


def test_extended_patterns_are_words():
    assert words("a @(x|y) +([0-9])\ncase $b in @(c|d)) e ;; esac") == [["a", "@(x|y)", "+([0-9])"], ["e"]]


def test_assignments():
    found = commands("A=1 B+=2 c d=3\nexport E=$F G='h i'\nx[1]=y\narr=(a \"$b\" # c\n  d)\n")
    assert found == [
        (1, ["c", "d=3"], {"A": "1", "B": "2"}),
        (2, ["export"], {"E": "$F", "G": "'h i'"}),
        (3, [], {"x": "y"}),
        (4, [], {"arr": '(a "$b" # c\n  d)'}),
    ]
    (array,) = [seen.command.assignments[0] for seen in simple_commands(shell.read("arr=(a 'b c')"))]
    assert [word.literal for word in array.items] == ["a", "b c"]


def test_parts_of_a_word():
    (seen,) = simple_commands(shell.read('echo a${B:-c}"d$E"$((1))'))
    assert seen.command.words[1].parts == (
        Literal("a"),
        Parameter("B", ":-", seen.command.words[1].parts[1].word),
        Literal("d", True),
        Parameter("E", quoted=True),
        Arithmetic("1"),
    )
    assert seen.command.words[1].parts[1].word.literal == "c"
    (inner, outer) = simple_commands(shell.read('x="$(y)"'))
    assert isinstance(outer.command.assignments[0].value.parts[1], Substitution)
    assert inner.command.words[0].literal == "y"


def test_here_documents_know_their_lines_and_text():
    (inner, seen, after) = simple_commands(shell.read("cat <<A - <<'B'\none $(two)\nA\nthree $(no)\nB\nnext"))
    first, second = seen.command.redirects
    assert (first.body_line, first.body.text) == (2, "one $(two)\n")
    assert (second.body_line, second.body.literal) == (4, "three $(no)\n")
    assert (inner.command.line, after.command.line) == (2, 6)


def test_lines():
    text = 'a \\\n  b \\\n  "c\nd" e\n\n$(\nf\n) g'
    (first, inner, second) = simple_commands(shell.read(text))
    assert [word.line for word in first.command.words] == [1, 2, 3, 4]
    assert (inner.command.line, second.command.words[1].line) == (7, 8)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb 'c", 2),
        ('a "b', 1),
        ("if a; then b", 1),
        ("a\n}", 2),
        ("(a", 1),
        ("a $(b", 1),
        ("a ${b", 1),
        ("fi", 1),
        ("for i in a; b", 1),
        ("a | ", 1),
        ("a &&\n", 2),
        ("case a in b) c", 1),
        ("a )", 1),
        ("a >", 1),
        (";; a", 1),
        ("a `b", 1),
    ],
)
def test_what_the_shell_refuses_is_refused_with_its_line(text, line):
    with pytest.raises(ReadError) as error:
        shell.read(text)
    assert error.value.line == line
    bash = shutil.which("bash")
    assert bash is None or subprocess.run([bash, "-n", "-c", text], check=False, capture_output=True).returncode != 0


def shell_files():
    candidates = [ROOT / "armstage", ROOT / ".ci" / "run"]
    for folder in ("/usr/bin", "/etc/init.d", "/usr/share/debconf", "/usr/lib/git-core", "/etc/profile.d"):
        candidates += sorted(Path(folder).glob("*"))[:2000] if Path(folder).is_dir() else []
    for path in candidates:
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                start = file.read(40)
            if start.startswith((b"#!/bin/sh", b"#!/bin/bash", b"#! /bin/sh", b"#!/usr/bin/env bash")):
                yield path


def test_the_scripts_of_this_machine_are_read():
    found = list(shell_files())
    for path in found:
        assert shell.read(path.read_text("utf-8", "replace")).pipelines, path
    assert len(found) >= 2


@settings(max_examples=500, deadline=None)
@given(st.text("ab \"'`$(){}[];|&<>\n#\\=!*-1", max_size=40))
def test_garbage_is_read_or_refused(text):
    with contextlib.suppress(ReadError):  # nothing else may come out
        shell.read(text)


# Calls: what is behind the programs that start others


def calls(text):
    source = Source("job.sh", "shell", text, shell.read(text))
    (script,) = scripts.read_all([source])
    return script.calls


@pytest.mark.parametrize(
    ("text", "program", "arguments"),
    [
        ("srun --ntasks 4 -p gpu --exclusive --export=ALL uv run x", "uv", ["run", "x"]),
        ("sudo -u me A=1 uv sync", "uv", ["sync"]),
        ("env -u CONDA_PREFIX A=1 python x.py", "python", ["x.py"]),
        ("timeout -k 5 60 nice -n 5 nohup uv sync", "uv", ["sync"]),
        ("exec /opt/bin/uv sync", "uv", ["sync"]),
        ("numactl -N 0 -- uv sync", "uv", ["sync"]),
        ("bash -lc 'cd x; uv sync'", "uv", ["sync"]),
        ('srun bash -c "A=$B uv run \\"$C\\""', "uv", ["run", '"$C"']),
        ("sbatch -n1 --wrap='uv sync'", "uv", ["sync"]),
        ("bash <<X\nuv sync\nX", "uv", ["sync"]),
        ("UV=$HOME/bin/uv; $UV sync", "uv", ["sync"]),
        ('UV=${UV:-uv}\n"$UV" sync', "uv", ["sync"]),
        ("${PYTHON:-python3} x.py", "python3", ["x.py"]),
    ],
)
def test_a_command_is_found_behind_others(text, program, arguments):
    assert (program, arguments) in [(call.program, call.texts) for call in calls(text)]


@pytest.mark.parametrize(
    "text",
    [
        "echo uv sync",
        "cat <<X\nuv sync\nX",
        "A='uv sync'",
        "# uv sync",
        "echo 'bash -c \"uv sync\"'",
        "ssh host uv sync",
    ],
)
def test_text_is_not_a_command(text):
    assert all(call.program != "uv" for call in calls(text))


def test_options_of_a_call():
    (call,) = calls("uv --directory x pip install -q --python=.venv/bin/python --index 'a b' torch")
    assert call.subcommand() == "pip install"
    assert call.has("--python")
    assert not call.has("--py")
    assert call.value("--index") == (1, "a b")
    assert call.value("--python") == (1, ".venv/bin/python")
    assert call.value("--none") is None


def test_a_script_that_a_job_runs_is_a_job_too():
    texts = {
        "train.sbatch": "srun jobs/worker.sh",
        "jobs/worker.sh": ". ./common.sh",
        "common.sh": "python x.py",
        "format.sh": "ruff format",
        "batch.sh": "#SBATCH -n1\ntrue",
        "text.sh": "echo '#SBATCH -n1'",
    }
    found = scripts.read_all([Source(path, "shell", text, shell.read(text)) for path, text in texts.items()])
    jobs = {script.source.path for script in found if script.is_job}
    assert jobs == {"train.sbatch", "jobs/worker.sh", "common.sh", "batch.sh"}
