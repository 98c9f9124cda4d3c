"""Configurations as programs read them: YAML against PyYAML, and what is no setting though it looks like one."""

import contextlib

import pytest
import yaml
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.preflight.settings import parse, read, script
from ansible.module_utils.armstage.preflight.yaml_subset import documents
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = st.from_regex(r"[a-z][a-z0-9_.-]{0,12}", fullmatch=True)
TEXTS = st.text(st.characters(codec="ascii", exclude_characters="\x7f", min_codepoint=32), max_size=40)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), TEXTS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@settings(max_examples=400, deadline=None)
@given(
    st.dictionaries(KEYS, VALUES, min_size=1, max_size=4),
    st.sampled_from([None, False, True]),
    st.sampled_from([20, 80, 4096]),
)
def test_what_pyyaml_writes_is_read_as_pyyaml_reads_it(value, flow, width):
    text = yaml.safe_dump(value, default_flow_style=flow, width=width)
    assert documents(text) == [yaml.safe_load(text)], text


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb:\n  - x\n  - y: 2\n    z: [1, {q: w}]\n",
        "a: >\n  one\n  two\n\nb: |\n  tensor_parallel_size: 4\n  # not a comment\nc: 1\n",
        "a: 'it''s'\nb: \"x\\ny\"\nc: plain # comment\nd: http://x:80/y#z\n",
        "list:\n- a\n-   b: 1\n    c: 2\n- - nested\n  - more\n",
        "a:\n\n  # a comment between\n  b: 1\n",
        "{a: [1, 2,\n  3], b: 'x, y'}\n",
        "a: long plain\n  that goes on\nb: -tp\n",
        "- 1\n- 2.5\n- -3\n- 1_000\n",
        "a:\n  -\n    b: 1\n  -\n    c: 2\n",
        "'quoted key': 1\n\"other\": 2\n",
        "a: []\nb: {}\nc: ''\nd: ~\n",
    ],
)
def test_hand_written_yaml(text):
    assert documents(text) == [yaml.safe_load(text)]


def test_several_documents():
    assert documents("%YAML 1.2\n---\na: 1\n--- # two\nb: 2\n...\n---\n- 3\n") == [{"a": 1}, {"b": 2}, [3]]


@pytest.mark.parametrize(
    "text",
    ["a: &x 1\nb: *x\n", "a: !!int '1'\n", "a: 1\n b: 2\n", "a: [1, 2\n", "a: {b: [}\n", "a: 'x\n", "? x\n: y\n"],
)
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(ArmstageError):
        documents(text)


@given(st.text(max_size=200))
def test_any_text_ends_in_values_or_a_refusal(text):
    with contextlib.suppress(ArmstageError):
        documents(text)


def test_deep_nesting_is_refused():
    with pytest.raises(ArmstageError):
        documents("[" * 5000)
    with pytest.raises(ArmstageError):
        documents("".join(f"{' ' * depth}a:\n" for depth in range(200)))


def values(text, path):
    return {setting.name: setting.value for setting in parse(text, path).settings}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.yaml", "engine_args:\n  tensor-parallel-size: 2\n"),
        ("a.json", '{"engine": {"tensor_parallel_size": 2}}'),
        ("a.toml", "[engine]\ntensor_parallel_size = 2\n"),
        ("a.ini", "[engine]\ntensor_parallel_size = 2\n"),
        ("a.cfg", "tensor_parallel_size = 2\n"),
        ("a.sh", "#!/bin/bash\nexec vllm serve m \\\n  --tensor-parallel-size 2\n"),
        ("a.sbatch", "srun vllm serve m --tensor-parallel-size=2 && echo done\n"),
        ("a.yml", "services:\n  vllm:\n    command: vllm serve m --tensor-parallel-size 2\n"),
        ("a.yml", "services:\n  vllm:\n    command: [vllm, serve, m, --tensor-parallel-size, 2]\n"),
        ("a.yml", "spec:\n  containers:\n  - args:\n    - serve\n    - --tensor-parallel-size\n    - '2'\n"),
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
        ("a.toml", "[", "is not "),
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
