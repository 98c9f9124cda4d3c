"""Whatever a check does, there is one finding for each, in time; and what the findings come to."""

import json
import os
import time

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.preflight import catalogue, context, runner
from ansible.module_utils.armstage.preflight.model import PASS, Fact, Finding, Outcome, plain, verdict, worst
from ansible.module_utils.armstage.preflight.request import NUMBERS, Request, numbers, workload


class Planted:
    """A check that does as it is told; A4 is run beside the others."""

    needs = ()

    def __init__(self, number, action):
        self.id, self.name, self.action = number, f"check {number}", action
        self.beside = number == "A4"

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


def sleeps(_context):
    time.sleep(0.5)
    return passes(None)


def names_the_machine(context):
    return Finding(PASS, context.machine)


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


def test_what_takes_long_and_only_reads_files_is_run_beside_the_others(plant):
    plant(A3=sleeps, A4=sleeps, A5=passes)
    seen, started = [], time.monotonic()
    result = runner.run_checks(Request(), seen.append)
    assert time.monotonic() - started < 0.95
    assert [outcome.id for outcome in seen] == ["A3", "A4", "A5"]
    assert result["verdict"] == "ready"


@pytest.mark.parametrize("action", [raises, refuses, crashes, hangs])
@pytest.mark.parametrize("at_fault", ["A3", "A4"])
def test_checks_beside_each_other_do_not_fall_together(plant, at_fault, action):
    plant(**{number: action if number == at_fault else passes for number in ("A3", "A4", "A5")})
    result = runner.run_checks(Request(timeout=0.3), describe=True)
    assert {check["id"]: check["status"] == "WARN" for check in result["checks"]} == {
        number: number == at_fault for number in ("A3", "A4", "A5")
    }
    assert result["host"]["kernel"]


def test_only_what_is_run_beside_the_others(plant):
    plant(A4=passes)
    result = runner.run_checks(Request(), describe=True)
    assert ([check["status"] for check in result["checks"]], bool(result["host"])) == (["PASS"], True)


def test_the_driver_is_asked_once(plant, monkeypatch, tmp_path):
    asked = tmp_path / "asked"

    def read(*_arguments):
        with open(asked, "a") as file:
            file.write("x")
        return {"arch": "aarch64"}

    monkeypatch.setattr(context.driver, "read", read)
    plant(A3=names_the_machine, A4=names_the_machine)
    assert runner.run_checks(Request())["lines"] == ["A3 PASS: aarch64", "A4 PASS: aarch64"]
    assert asked.read_text() == "x"


def test_a_driver_that_can_not_be_read_is_said_by_each_check_that_needs_it(plant, monkeypatch):
    def read(*_arguments):
        raise ArmstageError("`/proc/x` can't be read")

    monkeypatch.setattr(context.driver, "read", read)
    plant(A3=names_the_machine, A4=names_the_machine, A5=passes)
    assert [check["status"] for check in runner.run_checks(Request())["checks"]] == ["WARN", "WARN", "PASS"]


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


@pytest.mark.parametrize("value", ["much", "-1", "0", "90 XB", "9" * 400, {"cpu": 1}, [90]])
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
