"""TOML as the standard library reads it, with lines."""

import contextlib
import datetime
import math
import tomllib

import pytest
from ansible.module_utils.armstage.readers import toml
from ansible.module_utils.armstage.readers.nodes import Items, ReadError, Table, leaves
from hypothesis import given, settings
from hypothesis import strategies as st

DOCUMENT = '''# top
title = "a \\t \\u00e9 \\\\"   # behind
'quoted key' = 'lit\\eral'
dotted.a . "b c" = 1_000

[table]
numbers = [ +1, -0, 0xff, 0o17, 0b11, 1.5, -2e3, inf, nan,
  # between
  3,
]
text = """
first \\
    joined
second ""two"" quotes"""
raw = \'\'\'
a\'b\'\'\'
when = [1979-05-27T07:32:00Z, 1979-05-27 07:32:00, 1979-05-27, 07:32:00.5]
inline = { a = [ { b = 1 }, {} ], c.d = true }

[[packages]]
name = "x"
[[packages.wheels]]
url = "w1"
[[packages.wheels]]
url = "w2"
[packages.table]
deep = false
[[packages]]
name = "y"
'''


def plain(value):
    """As tomllib has it, dates as text left out of the comparison."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, (datetime.date, datetime.time, datetime.datetime)):
        return "date"
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def test_a_document_reads_as_the_standard_library_reads_it():
    document, comments = toml.read(DOCUMENT)
    expected = plain(tomllib.loads(DOCUMENT))
    document["table"]["when"][:] = ["date"] * 4
    assert plain(document) == expected
    assert [(comment.line, comment.text, comment.alone) for comment in comments] == [
        (1, "# top", True),
        (2, "# behind", False),
        (8, "# between", True),
    ]


def test_every_value_knows_its_line():
    document, _comments = toml.read(DOCUMENT)
    rows = DOCUMENT.split("\n")
    lines = {path: line for path, line, _value in leaves(document)}
    assert lines["title",] == 2
    assert lines["dotted", "a", "b c"] == 4
    assert lines["table", "numbers", 9] == 9
    assert rows[lines["packages", 0, "wheels", 1, "url"] - 1] == 'url = "w2"'
    assert document["packages"].lines == [rows.index("[[packages]]") + 1, len(rows) - 2]
    assert document["table"].lines["raw"] == rows.index("raw = '''") + 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a = "x', 1),
        ("a = 1\na = 2", 2),
        ("a = 1\n\n[a]", 3),
        ("[a]\nb = 1\n[a]", 3),
        ("a = { b = 1 }\n[a]\nc = 2", 2),
        ("a = [1 2]", 1),
        ("a =", 1),
        ("a = 01", 1),
        ("= 1", 1),
        ("a = 1 b = 2", 1),
        ('a = "\\q"', 1),
        ('a = "\\ud800"', 1),
        ("[[a]]\n[a]\n[[a]]\n[a.b\n", 4),
        ("a = [1,\n2,\n", 3),
    ],
)
def test_what_is_no_toml_is_refused_with_its_line(text, line):
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(text)
    with pytest.raises(ReadError) as error:
        toml.read(text)
    assert error.value.line == line


KEYS = st.text("abcXYZ019_-", min_size=1, max_size=5)
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


VALUES = st.recursive(
    st.one_of(TEXT.map(quoted), st.integers().map(str), st.booleans().map(lambda value: str(value).lower())),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: "[\n" + ",\n".join(items) + "]"),
        st.dictionaries(KEYS, inner, max_size=3).map(
            lambda table: "{" + ", ".join(f"{key} = {value}" for key, value in table.items()) + "}"
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_document_reads_as_the_standard_library_reads_it(table):
    text = "".join(f"{key} = {value} # c\n" for key, value in table.items())
    document, comments = toml.read(text)
    assert document == tomllib.loads(text)
    assert len(comments) == len(table)


@settings(max_examples=500, deadline=None)
@given(st.text("ab\"=[]{}#\n\\'.,1 ", max_size=40))
def test_garbage_is_read_or_refused(text):
    with contextlib.suppress(ReadError):  # nothing else may come out
        toml.read(text)


def test_below_what_is_missing_there_is_an_empty_table():
    document, _comments = toml.read("[a]\nb = 1\nc = [2]\n")
    assert document.table("a", "x", "y") == Table()
    assert document.items_of("a", "b") == Items()
    assert list(document.items_of("a", "c").pairs()) == [(3, 2)]
