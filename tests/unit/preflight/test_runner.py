"""Whatever a check does, there is one finding for each, in time; and what the findings come to."""

import json
import os
import time

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.preflight import catalogue, runner
from ansible.module_utils.armstage.preflight.model import PASS, Fact, Finding, Outcome, plain, verdict, worst
from ansible.module_utils.armstage.preflight.request import NUMBERS, Request, numbers, workload


class Planted:
    """A check that does as it is told."""

    needs = ()

    def __init__(self, number, action):
        self.id, self.name, self.action = number, f"check {number}", action

    def run(self, context):
        return self.action(context)


def passes(_context):
    return Finding(PASS, "fine", facts=(Fact("a", "b", "c"),), data={"x": [1]})


def raises(_context):
    raise KeyError("x")


def refuses(_context):
    raise ArmstageError("`x` is not there", hint="make it")


def crashes(_context):
    os.kill(os.getpid(), 9)


def hangs(_context):
    time.sleep(60)


@pytest.fixture
def plant(monkeypatch):
    def call(**actions):
        monkeypatch.setattr(runner, "CHECKS", [Planted(number, action) for number, action in actions.items()])
        monkeypatch.setattr(runner, "GRACE", 0.2)

    return call


@pytest.mark.parametrize(
    ("action", "word"),
    [
        (raises, "could not be judged: KeyError: 'x'"),
        (refuses, "could not be judged: `x` is not there"),
        (crashes, "could not be judged: the process that looked has crashed"),
        (hangs, "could not be judged: it did not return within 0.5 s"),
    ],
)
def test_a_check_never_takes_the_others_with_it(plant, action, word):
    plant(A1=passes, A2=action, G1=passes)
    seen, started = [], time.monotonic()
    result = runner.run_checks(Request(timeout=0.3), seen.append)
    assert time.monotonic() - started < 5
    assert [check["id"] for check in result["checks"]] == ["A1", "A2", "G1"] == [outcome.id for outcome in seen]
    assert [check["status"] for check in result["checks"]] == ["PASS", "WARN", "PASS"]
    assert result["checks"][1]["detail"].startswith(word)
    assert result["checks"][2]["facts"] == [{"name": "a", "value": "b", "source": "c"}]
    assert result["verdict"] == "ready-with-warnings"


def test_every_check_hangs(plant):
    plant(A1=hangs, A2=hangs, A3=hangs)
    result = runner.run_checks(Request(timeout=0.1))
    assert len(result["checks"]) == 3


def test_the_host_is_described_also_after_a_check_that_hung(plant):
    plant(A1=passes, A2=hangs, A3=passes)
    assert runner.run_checks(Request(timeout=1), describe=True)["host"]["kernel"]


def test_sampling_gets_its_time():
    sampled = next(check for check in catalogue.CHECKS if check.id == "G4")
    other = next(check for check in catalogue.CHECKS if check.id == "G3")
    request = Request(timeout=10, sample=600)
    assert runner.limit(sampled, request) - runner.limit(other, request) == 600


def test_the_catalogue_holds_the_numbers_that_are_an_interface():
    assert tuple(check.id for check in catalogue.CHECKS) == NUMBERS
    assert len({check.name for check in catalogue.CHECKS}) == 15


def test_checks_are_chosen_and_switched_off():
    request = Request(checks=("A2", "G9", "A1"), skip=("A1",))
    assert [check["id"] for check in runner.run_checks(request)["checks"]] == ["A2", "G9"]


@pytest.mark.parametrize("options", [{"checks": ("G11",)}, {"skip": ("a1",)}, {"timeout": 0}, {"sample": -1}])
def test_requests_that_make_no_sense(options):
    with pytest.raises(ArmstageError):
        Request(**options)


def test_numbers_as_people_type_them():
    assert numbers(["g1,G3", "a1 A2", ""]) == ("G1", "G3", "A1", "A2")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        (90, 90 * 2**30),
        ("90", 90 * 2**30),
        ("1.5GiB", 3 * 2**29),
        ("96 GB", 96 * 10**9),
        ("512MiB", 2**29),
        ("1T", 2**40),
        ({"memory_gib": 90}, 90 * 2**30),
        ({"memory": "96GB"}, 96 * 10**9),
    ],
)
def test_workloads(value, expected):
    assert workload(value) == expected


@pytest.mark.parametrize("value", ["much", "-1", "0", "90 XB", {"cpu": 1}, [90]])
def test_workloads_that_are_none(value):
    with pytest.raises(ArmstageError, match="workload"):
        workload(value)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["PASS", "SKIP", "INFO"], "ready"),
        ([], "ready"),
        (["PASS", "WARN"], "ready-with-warnings"),
        (["WARN", "FAIL", "PASS"], "blocked"),
    ],
)
def test_verdicts(statuses, expected):
    assert verdict(statuses) == expected


def test_a_line_stays_one_line_whatever_a_node_says():
    finding = Finding("FAIL", "a\nb\x1b[31m\tc\u202e\udcff")
    assert Outcome("G1", "x", finding).line == "G1 FAIL: a b [31m c \\udcff"
    assert json.dumps(Outcome("G1", "x", finding).as_dict())
    assert plain("\r\n x \n") == "x"


def test_several_problems_make_one_finding():
    problems = [Finding("WARN", "w", "do w", "s"), Finding("FAIL", "f", "do f"), Finding("WARN", "w", "do w")]
    found = worst(problems, Finding("PASS", "p", facts=(Fact("a", "b", "c"),), source="t", data={"k": 1}))
    assert (found.status, found.detail, found.hint, found.source) == ("FAIL", "f; w", "do f; do w", "s")
    assert (found.facts, found.data) == ((Fact("a", "b", "c"),), {"k": 1})
