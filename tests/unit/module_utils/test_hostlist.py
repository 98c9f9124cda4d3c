"""Hostlist expressions, against what `scontrol show hostnames` prints for the same ones."""

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.slurm import hostlist
from hypothesis import given
from hypothesis import strategies as st

EXPANDED = {
    "": [],
    "gb01": ["gb01"],
    "gb200-rack1-[09-14]": [f"gb200-rack1-{number:02}" for number in range(9, 15)],
    "gb200-rack1-[01,03]": ["gb200-rack1-01", "gb200-rack1-03"],
    "n[8-11]": ["n8", "n9", "n10", "n11"],
    "n[098-101]": ["n098", "n099", "n100", "n101"],
    "r[1-2]n[01-02]-ib": ["r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"],
    "a,b[1-2,4],c": ["a", "b1", "b2", "b4", "c"],
    " a b[1-2]\n,c ": ["a", "b1", "b2", "c"],
    "a,a[1],a": ["a", "a1"],
    "10.140.64.164": ["10.140.64.164"],
}


@pytest.mark.parametrize("expression", EXPANDED)
def test_expand(expression):
    assert hostlist.expand(expression) == EXPANDED[expression]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("gb[01-", "not closed"),
        ("gb01]", "not balanced"),
        ("gb[[1]]", "not balanced"),
        ("gb[]", "``"),
        ("gb[a-c]", "`a-c`"),
        ("gb[1:3]", "`1:3`"),
        ("gb[4-1]", "backwards"),
        ("gb[0-999999]", "65536"),
        ("gb[0-999]x[0-999]", "65536"),
        ("gb[1-60000]x[1-60000]x[1-60000]", "65536"),
        ("gb" + "[1-9]" * 40, "65536"),
        ("gb[\N{ARABIC-INDIC DIGIT THREE}]", "neither a number"),
        ("(null)", "`(` is in no node's name"),
        ("gb{01-02}", "`{` is in no node's name"),
        ("gb[1-2](x)", "`(` is in no node's name"),
    ],
)
def test_what_is_no_hostlist_is_refused_with_the_part(expression, words):
    with pytest.raises(ArmstageError) as error:
        hostlist.expand(expression)
    assert words in error.value.message
    assert expression in error.value.message


@pytest.mark.parametrize(
    ("names", "expression"),
    [
        ([], ""),
        (["login"], "login"),
        (["gb01", "gb02", "gb03", "gb07"], "gb[01-03,07]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n9", "n09"], "n[9,09]"),
        (["r1n1-ib", "r1n2-ib", "r2n1-ib"], "r1n[1-2]-ib,r2n1-ib"),
    ],
)
def test_compress(names, expression):
    assert hostlist.compress(names) == expression


NAMES = st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}(-[0-9]{1,3}){0,2}(-ib)?", fullmatch=True), max_size=30)


@given(NAMES)
def test_what_is_compressed_expands_to_the_same_names(names):
    assert sorted(hostlist.expand(hostlist.compress(names))) == sorted(set(names))
