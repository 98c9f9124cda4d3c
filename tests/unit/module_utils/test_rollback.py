"""Where links go back to, and what is refused."""

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.history import HISTORY, History, State
from ansible.module_utils.armstage.rollback import Observed, make_plan

UV = {"uv-aarch64": "store/uv-0.10.0-eb95d28590ed"}
NEWER_UV = {"uv-aarch64": "store/uv-0.11.0-aaaaaaaaaaaa"}
CU128 = {"envs/cu128": "../store/env-cu128-2.11.0-0123456789ab"}
CU130 = {"envs/cu130": "../store/env-cu130-2.11.0-9f8e7d6c5b4a"}
FIRST = {**UV, **CU128}
SECOND = {**FIRST, **CU130}
NODES = {"gb01": {"driver": "580.95.05", "cuda": "13.0", "index": "cu130"}}


def states(*links):
    return tuple(State(str(number), each) for number, each in enumerate(links))


def observed(links, *recorded, without=()):
    named = [target.partition("store/")[2] for each in (UV, NEWER_UV, CU128, CU130) for target in each.values()]
    releases = {folder: "2026" for folder in named if folder not in without}
    return Observed(History(NODES, states(*recorded)), links, releases, "/work/root")


def made(to, *arguments, **options):
    return make_plan(to, observed(*arguments, **options), "now")


def test_previous_takes_away_what_the_last_run_linked():
    plan = made("previous", SECOND, FIRST, SECOND)
    assert plan.moves == {"envs/cu130": None}
    assert plan.history == History(NODES, states(FIRST))


def test_previous_brings_back_an_older_version_of_every_component():
    plan = made("previous", {**SECOND, **NEWER_UV}, SECOND, {**SECOND, **NEWER_UV})
    assert plan.moves == UV


def test_previous_again_goes_further_back():
    once = made("previous", SECOND, UV, FIRST, SECOND)
    assert made("previous", FIRST, *(state.links for state in once.history.states)).moves == {"envs/cu128": None}


def test_previous_undoes_a_run_that_did_not_get_to_its_end():
    plan = made("previous", {**SECOND, **NEWER_UV}, FIRST, SECOND)
    assert plan.moves == UV
    assert plan.history == History(NODES, states(FIRST, SECOND))


def test_a_rollback_that_was_cut_short_ends_where_it_would_have():
    """The record is written first: the links are then in no state that is on it, and the last one is gone to."""
    cut = made("previous", {**SECOND, **NEWER_UV}, FIRST, {**SECOND, **NEWER_UV})
    half_way = {**SECOND, **UV}
    assert made("previous", half_way, *(state.links for state in cut.history.states)).moves == {"envs/cu130": None}


@pytest.mark.parametrize(
    ("recorded", "words"),
    [((), ["no record", f"`/work/root/{HISTORY}`", "./armstage stage"]), ((FIRST,), ["nothing before", "--to cu128"])],
)
def test_nothing_to_go_back_to_is_said(recorded, words):
    with pytest.raises(ArmstageError) as error:
        made("previous", FIRST, *recorded)
    assert all(word in f"{error.value.message} {error.value.hint}" for word in words)


def test_a_release_that_was_pruned_is_named_and_nothing_moves():
    with pytest.raises(ArmstageError, match=r"`uv-0\.10\.0-eb95d28590ed` of `uv-aarch64` is no longer staged") as error:
        made("previous", {**SECOND, **NEWER_UV}, SECOND, {**SECOND, **NEWER_UV}, without=["uv-0.10.0-eb95d28590ed"])
    assert "armstage_keep" in error.value.hint


def test_a_tag_takes_the_newer_ones_out_of_use():
    newer = {"envs/cu132": "../store/env-cu130-2.11.0-9f8e7d6c5b4a"}
    plan = made("cu128", {**SECOND, **newer}, {**SECOND, **newer})
    assert plan.moves == {"envs/cu130": None, "envs/cu132": None}
    assert plan.history.states[-1] == State("now", FIRST)


def test_a_tag_leaves_the_older_ones_for_nodes_that_need_them():
    assert made("cu130", SECOND, SECOND).moves == {}


def test_previous_undoes_a_tag():
    plan = made("cu128", SECOND, FIRST, SECOND)
    back = made("previous", FIRST, *(state.links for state in plan.history.states))
    assert back.moves == CU130


def test_a_tag_that_is_staged_but_not_linked_is_linked_again():
    assert made("cu130", FIRST, FIRST).moves == CU130


def test_already_there_changes_nothing():
    plan = made("cu128", FIRST, FIRST)
    assert (plan.moves, plan.history) == ({}, History(NODES, states(FIRST)))
    assert plan.message.startswith("Already there")


@pytest.mark.parametrize("tag", ["cu126", "cpu", "nonsense"])
def test_a_tag_that_is_not_staged_is_refused_with_those_that_are(tag):
    with pytest.raises(ArmstageError, match=f"`{tag}` is staged; there are cu128, cu130") as error:
        made(tag, SECOND, SECOND)
    assert f"armstage_index={tag}" in error.value.hint
