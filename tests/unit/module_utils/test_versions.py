import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.versions import matches, minor, release, within


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("2.11.0", (2, 11)),
        ("2.11", (2, 11)),
        ("2.11.0+cu130", (2, 11)),
        ("0.0.0.dev0", (0,)),
        ("0.0.0dev", (0,)),
        ("580.95.05", (580, 95, 5)),
        ("n7.1.5-12-g1fdbca85aa", (7, 1, 5)),
        ("v0.10.3", (0, 10, 3)),
        (13.0, (13,)),
    ],
)
def test_the_numbers_order_versions(version, numbers):
    assert release(version) == numbers


@pytest.mark.parametrize("version", ["", "latest", "None", "+cu130"])
def test_text_that_is_no_version_is_named(version):
    with pytest.raises(ArmstageError, match=f"`{version}`".replace("+", r"\+")):
        release(version)


@pytest.mark.parametrize(
    ("version", "condition", "met"),
    [
        ("2.11.0", ">=2.11,<2.12", True),
        ("2.12.0", ">=2.11,<2.12", False),
        ("2.12.0", "<2.12.1", True),
        ("2.9.1", ">=2.10", False),
        ("2.11.0+cu130", "==2.11", True),
        ("3.14.1", "!=3.14.1", False),
        ("0.11.1", ">0.11", True),
        ("0.11", "<=0.11.0", True),
    ],
)
def test_conditions(version, condition, met):
    assert matches(version, condition) is met


def test_a_condition_that_is_none_is_named():
    with pytest.raises(ArmstageError, match=r"`~=2\.11`"):
        matches("2.11", "~=2.11")


@pytest.mark.parametrize(
    ("version", "met"), [("3.9", False), ("3.10", True), ("3.12.12", True), ("3.14", True), ("3.15.0", False)]
)
def test_spans_include_both_ends(version, met):
    assert within(version, "3.10-3.14") is met


@pytest.mark.parametrize("version", ["3.12", "3.12.12", " 3.12 ", "3.12.0rc1", "3.12.12+20260203", 3.12])
def test_minor_versions(version):
    assert minor(version) == "3.12"


@pytest.mark.parametrize(
    "version", ["3", "3.13t", "3.12x", "python3.12", "cp312", "3.12-3.13", "\N{ARABIC-INDIC DIGIT THREE}.12"]
)
def test_what_has_no_minor_version(version):
    with pytest.raises(ArmstageError, match=f"`{version}`"):
        minor(version)
