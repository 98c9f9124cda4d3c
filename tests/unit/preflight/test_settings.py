"""Configurations as programs read them, and what is no setting though it looks like one."""

import pytest
from ansible.module_utils.armstage.preflight.settings import parse, read, script


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
    ],
)
def test_a_setting_in_any_form(path, text):
    assert values(text, path)["tensor_parallel_size"] == 2


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
    ],
    ids=["variables", "the last value", "a long text", "commands in a text", "and in that", "a quote in prose"],
)
def test_what_a_shell_makes_of_a_script(text, expected):
    found = values(text, "a.sh")
    assert {name: found.get(name) for name in expected} == expected


def test_a_quote_that_never_closes_hides_nothing_after_it():
    text = 'echo "for ever\n' + "y\n" * 300 + "x --b 1\n"
    assert values(text, "a.sh")["b"] == 1
