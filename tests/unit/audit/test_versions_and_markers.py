"""PEP 440 and PEP 508 as the reference implementation reads them."""

import itertools

import pytest
from ansible.module_utils.armstage.audit.pep440 import Specifier, Version
from ansible.module_utils.armstage.audit.pep508 import AARCH64, X86_64, Marker, Requirement, normalize
from packaging.markers import Marker as ReferenceMarker
from packaging.specifiers import SpecifierSet
from packaging.version import Version as ReferenceVersion

VERSIONS = [
    "0.0.0.dev0",
    "0.0.0",
    "0.11.1",
    "1!1.0",
    "2",
    "2.10.0a1.dev3",
    "2.10.0a1",
    "2.10.0b2",
    "2.10.0",
    "2.10.0.post2.dev1",
    "2.11",
    "2.11.0",
    "2.11.0+abc",
    "2.11.0+cpu",
    "2.11.0+cu130",
    "2.11.0+cu130.2",
    "2.12.0.dev20260101",
    "2.12.0rc1",
    "2.12",
    "2.12.0.post1",
    "2.12-1",
    "v3.0",
]


def test_versions_order_as_the_reference_does():
    for left, right in itertools.product(VERSIONS, repeat=2):
        ours = Version.parse(left) < Version.parse(right), Version.parse(left) == Version.parse(right)
        reference = ReferenceVersion(left), ReferenceVersion(right)
        assert ours == (reference[0] < reference[1], reference[0] == reference[1]), (left, right)


def conditions():
    for version in VERSIONS:
        for operator in ("==", "!=", "<=", ">=", "<", ">", "~="):
            if ("+" in version and operator not in ("==", "!=")) or (operator == "~=" and version == "2"):
                continue
            yield operator + version
    yield from ("==2.11.*", "!=2.11.*", "==2.*", "!=1!1.*", "==0.0.*", ">=2.10,<2.12,!=2.11.0", "===2.11.0+cpu", "")


def test_conditions_admit_what_the_reference_admits():
    for condition, version in itertools.product(conditions(), VERSIONS):
        expected = SpecifierSet(condition).contains(version, prereleases=True)
        assert Specifier.parse(condition).admits(version) == expected, (condition, version)


@pytest.mark.parametrize("text", ["2.x", "", "latest", ">=", "torch", "^2.1", ">=2.1;<3"])
def test_what_is_no_version_or_condition_is_refused(text):
    with pytest.raises(ValueError, match="is not a version"):
        Version.parse(text)
    if text:
        with pytest.raises(ValueError, match="is not a"):
            Specifier.parse(text)


MARKERS = [
    "platform_machine != 'aarch64'",
    "sys_platform != 'win32' and (sys_platform != 'linux' or (platform_machine != 'aarch64' and "
    "platform_machine != 'arm64')) and (sys_platform != 'darwin' or platform_machine != 'x86_64')",
    "(sys_platform == 'linux' and platform_machine == 'x86_64') or sys_platform == 'darwin'",
    "python_version < '3.10'",
    "python_full_version == '3.12.*'",
    "'linux' in sys_platform",
    "sys_platform not in 'linux darwin'",
    '"x86_64" == platform_machine',
    "platform_machine in 'x86_64 aarch64'",
    "platform_python_implementation == 'CPython' or os_name == 'nt'",
    "implementation_name == 'cpython' and platform_system == 'Linux'",
]


@pytest.mark.parametrize("text", MARKERS)
def test_markers_hold_where_the_reference_says(text):
    for machine, system, python in itertools.product(("x86_64", "aarch64"), ("linux", "darwin"), ("3.9", "3.12")):
        environment = {
            **AARCH64,
            "platform_machine": machine,
            "sys_platform": system,
            "python_version": python,
            "python_full_version": f"{python}.1",
            "extra": "",
        }
        assert Marker.parse(text).holds(environment) == ReferenceMarker(text).evaluate(environment)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("extra == 'gpu'", None),
        ("extra == 'gpu' and platform_machine == 'x86_64'", False),
        ("extra == 'gpu' or platform_machine == 'aarch64'", True),
        ("python_version >= '3.12' and sys_platform == 'linux'", None),
    ],
)
def test_what_is_not_known_leaves_a_marker_open(text, holds):
    assert Marker.parse(text).holds(AARCH64) is holds


@pytest.mark.parametrize(
    "text",
    [
        "platform_machine",
        "== 'x'",
        "platform_machine == 'x' and",
        "(sys_platform == 'linux'",
        "a == b",
        "x = 'y'",
        "'a' == 'b'",
    ],
)
def test_what_is_no_marker_is_refused(text):
    with pytest.raises(ValueError, match="is not a marker"):
        Marker.parse(text)


def test_requirements_in_every_form():
    plain = Requirement.parse("Torch_Codec[a, b] (>=0.11,<1)")
    assert (plain.name, plain.extras, str(plain.specifier)) == ("torch-codec", ("a", "b"), ">=0.11,<1")
    linked = Requirement.parse("x @ git+https://example.org/x.git@main#egg=x ; platform_machine == 'x86_64'")
    assert linked.url == "git+https://example.org/x.git@main#egg=x"
    assert linked.excludes_aarch64
    assert not Requirement.parse("x; sys_platform == 'darwin'").excludes_aarch64
    assert not Requirement.parse("x; sys_platform == 'linux'").excludes_aarch64
    assert Requirement.parse("x; extra == 'y' and platform_machine != 'aarch64'").excludes_aarch64
    assert Requirement.parse("x").applies_to(X86_64)
    assert normalize("Flash_Attn") == "flash-attn"
    for text in ("", "-r x", "./local", "a b", "x==", "x; platform"):
        with pytest.raises(ValueError, match="is not a"):
            Requirement.parse(text)
