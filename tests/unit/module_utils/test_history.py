"""What is different from the last run, and the stack of states that a rollback goes back through."""

import pytest
from ansible.module_utils.armstage.history import (
    HISTORY,
    KEPT,
    History,
    State,
    as_nodes,
    expected_links,
    noted,
    read,
    release_of,
    since,
)

NOW = "2026-11-30T22:00:00Z"
UV = {"bin/uv-aarch64": "../store/uv-0.10.0-eb95d28590ed/uv", "uv-aarch64": "store/uv-0.10.0-eb95d28590ed"}
FFMPEG = {"ffmpeg-linuxarm64": "store/ffmpeg-n7.1.5-12-g1fdbca85aa-86226d2474c8"}
CU128 = {"envs/cu128": "../store/env-cu128-2.11.0-0123456789ab"}
CU130 = {"envs/cu130": "../store/env-cu130-2.11.0-9f8e7d6c5b4a"}
BEFORE = {**UV, **FFMPEG, **CU128}


def node(driver="570.172.08", cuda="12.8", index="cu128"):
    return {"driver": driver, "cuda": cuda, "index": index}


def history(*links, **nodes):
    return History(nodes, tuple(State(NOW, each) for each in links))


def test_the_first_run_names_what_is_new():
    assert since(History(), {"gb01": node()}, BEFORE) == [
        "gb01: new here: driver 570.172.08, CUDA 12.8, index cu128",
        "environment cu128, FFmpeg and uv staged",
    ]


def test_an_upgraded_driver_and_what_it_brought():
    now = {"gb01": node("580.95.05", "13.0", "cu130"), "gb02": node()}
    assert since(history(BEFORE, gb01=node(), gb02=node()), now, {**BEFORE, **CU130}) == [
        "gb01: driver 570.172.08 -> 580.95.05, CUDA 12.8 -> 13.0, index cu128 -> cu130",
        "environment cu130 staged; environment cu128, FFmpeg and uv unchanged",
    ]


def test_an_upgraded_driver_that_brought_nothing():
    before = node("580.95.05", "13.0", "cu130")
    assert since(history(BEFORE, gb01=before), {"gb01": node("610.43.02", "13.3", "cu130")}, BEFORE) == [
        "gb01: driver 580.95.05 -> 610.43.02, CUDA 13.0 -> 13.3, index cu130 unchanged",
        "environment cu128, FFmpeg and uv unchanged",
    ]


def test_nothing_is_said_when_nothing_is_different():
    assert since(history(BEFORE, gb01=node()), {"gb01": node()}, BEFORE) == []


def test_a_node_without_a_driver_is_named_so():
    said = since(history(BEFORE, gb01=node("", "13.0", "cu130")), {"gb01": node("580.95.05", "13.0", "cu130")}, BEFORE)
    assert said[0] == "gb01: driver none -> 580.95.05, index cu130 unchanged"


@pytest.mark.parametrize(
    ("link", "target", "sentence"),
    [
        ("ffmpeg-linuxarm64", "store/ffmpeg-n7.1.6-aaaaaaaaaaaa", "FFmpeg n7.1.5-12-g1fdbca85aa -> n7.1.6"),
        ("ffmpeg-linuxarm64", "store/ffmpeg-n7.1.5-12-g1fdbca85aa-bbbbbbbbbbbb", "FFmpeg rebuilt"),
        ("ffmpeg-linuxarm64", None, "FFmpeg no longer linked"),
        ("envs/cu128", "../store/env-cu128-2.12.0-aaaaaaaaaaaa", "environment cu128 2.11.0 -> 2.12.0"),
        ("envs/cu128", "../store/env-cu128-2.11.0-aaaaaaaaaaaa", "environment cu128 rebuilt"),
        (
            "python/cpython-3.12.12-linux-aarch64-gnu",
            "../store/cpython-3.12.12-aaaaaaaaaaaa",
            "CPython staged",
        ),
    ],
)
def test_each_fate_of_a_component(link, target, sentence):
    after = {name: to for name, to in {**BEFORE, link: target}.items() if to}
    assert since(history(BEFORE), {}, after)[-1].split("; ")[0] == sentence


def test_a_state_is_pushed_only_when_links_moved():
    first = noted(History(), {"gb01": node()}, BEFORE, NOW)
    again = noted(first, {"gb01": node()}, BEFORE, "later")
    assert again == first
    driver_only = noted(first, {"gb01": node("575.57.08", "12.9")}, BEFORE, "later")
    assert driver_only.states == first.states
    moved = noted(first, {}, {**BEFORE, **CU130}, "later")
    assert [state.created for state in moved.states] == [NOW, "later"]


def test_a_node_that_this_run_did_not_see_keeps_what_was_known():
    after = noted(history(BEFORE, gb01=node(), gb02=node()), {"gb01": node("580.95.05", "13.0", "cu130")}, BEFORE, NOW)
    assert after.nodes["gb02"] == node()


def test_only_so_many_states_are_kept():
    kept = History()
    for number in range(KEPT + 3):
        kept = noted(kept, {}, {"envs/cu130": f"../store/env-cu130-2.11.0-{number:012x}"}, str(number))
    assert [state.created for state in kept.states] == [str(number) for number in range(3, KEPT + 3)]


def test_what_is_written_is_what_is_read(tmp_path):
    (tmp_path / "share/armstage").mkdir(parents=True)
    kept = history(BEFORE, {**BEFORE, **CU130}, gb01=node())
    (tmp_path / HISTORY).write_text(kept.text())
    assert read(tmp_path) == kept


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "null", '{"states": 1}', '{"states": [{}]}', '{"states": [1]}', '{"nodes": []}'),
        *('{"nodes": {"gb01": null}}', '{"nodes": {"gb01": {"cuda": 13.0}}}'),
        *(f'{{"states": [{{"created": "2026", "links": {links}}}]}}' for links in ("null", "[]", '{"envs/cu130": 5}')),
        '{"states": [{"created": null, "links": {}}]}',
    ],
)
def test_a_damaged_record_counts_as_none(tmp_path, content):
    (tmp_path / "share/armstage").mkdir(parents=True)
    (tmp_path / HISTORY).write_text(content)
    assert read(tmp_path) == History()


def test_no_record_is_an_empty_one(tmp_path):
    assert read(tmp_path / "nothing") == History()


def test_the_links_that_check_mode_expects():
    releases = [
        {"path": "/r/store/uv-0.11.0-aaaaaaaaaaaa", "link": "/r/bin/uv-aarch64"},
        {"path": "/r/store/env-cu130-2.11.0-9f8e7d6c5b4a", "link": "/r/envs/cu130"},
        {"path": "", "link": "/r/python/cpython"},
    ]
    assert expected_links(BEFORE, "/r", releases) == {
        **FFMPEG,
        **CU128,
        **CU130,
        "bin/uv-aarch64": "../store/uv-0.11.0-aaaaaaaaaaaa/uv",
        "uv-aarch64": "store/uv-0.11.0-aaaaaaaaaaaa",
    }
    assert (
        expected_links(BEFORE, "/r", [{"path": "/r/store/uv-0.10.0-eb95d28590ed", "link": "/r/bin/uv-aarch64"}])
        == BEFORE
    )


def test_the_release_that_a_target_names():
    assert release_of("../store/uv-0.10.0-eb95d28590ed/uv") == "uv-0.10.0-eb95d28590ed"
    assert release_of("store/ffmpeg-7-aa") == "ffmpeg-7-aa"
    assert release_of("elsewhere") == ""


def test_nodes_go_on_record_as_texts():
    assert as_nodes({"gb01": {"driver": None, "cuda": 13.0, "index": "cu130", "more": 1}}) == {
        "gb01": {"driver": "", "cuda": "13.0", "index": "cu130"}
    }
