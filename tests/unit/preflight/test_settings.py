"""Configurations as programs read them, and what is no setting though it looks like one."""

import os

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.preflight.settings import find, parse, read
from ansible.module_utils.armstage.preflight.shell import script


def values(text, path):
    return {setting.name: setting.value for setting in parse(text, path).settings}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.yaml", "engine_args:\n  tensor-parallel-size: 2\n"),
        ("a.json", '{"engine": {"tensor_parallel_size": 2}}'),
        ("a.toml", "[engine]\ntensor_parallel_size = 2\n"),
        ("a.toml", "[engine.args]\nmodes = [\n  'a',\n]\nparallel = { tensor_parallel_size = 2 }\n"),
        ("a.toml", "[[engines]]\ncommand = ['vllm', 'serve', 'm', '--tensor-parallel-size', '2']\n"),
        ("a.ini", "[engine]\ntensor_parallel_size = 2\n"),
        ("a.cfg", "tensor_parallel_size = 2\n"),
        ("a.sh", "#!/bin/bash\nexec vllm serve m \\\n  --tensor-parallel-size 2\n"),
        ("a.sbatch", "srun vllm serve m --tensor-parallel-size=2 && echo done\n"),
        ("a.yml", "services:\n  vllm:\n    command: vllm serve m --tensor-parallel-size 2\n"),
        ("a.yml", "services:\n  vllm:\n    command: [vllm, serve, m, --tensor-parallel-size, 2]\n"),
        ("a.yml", "spec:\n  containers:\n  - args:\n    - serve\n    - --tensor-parallel-size\n    - '2'\n"),
        ("a.yml", "x-common: &common\n  tensor_parallel_size: 2\nengine:\n  <<: *common\n"),
        ("a.yml", "run: |\n  export A=1\n  vllm serve m --tensor-parallel-size 2\n"),
        ("a.service", "[Service]\nExecStart=/usr/bin/vllm serve m --tensor-parallel-size 2\n"),
        ("a.service", "[Service]\nExecStart=/usr/bin/vllm serve \\\n  --port 80 \\\n  --tensor-parallel-size 2\n"),
        ("a.service", "[Service]\nExecStart=sh -c 'vllm serve m --tensor-parallel-size 2'\nExecStart=x\n"),
        ("a.service", '[Service]\nEnvironment="ARGS=--tensor-parallel-size 2" A=1\nEnvironment=B=2\n'),
        ("a.container", "[Container]\nExec=serve m --tensor-parallel-size 2\n"),
        ("a.ini", "tensor_parallel_size = 2 ; two\n"),
        (".env", 'VLLM_ARGS="--tensor-parallel-size 2"\n'),
        ("a.env", "VLLM_ARGS=--tensor-parallel-size 2 --port 80\n"),
        (".env.local", "N=2\nVLLM_ARGS=--tensor-parallel-size ${N}  # two\n"),
        ("Dockerfile", 'FROM x\nCMD ["vllm", "serve", "m", "--tensor-parallel-size", "2"]\n'),
        ("Dockerfile", 'FROM x\nCMD ["vllm", "serve", \\\n  "--tensor-parallel-size", "2"]\n'),
        ("Dockerfile.spark", "FROM x\nENV VLLM_ARGS '--tensor-parallel-size 2'\n"),
        ("launch.job", "#!/usr/bin/env bash\nvllm serve m --tensor-parallel-size 2\n"),
        ("pod.yaml", "command: [bash, -c]\nargs: ['vllm serve m --tensor-parallel-size 2']\n"),
        ("a.yaml", "entrypoint: [bash, -c]\ncommand:\n- >-\n  vllm serve m\n  --tensor-parallel-size 2\n"),
        ("a.yaml", "environment:\n- VLLM_ARGS=--tensor-parallel-size 2\n"),
        ("a.yaml", "engine: {tensor_parallel_size: '${TP:-2}'}\n"),
        ("values.yaml", "vllmConfig: {tensorParallelSize: 2}\n"),
        ("values.yaml", "vllmConfig: {extraArgs: [--tensor-parallel-size, '2']}\n"),
        ("map.yaml", "data:\n  engine.yaml: |\n    tensor_parallel_size: 2\n"),
        ("play.yml", "- tasks:\n  - ansible.builtin.shell: vllm serve m --tensor-parallel-size 2\n"),
        ("a.json", '\ufeff{"tensor_parallel_size": 2}'),
    ],
)
def test_a_setting_in_any_form(tmp_path, path, text):
    (tmp_path / path).write_text(text)
    found = read(str(tmp_path / path))
    assert not found.problem
    assert {setting.name: setting.value for setting in found.settings}["tensor_parallel_size"] == 2


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.yaml", "# tensor_parallel_size: 2\nmodel: x\n"),
        ("a.yaml", "notes: |\n  tensor_parallel_size: 2\n"),
        ("a.yaml", "help: set tensor_parallel_size to 2\n"),
        ("a.json", '{"text": "tensor_parallel_size: 2"}'),
        ("a.sh", "# vllm serve --tensor-parallel-size 2\necho ok\n"),
        ("a.sh", "cat <<EOF\nvllm serve --tensor-parallel-size 2\nEOF\necho ok\n"),
        ("a.sh", "vllm serve m --my-tensor-parallel-size-like-option 2\n"),
    ],
)
def test_what_only_looks_like_one(path, text):
    assert "tensor_parallel_size" not in values(text, path)


def test_where_a_setting_stands_is_said():
    (setting,) = parse("a:\n  b:\n    tp: 2\n", "x.yaml").settings
    assert setting.where == "x.yaml: a.b.tp"
    commands = list(script("true\nvllm serve \\\n --tp 2; echo\n", "run.sh"))
    assert [command.where for command in commands] == ["run.sh, line 1", "run.sh, line 2", "run.sh, line 2"]
    assert commands[1].words == ("vllm", "serve", "--tp", "2")


def test_variables_in_front_of_a_command_and_of_a_container():
    text = "export NCCL_IB_HCA=rocep1s0f0\nA=1 B=2 env C=3 vllm D=4\ndocker run -e E=5 --env F=6 image\n"
    found = values(text, "a.sh")
    assert [found.get(name) for name in ("nccl_ib_hca", "a", "b", "c", "d", "e", "f")] == [
        "rocep1s0f0",
        "1",
        "2",
        "3",
        None,
        "5",
        "6",
    ]
    assert values("services:\n  x:\n    environment:\n    - NCCL_IB_GID_INDEX=3\n", "c.yml")["nccl_ib_gid_index"] == 3


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("a.yaml", "a: *x\n", "uses an anchor"),
        ("a.json", "{", "is not JSON"),
        ("a.toml", "[engine]\na: 2\n", "is not TOML: line 2: "),
        ("a.toml", "a = " + "[" * 10**5, "is not TOML: "),
        ("a.exe", "x", "its name ends in"),
    ],
)
def test_a_file_that_is_not_understood_is_named(tmp_path, name, text, word):
    (tmp_path / name).write_text(text)
    problem = read(str(tmp_path / name)).problem
    assert f"`{tmp_path}/{name}` was not understood" in problem
    assert word in problem


def test_a_text_that_holds_itself_has_an_end(tmp_path):
    """Found by mutation: each of its lines gives a shell all of them."""
    text = 'CMD="vll- serve m mtp 2C\nbash) -c "$CMD"\nc "$CMD;"\nc "$"MD"\nc "$CMD"\n'
    (tmp_path / "a.sh").write_text(text)
    found = read(str(tmp_path / "a.sh"))
    assert found.problem.endswith("more than 2000 of its commands are in quotes of other commands")


def test_a_line_that_goes_on_one_without_a_value():
    with pytest.raises(ArmstageError, match="it is not INI"):
        parse("a\n  b\n", "a.ini")


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.yaml")
    assert read(str(tmp_path / "a.yaml")).problem == f"`{tmp_path}/a.yaml` is no file"
    assert find([str(tmp_path)]) == []


def test_a_file_that_is_too_long_is_not_judged_by_its_beginning(tmp_path):
    (tmp_path / "a.sh").write_text("#" * (2 * 2**20) + "\nx --tp 2\n")
    assert "was not understood: it has more than 2 MiB" in read(str(tmp_path / "a.sh")).problem


def test_a_file_that_is_not_there(tmp_path):
    assert read(str(tmp_path / "a.yaml")).problem == f"`{tmp_path}/a.yaml` does not exist"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nx --b $A --c ${A} --d ${A:-9} --e ${B:-2} --f $B", {"b": 1, "c": 1, "d": 1, "e": 2, "f": "$B"}),
        ("A=1\nA=2\nx --b $A", {"b": 2}),
        ("x --b 'it is\nlong' --c 3", {"b": "it is\nlong", "c": 3}),
        ("bash -c 'y --b 1; z --c 2' --d 3", {"b": 1, "c": 2, "d": 3}),
        ("A=4\nsh -ec \"bash -c 'y --b $A'\"", {"b": 4}),
        ("echo it's\nx --b 1", {"b": 1}),
        ('A="--b 1 --c 2"\nx $A', {"b": 1, "c": 2}),
        ('A="x --b 1"\nA+=" --c 2"\neval "$A"', {"b": 1, "c": 2}),
        ('A=(\n  --b 1 # one\n)\nx "${A[@]}"', {"b": 1}),
        (': "${A:=1}"\nx --b $A --c ${B:-${C:-2}}', {"b": 1, "c": 2}),
        ("f() {\n  local -i A=1\n  x --b $A\n}", {"b": 1}),
        ("cat <<< hello\nN=$((1<<4))\n# cat <<EOF\nx --b 1", {"b": 1}),
        ("ssh n bash -s <<'EOF'\nx --b 1\nEOF\ny --c 2", {"b": 1, "c": 2}),
        ("ssh n 'x --b 1'\ntmux new -d 'y --c 2'", {"b": 1, "c": 2}),
        ("[ $# -gt 0 ] && x a#b --b 1 # --c 2", {"b": 1, "c": None}),
        ("# goes on \\\nx --b 1", {"b": 1}),
        ("x --env=B=1 -e C=2", {"b": "1", "c": "2"}),
        ("#SBATCH --nodes=2 # two\nx", {"nodes": 2}),
        ("python x.py +a.b=1 a.d.c=2", {"b": 1, "c": 2}),
        ("A=xx\n" + "A=$A$A\n" * 60 + "x --b 1", {"b": 1}),
    ],
    ids=[
        *("variables", "the last value", "a long text", "commands in a text", "and in that", "a quote in prose"),
        *("options in a variable", "a command in one", "an array", "defaults that are set", "local", "no document"),
        *("a document for a shell", "a text for another shell", "a hash", "a comment joins nothing", "a container's"),
        *("a directive", "overrides", "one that holds itself"),
    ],
)
def test_what_a_shell_makes_of_a_script(text, expected):
    found = values(text, "a.sh")
    assert {name: found.get(name) for name in expected} == expected


def test_a_quote_that_never_closes_hides_nothing_after_it():
    text = 'echo "for ever\n' + "y\n" * 300 + "x --b 1\n"
    assert values(text, "a.sh")["b"] == 1
