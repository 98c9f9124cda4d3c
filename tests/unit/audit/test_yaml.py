"""YAML as PyYAML reads it, with lines."""

import contextlib
from pathlib import Path

import pytest
import yaml as reference
from ansible.module_utils.armstage.audit.facts import read_compatibility
from ansible.module_utils.armstage.audit.readers import yaml
from ansible.module_utils.armstage.audit.readers.nodes import ReadError, leaves
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[3]

DOCUMENT = """\
%YAML 1.2
---  # first
plain: text with:no
key with space : 'single ''quoted'' # no comment'
"double\\tquoted": "a \\x41 \\
  joined
  folded"
empty:
null_: ~
numbers: [1, -2.5, 0x1f, 1e3, "1", true, False, yes]
flow: {a: [b, {c: d}], 'e f': "g, h", i, url: http://x/y:z}
multi: {
  a: 1,   # inside
  b: [2,
      3]
}
sequence:
- one   # behind
-   two
- - nested
  - deeper
- key: value
  other: 1
-
  - below
literal: |
  first
    indented # text

  last
folded: >-
  one
  two

  three
kept: |2
    two more
anchor: &base {x: 1}
alias: *base
list: &l
  - 1
copy: *l
tagged: !!str 12
wrapped: this plain scalar
  goes on
  and on
---
second
"""


def convert(value):
    return (
        {str(key): convert(inner) for key, inner in value.items()}
        if isinstance(value, dict)
        else ([convert(inner) for inner in value] if isinstance(value, list) else value)
    )


def test_a_document_reads_as_the_reference_reads_it():
    documents, comments = yaml.read(DOCUMENT)
    expected = list(reference.safe_load_all(DOCUMENT.replace("null_: ~", "null_: null")))
    expected[0]["numbers"][2:4] = [0x1F, 1000.0]
    expected[0]["numbers"][-1] = "yes"  # a boolean in YAML 1.1 only
    expected[0]["tagged"] = 12
    assert convert(documents) == expected
    assert [comment.text for comment in comments] == ["# first", "# inside", "# behind"]


def test_every_value_knows_its_line():
    documents, _comments = yaml.read(DOCUMENT)
    rows = DOCUMENT.split("\n")
    lines = {path: line for path, line, _value in leaves(documents)}
    assert rows[lines[0, "flow", "url"] - 1].startswith("flow:")
    assert rows[lines[0, "multi", "b", 1] - 1].strip() == "3]"
    assert rows[lines[0, "sequence", 3, "other"] - 1].strip() == "other: 1"
    assert rows[lines[0, "sequence", 4, 0] - 1].strip() == "- below"
    assert rows[lines[1,] - 1] == "second"


def files():
    for folder in ("roles", "playbooks", "vars", "inventory", "molecule", "tests/fixtures"):
        yield from (path for ending in ("yml", "yaml") for path in sorted((ROOT / folder).rglob(f"*.{ending}")))


@pytest.mark.parametrize("path", list(files()), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_files_of_this_project_read_as_the_reference_reads_them(path):
    try:
        nodes = list(reference.compose_all(path.read_text()))
    except reference.YAMLError:
        pytest.skip("not YAML")
    documents, _comments = yaml.read(path.read_text())
    expected = {scalar: node for index, node in enumerate(nodes) for scalar, node in scalars(node, (index,))}
    ours = {where: (line, value) for where, line, value in leaves(documents)}
    assert ours.keys() == expected.keys()
    for where, (line, value) in ours.items():
        node = expected[where]
        assert str(value if value is not None else "").lower() == ("" if value is None else node.value.lower()) or (
            isinstance(value, (int, float)) and float(node.value) == value
        ), where
        if isinstance(where[-1], int) and len(where) > 1:
            assert line == node.start_mark.line + 1, where


def scalars(node, path):
    if isinstance(node, reference.MappingNode):
        for key, value in node.value:
            yield from scalars(value, (*path, key.value))
    elif isinstance(node, reference.SequenceNode):
        for index, value in enumerate(node.value):
            yield from scalars(value, (*path, index))
    else:
        yield path, node


def test_the_compatibility_data_is_the_same_to_both():
    text = (ROOT / "vars" / "compatibility.yml").read_text()
    assert read_compatibility() == reference.safe_load(text)["armstage_compatibility"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b: c", 1),
        ("a: [1, 2", 1),
        ("a: {b: 1\nc: 2", 2),
        ("a:\n  b: 1\n c: 2", 3),
        ("a: 1\n  b: 2", 2),
        ("a: 'x", 1),
        ("- a\nb: c", 2),
        ("? a\n: b", 1),
        ("a: {{ template }}x", 1),
    ],
)
def test_what_is_no_yaml_is_refused_with_its_line(text, line):
    with pytest.raises(ReadError) as error:
        yaml.read(text)
    assert error.value.line == line


@settings(max_examples=500, deadline=None)
@given(st.text("ab:-?[]{}#&*!|>'\"%, \n\\1", max_size=40))
def test_garbage_is_read_or_refused(text):
    with contextlib.suppress(ReadError):  # nothing else may come out
        yaml.read(text)
