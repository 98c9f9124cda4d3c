"""What holds for every choice, over the whole data."""

import contextlib
import re

from ansible.module_utils.armstage import torch_index
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.versions import release
from hypothesis import given, settings
from hypothesis import strategies as st

from .nodes import DATA, KNOWN, MAY, choose

CUDAS = st.sampled_from([f"{major}.{minor}" for major in range(11, 15) for minor in range(10)])
CAPABILITIES = st.lists(
    st.sampled_from(["7.5", "8.0", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1", "13.0", None]), max_size=3
)
TORCHES = st.sampled_from(KNOWN.versions("torch"))
PYTHONS = st.sampled_from(["3.9", "3.10", "3.12", "3.13", "3.14", "3.15"])


@st.composite
def wanted_sets(draw):
    """A torch with partners that go with it, or without them."""
    torch = draw(TORCHES)
    partners = {name: KNOWN.partners(name, torch) for name in ("torchvision", "torchcodec")}
    chosen = {name: draw(st.sampled_from([None, *versions])) for name, versions in partners.items()}
    return {"torch": torch, "python": draw(PYTHONS), **chosen}


def tag_or_error(cuda, capabilities, wanted):
    try:
        return choose(cuda, capabilities, **wanted)["tag"], ""
    except ArmstageError as error:
        return None, error.hint


@settings(max_examples=300, deadline=None)
@given(CUDAS, CAPABILITIES, wanted_sets())
def test_a_choice_keeps_every_part_of_the_rule(cuda, capabilities, wanted):
    tag, hint = tag_or_error(cuda, capabilities, wanted)
    if tag is None:
        assert hint
        return
    index = DATA["indexes"][tag]
    assert release(index["cuda"]) <= release(cuda)
    assert tag != "cpu"
    assert all(wanted[name] is None or wanted[name] in index[name] for name in ("torch", "torchvision", "torchcodec"))
    for capability in filter(None, capabilities):
        major = capability.split(".")[0]
        assert index["ptx"] or major in {built.split(".")[0] for built in index["architectures"]}


@settings(max_examples=300, deadline=None)
@given(CUDAS, CUDAS, CAPABILITIES, wanted_sets())
def test_a_newer_driver_never_gets_an_older_index(one, other, capabilities, wanted):
    older, newer = sorted([one, other], key=release)
    before, _hint = tag_or_error(older, capabilities, wanted)
    after, _hint = tag_or_error(newer, capabilities, wanted)
    if before:
        assert after
        assert release(DATA["indexes"][after]["cuda"]) >= release(DATA["indexes"][before]["cuda"])


@settings(max_examples=300, deadline=None)
@given(CUDAS, CAPABILITIES, wanted_sets())
def test_every_way_out_is_one(cuda, capabilities, wanted):
    tag, hint = tag_or_error(cuda, capabilities, wanted)
    if tag or None in capabilities or not capabilities:
        return
    for text, index in re.findall(r"tage (torch .*?) from (cu\d+)", hint):
        versions = dict(re.findall(r"(torch\w*) ([\d.]+)", text))
        assert choose(cuda, capabilities, python=wanted["python"], **versions)["tag"] == index
    for driver, index in re.findall(r"\(CUDA ([\d.]+)\), for which (cu\d+)", hint):
        assert choose(driver, capabilities, **wanted)["tag"] == index


JUNK = st.recursive(
    st.none() | st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner, max_size=2), max_leaves=3
)


@settings(max_examples=300, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "status": st.sampled_from(["ok", "no-driver", "wedged", "odd", ""]) | JUNK.map(str),
            "arch": st.just("aarch64") | st.text(max_size=5),
            "cuda_version": CUDAS | st.none() | st.text(max_size=5),
            "gpus": st.none()
            | st.lists(
                st.fixed_dictionaries({"compute_capability": st.none() | st.text("0123456789.", max_size=5)}),
                max_size=2,
            ),
        },
    )
)
def test_facts_of_any_content_give_a_choice_or_a_clear_error(given):
    with contextlib.suppress(ArmstageError):
        choice = torch_index.choose(given, DATA, **MAY)
        assert release(choice["cuda"]) <= release(given["cuda_version"])
