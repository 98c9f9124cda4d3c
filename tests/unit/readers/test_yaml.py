"""YAML as PyYAML reads it, with lines: the same values, or a refusal."""

import re
from pathlib import Path
from typing import ClassVar

import pytest
import yaml as reference
from ansible.module_utils.armstage.audit.facts import read_compatibility
from ansible.module_utils.armstage.readers import yaml
from ansible.module_utils.armstage.readers.nodes import ReadError, leaves
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


class Reference(reference.SafeLoader):
    """PyYAML, with keys, dates and times as the text that was written."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in reference.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node):
        self.flatten_mapping(node)
        return {self.construct_scalar(key): self.construct_object(value, deep=True) for key, value in node.value}


Reference.add_constructor("tag:yaml.org,2002:map", Reference.construct_mapping)


def referred(text):
    """What PyYAML reads; None where it refuses, or ends with an error of its own."""
    try:
        return list(reference.load_all(text, Loader=Reference))
    except (reference.YAMLError, ValueError, AttributeError, RecursionError):
        return None


def typed(value):
    """A value with the type of each part of it, since 1 == True == 1.0, and nan is not itself."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    return [typed(inner) for inner in value] if isinstance(value, list) else (type(value), repr(value))


def refusal(text):
    """The ReadError of a text that is refused; None for one that is read, as PyYAML reads it if that does."""
    try:
        documents, _comments = yaml.read(text)
    except ReadError as error:
        return error
    expected = referred(text)
    assert expected is None or typed(documents) == typed(expected), text
    return None


def test_a_document_reads_as_the_reference_reads_it():
    documents, comments = yaml.read(DOCUMENT)
    assert typed(documents) == typed(referred(DOCUMENT))
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
    for folder in ("roles", "playbooks", "vars", "inventory", "molecule", "changelogs", "tests/fixtures"):
        yield from (path for ending in ("yml", "yaml") for path in sorted((ROOT / folder).rglob(f"*.{ending}")))


@pytest.mark.parametrize("path", list(files()), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_files_of_this_project_read_as_the_reference_reads_them(path):
    text = path.read_text()
    expected = referred(text)
    if expected is None:
        pytest.skip("not YAML")
    documents, _comments = yaml.read(text)
    assert typed(documents) == typed(expected)
    starts = dict(scalars(reference.compose_all(text, Loader=Reference)))
    for where, line, _value in leaves(documents):
        if isinstance(where[-1], int) and len(where) > 1:
            assert line == starts[where], where


def scalars(nodes, path=()):
    """Path and line of every scalar that PyYAML finds."""
    for index, node in enumerate(nodes):
        if isinstance(node, reference.MappingNode):
            for key, value in node.value:
                for where, line in scalars([value]):
                    yield (*path, index, key.value, *where[1:]), line
        elif isinstance(node, reference.SequenceNode):
            yield from scalars(node.value, (*path, index))
        else:
            yield (*path, index), node.start_mark.line + 1


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


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb:\n  - x\n  - y: 2\n    z: [1, {q: w}]\n",
        "a: >\n  one\n  two\n\nb: |\n  tensor_parallel_size: 4\n  # not a comment\nc: 1\n",
        "a: 'it''s'\nb: \"x\\ny\"\nc: plain # comment\nd: http://x:80/y#z\n",
        "list:\n- a\n-   b: 1\n    c: 2\n- - nested\n  - more\n",
        "a:\n\n  # a comment between\n  b: 1\n",
        "{a: [1, 2,\n  3], b: 'x, y'}\n",
        "a: long plain\n  that goes on\n\n  over rows\nb: -tp\n",
        "- 1\n- 2.5\n- -3\n- 1_000\n- 017\n- 08\n- 22:22\n- 0b1\n- .inf\n- 1e3\n- 1.0e+3\n- 2026-12-01\n- yes\n",
        "a:\n  -\n    b: 1\n  -\n    c: 2\n",
        "'quoted key': 1\n\"other\": 2\ntrue: 3\n4: 5\n",
        "a: []\nb: {}\nc: ''\nd: ~\n",
        "%YAML 1.2\n---\na: 1\n--- # two\nb: 2\n...\n---\n- 3\n---\n--- |\n  4\n",
        "a: |+\n  kept\n\n\nb: >-\n\n  one\n\n   further\n  two\nc: |2-\n    x\nd: |\n  no line end",
        "base: &base {a: 1, b: 2}\nother: &other\n  b: 3\nc:\n  <<: [*base, *other]\n  a: 4\nd: {<<: *other}\n",
        "- &a x\n- *a\n- &b\n  - 1\n- [*b, *a]\n- &k key: value\n- *k\n- !!str 12\n- !!str\n",
        "a: \"one \\\n  two\n\n  three\\x41\\u00e9\\\t\n four\"\nb: 'one\n\n  two'\n",
        "[a: 1, 'b': 2, \"c\":3, d, {e}, -f, g h\n  i]\n",
        "\ufeffa: 1\r\nb: |\r\n  x\r\n  y\r\n",
    ],
)
def test_hand_written(text):
    assert referred(text) is not None
    assert refusal(text) is None


KEYS = st.from_regex(r"[a-z][a-z0-9_.-]{0,12}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=40)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.floats(), TEXTS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@settings(max_examples=400, deadline=None)
@given(
    st.dictionaries(KEYS, VALUES, min_size=1, max_size=4),
    st.sampled_from([None, False, True]),
    st.sampled_from([20, 80, 4096]),
    st.booleans(),
)
def test_what_pyyaml_writes_is_read_as_pyyaml_reads_it(value, flow, width, unicode):
    text = reference.safe_dump({**value, "again": value}, default_flow_style=flow, width=width, allow_unicode=unicode)
    error = refusal(text)
    assert error is None or "U+" in error.message  # PyYAML writes NEL, LS and PS as they are


PIECES = [
    *(
        "a",
        "b",
        "k: ",
        "'k': ",
        '"k": ',
        "é",
        "- ",
        "-",
        ": ",
        ":",
        "? ",
        "  ",
        "    ",
        " ",
        "\t",
        "\n",
        "\n\n",
        "\n  ",
    ),
    *(
        "\n- ",
        "\n  - ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        ",",
        "#",
        " # c",
        "&a ",
        "*a",
        "<<: ",
        "!!str ",
        "!t ",
        "|",
        "|-",
        "|+",
    ),
    *("|2", ">", ">-", '"', "'", '""', "\\n", "\\", "%YAML 1.1", "---", "--- ", "...", "@", "`", "=", "_", "<<"),
    *("~", "1", "0x1f", "0o7", "08", "-1", "1e3", "1.5", "12:30", ".inf", "yes", "null", "2026-01-02"),
]


@settings(max_examples=3000, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=60))
def test_any_text_is_read_as_pyyaml_reads_it_or_refused(text):
    error = refusal(text)
    assert error is None or 1 <= error.line <= len(text.splitlines()) + 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: *x\n", "uses an anchor"),
        ("a: &x [*x]\n", "uses an anchor"),
        ("a: &x 1\n---\nb: *x\n", "uses an anchor"),
        ("a: !!int '1'\n", "the tag `!!int`"),
        ("a: &x 1\nb: {<<: *x}\n", "expected a mapping"),
        ('a: "\\q"\n', "an escape"),
        ("a:\n\tb: 1\n", "a tab"),
        ("a: \x07\n", "U+0007"),
        ("a: b\u2028c\n", "U+2028"),
        ("[" * 5000, "nested too deeply"),
        ("".join(f"{' ' * depth}a:\n" for depth in range(200)), "nested too deeply"),
        ("- " * 200, "nested too deeply"),
        ("l0: &l0 [x, x]\n" + "".join(f"l{n}: &l{n} [{f'*l{n - 1}, ' * 9}]\n" for n in range(1, 9)), "aliases"),
    ],
)
def test_what_is_not_read_is_refused_by_name(text, said):
    with pytest.raises(ReadError, match=re.escape(said)):
        yaml.read(text)


def test_a_tag_of_an_application_is_passed_over():
    assert yaml.read("a: !vault |\n  x\nb: !reference [c, d]\n!t c: !env\n")[0] == [
        {"a": "x\n", "b": ["c", "d"], "c": None}
    ]
