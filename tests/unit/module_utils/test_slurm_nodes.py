"""Nodes as Slurm 20 to 25 print them, and each state that keeps one from taking work."""

import json
from dataclasses import asdict

import pytest
import yaml
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.slurm import nodes

RECORDED = [
    *("20.11-one-line.txt", "21.08.json", "23.02-several-lines.txt"),
    # What the lab's cluster printed.
    *("22.05-one-line.txt", "22.05.json", "24.11-one-line.txt", "24.11.json"),
]
FREE = ("IDLE", "MIXED", "ALLOCATED")


def node(state, **fields):
    return nodes.Node("gb01", architecture="aarch64", states=nodes.states_of(state), **fields)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_forms(fixtures, name):
    path = fixtures / "scontrol" / name
    found = {each.name: each for each in nodes.parse(path.read_text())}
    expected = yaml.safe_load(path.with_suffix(".yml").read_text())
    assert list(found) == list(expected)
    for host, values in expected.items():
        unusable = values.pop("unusable")
        assert found[host].unusable() == unusable
        seen = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(found[host]).items()}
        assert {key: seen[key] for key in values} == values


# G-2, G-3, G-4: the same node, as different releases and commands write it.
@pytest.mark.parametrize(
    ("forms", "states"),
    [
        (("DOWN*", "DOWN+NOT_RESPONDING", "down*", "DOWN+NO_RESPOND"), ("DOWN", "NOT_RESPONDING")),
        (("IDLE+DRAIN", "DRAINED", "idle+drain", "DRAIN+IDLE"), ("IDLE", "DRAIN")),
        (("ALLOCATED+DRAIN", "draining", "DRNG", "alloc+drain"), ("ALLOCATED", "DRAIN")),
        (("ALLOCATED+FAIL", "failing", "FAILG"), ("ALLOCATED", "FAIL")),
        (("MIXED+DRAIN", "mix+drain"), ("MIXED", "DRAIN")),
        (("IDLE~", "IDLE+POWERED_DOWN", "IDLE+POWER", "idle~"), ("IDLE", "POWERED_DOWN")),
        (("MIXED-", "mix-", "MIXED+PLANNED"), ("MIXED", "PLANNED")),
        (("IDLE+CLOUD+POWER", "IDLE+CLOUD+POWERED_DOWN"), ("IDLE", "CLOUD", "POWERED_DOWN")),
        (("DOWN*+DRAIN",), ("DOWN", "NOT_RESPONDING", "DRAIN")),
        (("MAINT", "IDLE+MAINTENANCE", "IDLE$"), ("IDLE", "MAINTENANCE")),
        (("planned",), ("IDLE", "PLANNED")),
        (("",), ("UNKNOWN",)),
    ],
)
def test_one_state_in_all_its_forms(forms, states):
    assert {nodes.states_of(form) for form in forms} == {states}


@pytest.mark.parametrize("base", FREE)
@pytest.mark.parametrize("flag", sorted(set(nodes.UNUSABLE) - set(nodes.BASE_STATES)))
def test_each_flag_by_itself_keeps_a_free_node_out(base, flag):
    assert nodes.UNUSABLE[flag] in node(f"{base}+{flag}").unusable()
    assert node(f"{base}+{flag}").unusable(tolerate=[flag]) == ""


@pytest.mark.parametrize("base", FREE)
@pytest.mark.parametrize("flag", nodes.HARMLESS)
def test_a_harmless_flag_keeps_no_node_out(base, flag):
    assert node(f"{base}+{flag}").unusable() == ""


@pytest.mark.parametrize("base", ["DOWN", "UNKNOWN", "ERROR", "FUTURE"])
def test_a_node_that_is_not_up_is_out_whatever_else_is_said(base):
    assert nodes.UNUSABLE[base] in node(f"{base}+CLOUD").unusable()


def test_a_state_of_a_later_release_is_not_taken_for_a_free_node():
    assert node("IDLE+HAUNTED").unusable() == "its state `HAUNTED` is not known"


@pytest.mark.parametrize(
    ("gres", "count", "types"),
    [
        ("gpu:gb200:4(S:0-1)", 4, ("gb200",)),
        ("gpu:4(S:0-1)", 4, ()),
        ("gpu", 1, ()),
        ("gpu:gb200", 1, ("gb200",)),
        ("gpu:a100:2(S:0,2),gpu:h100:2,shard:64,mps:100(S:0)", 4, ("a100", "h100")),
        ("gpu:a100:no_consume:2", 2, ("a100",)),
        ("(null)", 0, ()),
        ("shard:gb200:8", 0, ()),
        ("gpu:a100:\N{SUPERSCRIPT TWO}", 1, ("a100",)),
    ],
)
def test_gpus_of_gres(gres, count, types):
    assert nodes.count_gpus(gres) == (count, types)


def test_gpus_that_are_asked_for():
    assert node("IDLE", gpus=1).unusable(gpus=4) == "has 1 GPUs, not 4"


def test_an_idle_node_comes_before_one_that_must_first_be_started_or_freed():
    states = ("ALLOCATED", "MIXED", "IDLE+POWERED_DOWN", "IDLE+CLOUD")
    assert [node(state).eagerness for state in states] == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slurm_load_node error\n", "slurm_load_node error"),
        ('{"sinfo": []}', "`sinfo`"),
        ('{"nodes": [', "JSON"),
        ("{}", "found: `{}`"),
        ('{"nodes": null}', "a list as `nodes` .* received: `null`"),
        ('{"nodes": {"gb01": {"state": "idle"}}}', "a list as `nodes` .* `{.gb01"),
        ('{"nodes": ["gb01"]}', "`name` .* received: `.gb01.`"),
        ('{"nodes": [{"architecture": "aarch64"}]}', "`name` .* received: `{.architecture"),
    ],
)
def test_what_are_no_nodes_is_refused(text, words):
    with pytest.raises(ArmstageError, match=words):
        nodes.parse(text)


def test_a_cluster_without_nodes():
    assert (
        nodes.parse("") == nodes.parse("No nodes in the system\n") == nodes.parse('{"nodes": [], "errors": []}') == []
    )


def test_an_error_within_the_json_is_no_cluster_without_nodes():
    error = {"description": "slurm_load_node", "error_number": 1800, "error": "Unable to contact slurm controller"}
    with pytest.raises(ArmstageError, match="Unable to contact slurm controller") as raised:
        nodes.parse(json.dumps({"nodes": [], "errors": [error], "warnings": []}))
    assert "scontrol ping" in raised.value.hint


def test_lists_of_json_are_read_as_text_as_well():
    entry = {"name": "gb01", "architecture": "aarch64", "partitions": ["all"]}
    text = {**entry, "state": "idle", "state_flags": "DRAIN", "gres": "gpu:a:2(S:0,1),gpu:b:2(S:0,1)"}
    lists = {**entry, "state": ["IDLE", "DRAIN"], "gres": ["gpu:a:2(S:0,1)", "gpu:b:2(S:0,1)"]}
    (one,), (other,) = (nodes.parse(json.dumps({"nodes": [form]})) for form in (text, lists))
    assert one == other
    assert (one.gpus, one.states) == (4, ("IDLE", "DRAIN"))
