"""What -e and YAML make of a variable, and what is meant by it."""

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.wishes import as_meant, requirements, text

from .test_plan import wishes


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["numpy"], ["numpy"]),
        ("numpy", ["numpy"]),
        ("numpy,scipy==1.2", ["numpy", "scipy==1.2"]),
        ("numpy scipy", ["numpy", "scipy"]),
        ("numpy>=1,<2, scipy", ["numpy>=1,<2", "scipy"]),
        ("numpy; python_version < '3.13'", ["numpy; python_version < '3.13'"]),
        ("", []),
        (" ", []),
        (None, []),
        ([], []),
    ],
)
def test_one_package_is_not_a_package_a_letter(given, meant):
    """`-e armstage_torch_also=numpy` is a text: as a list it would be n, u, m, p and y, which are all on PyPI."""
    assert requirements("armstage_torch_also", given) == meant


@pytest.mark.parametrize("given", [5, [5], [None], [""], {"numpy": 1}, True])
def test_what_is_no_list_of_requirements(given):
    with pytest.raises(ArmstageError, match="list of requirements in `armstage_torch_also`, but received: ") as refused:
        requirements("armstage_torch_also", given)
    assert refused.value.hint


@pytest.mark.parametrize(("given", "meant"), [(" cu130 ", "cu130"), (3.12, "3.12"), (13, "13"), (None, ""), ("", "")])
def test_a_number_is_a_text_too(given, meant):
    assert text("armstage_index", given) == meant


@pytest.mark.parametrize("given", [["cu130"], {"a": 1}, True])
def test_what_is_no_text(given):
    with pytest.raises(ArmstageError, match="Expected a text in `armstage_index`, but received: ") as refused:
        text("armstage_index", given)
    assert refused.value.hint


@pytest.mark.parametrize("given", [7, "7", 7.0, "7.0", " 7 "])
def test_a_major_in_any_form(given):
    data = wishes()
    data["stack"]["ffmpeg"]["major"] = given
    assert as_meant(data)["stack"]["ffmpeg"]["major"] == 7


@pytest.mark.parametrize("given", ["abc", None, "", [7], "7.1", True])
def test_what_is_no_major(given):
    data = wishes()
    data["stack"]["ffmpeg"]["major"] = given
    with pytest.raises(ArmstageError, match="`armstage_ffmpeg_major`, but received: ") as refused:
        as_meant(data)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("part", "key", "variable"),
    [
        ("uv", "version", "armstage_uv_version"),
        ("cpython", "version", "armstage_cpython_version"),
        ("torch", "torchcodec", "armstage_torchcodec_version"),
    ],
)
def test_the_variable_of_a_version_is_named(part, key, variable):
    data = wishes()
    data["stack"][part][key] = ["1.0"]
    with pytest.raises(ArmstageError, match=f"Expected a text in `{variable}`"):
        as_meant(data)
