"""What the nodes of a fleet answer, and draining: the parts without Slurm."""

import base64
import shutil
import subprocess
from itertools import zip_longest

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.slurm import drain, fleet, nodes


def answer(output, status=0):
    return fleet.parse_answer(("gb01", str(status), base64.b64encode(output.encode()).decode()))


@pytest.mark.parametrize(
    ("output", "status", "verdict", "detail"),
    [
        ('{"lines": ["A1 PASS: aarch64"], "verdict": "ready"}', 0, "ready", ""),
        ('{"lines": ["A1 PASS: x", "G3 WARN: hot", "G5 INFO: y"]}', 1, "warnings", "G3 WARN: hot"),
        ('{"lines": ["A2 FAIL: cpu", "G3 WARN: hot"]}', 2, "blocked", "A2 FAIL: cpu; G3 WARN: hot"),
        ("Traceback ...\nKeyError: 'x'\n", 1, "failed", "KeyError: 'x'"),
        ("", 126, "failed", "exit status 126"),
        ("half a li", 124, "timed out", "half a li"),
        ("", 137, "timed out", ""),
        ('{"lines": []}', 3, "failed", ""),
    ],
)
def test_what_one_node_says(output, status, verdict, detail):
    found = answer(output, status)
    assert (found.verdict, found.detail) == (verdict, detail)


def labelled(texts, size=1024):
    """What `srun --label` prints of these tasks: pieces of them, in turn, each with a newline of its own."""
    pieces = [[text[at : at + size] for at in range(0, len(text), size)] for text in texts]
    lines = [
        f"{task}: {line}"
        for turn in zip_longest(*pieces, fillvalue="")
        for task, piece in enumerate(turn)
        for line in piece.splitlines()
    ]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("size", [1, 7, 1024, 10**6])
def test_answers_that_arrive_in_pieces_between_each_other_are_whole(size):
    said = {f"gb{number:02}": base64.b64encode(f"{number}".encode() * 5000).decode() for number in range(12)}
    texts = [f"hello\narmstage-fleet {node} 0 {text}.\n" for node, text in said.items()]
    assert fleet.whole(labelled(texts, size)) == [(node, "0", text) for node, text in said.items()]


def test_an_answer_that_was_cut_off_is_none():
    text = f"armstage-fleet gb01 0 {base64.b64encode(b'x' * 3000).decode()}.\n"
    assert len(fleet.whole(labelled([text]))) == 1
    assert fleet.whole(labelled([text[:-2]])) == fleet.whole(labelled([text[:40]])) == fleet.whole("") == []


def test_the_shell_says_what_whole_reads():
    command = [*("/bin/sh", "-c", fleet.ANSWER, "sh", "5"), *("sh", "-c", "echo out; echo err >&2; exit 3")]
    environ = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": "gb07"}
    text = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    assert [fleet.parse_answer(found) for found in fleet.whole(labelled([text]))] == [
        fleet.Answer("gb07", "failed", "err")
    ]


def test_what_the_report_is_given():
    findings = {"checks": [], "lines": [], "verdict": "ready"}
    answers = [
        fleet.Answer("a", "ready", "", findings),
        fleet.Answer("b", "timed out", "half a li"),
        fleet.Answer("c", "ready", "", {"ok": True, "torch": "2.11.0"}),
        *(fleet.Answer(verdict, verdict, "why") for verdict in ("failed", "no answer", "busy", "unusable")),
    ]
    results = fleet.results(answers, 300)
    assert results["a"] == findings
    assert results["b"]["msg"] == "timed out after 300 s: half a li"
    assert results["c"]["msg"].startswith("It has no `bin/armstage-preflight`; ")
    assert [name for name, result in results.items() if not result.get("asked", True)] == ["busy", "unusable"]
    assert all(results[name]["msg"] == f"{name}: why" for name in ("failed", "no answer", "busy", "unusable"))
    assert len({result["hint"] for name, result in results.items() if name != "a"}) == 6


def test_busy_and_unusable_nodes_are_not_asked():
    found = [nodes.Node(name, states=(state,)) for name, state in {"a": "IDLE", "b": "ALLOCATED", "c": "DOWN"}.items()]
    asked, others = fleet.select(found, {"a": "", "b": "", "c": "is down"})
    assert asked == ["a"]
    assert [(other.node, other.verdict) for other in others] == [("b", "busy"), ("c", "unusable")]


def test_nodes_that_say_the_same_share_a_line_and_the_worst_come_last():
    answers = [fleet.Answer(f"gb{number:02}", "ready") for number in range(1, 17)]
    answers.insert(3, fleet.Answer("gx", "no answer", "hangs"))
    lines = fleet.table(answers)
    assert lines[0].split() == ["ready", "16", "gb[01-16]"]
    assert lines[1].split() == ["no", "answer", "1", "gx", "hangs"]
    assert fleet.exit_status(answers) == 2
    assert fleet.exit_status(answers[:3]) == 0
    assert fleet.exit_status([*answers[:3], fleet.Answer("x", "busy")]) == 1


def test_one_srun_asks_all(monkeypatch):
    monkeypatch.setattr("os.environ", {})
    command = fleet.Fleet(["preflight", "--json"], ["gb01", "gb02", "gb04"], "gb200").argv()
    assert {"--nodelist=gb[01-02,04]", "--nodes=3", "--ntasks=3", "--no-kill", "--label", "--partition=gb200"} <= set(
        command
    )
    monkeypatch.setattr("os.environ", {"SLURM_JOB_ID": "7"})
    command = fleet.Fleet(["preflight"], ["gb01"], "gb200").argv()
    assert {"--jobid=7", "--overlap"} <= set(command)
    assert not any(word.startswith("--partition") for word in command)


@pytest.fixture
def srun(tmp_path, monkeypatch):
    """Ask two nodes by an srun that is this script."""

    def call(script):
        (tmp_path / "srun").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "srun").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return fleet.ask(fleet.Fleet(["preflight"], ["gb01", "gb02"], seconds=0, wait=-29))  # a second in all

    return call


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("echo 'srun: error: Node failure on gb01' >&2; exit 1", "Node failure on gb01"),
        ("exit 0", "the nodes were not to be had, or hang"),
        ("exec sleep 30", "the nodes were not to be had, or hang"),
        ("echo '0: hello, this is a TaskProlog'; exit 143", "the nodes were not to be had, or hang"),
    ],
)
def test_where_no_node_answers_each_of_them_is_said_to(srun, script, detail):
    answers = srun(script)
    assert answers == [fleet.Answer(name, "no answer", detail) for name in ("gb01", "gb02")]
    assert fleet.exit_status(answers) == 2
    assert fleet.results(answers, 300)["gb02"]["asked"]


@pytest.mark.parametrize(
    ("script", "message", "hint"),
    [
        (
            "echo 'srun: error: Unable to allocate resources: Invalid partition name specified' >&2; "
            "exit $SLURM_EXIT_ERROR",
            "Unable to allocate resources: Invalid partition name specified",
            "--partition",
        ),
        ("echo 'srun: error: Invalid --time specification' >&2; exit 255", "Invalid --time specification", "--srun"),
        (
            "echo 'srun: fatal: Could not establish a configuration source' >&2; exit 1",
            "srun: fatal: Could not establish a configuration source",
            "Run this on a host of the cluster",
        ),
    ],
)
def test_an_srun_that_asks_nobody_is_an_error(srun, script, message, hint):
    with pytest.raises(ArmstageError) as error:
        srun(script)
    assert error.value.message == f"None of `gb[01-02]` was asked: {message}"
    assert hint in error.value.hint


@pytest.mark.skipif(not shutil.which("srun"), reason="needs Slurm's srun")
def test_the_real_srun_without_a_controller_asks_nobody(tmp_path, monkeypatch):
    conf = tmp_path / "slurm.conf"
    lines = ("ClusterName=x", "SlurmctldHost=x(127.0.0.1)", "SlurmctldPort=9", "AuthType=auth/none", "MessageTimeout=2")
    conf.write_text("\n".join((*lines, "NodeName=gb01 NodeAddr=127.0.0.1", "PartitionName=p Nodes=gb01", "")))
    monkeypatch.setattr("os.environ", {"SLURM_CONF": str(conf), "HOME": str(tmp_path)})
    with pytest.raises(ArmstageError) as error:
        fleet.ask(fleet.Fleet(["preflight"], ["gb01"], seconds=0, wait=0))
    assert error.value.message.startswith("None of `gb01` was asked: Unable to allocate resources: Unable to contact")
    assert "scontrol ping" in error.value.hint


NODES = [
    nodes.Node("free", states=("IDLE",)),
    nodes.Node("ours", states=("IDLE", "DRAIN"), reason="armstage: driver 590 [root@2026-01-01T00:00:00]"),
    nodes.Node("theirs", states=("MIXED", "DRAIN"), reason="xid 79 [ops@2026-01-01T00:00:00]"),
]


@pytest.mark.parametrize(("state", "updated"), [("drained", ("free",)), ("resumed", ("ours",))])
def test_only_what_was_drained_here_is_resumed(state, updated):
    plan = drain.plan(NODES, state, "armstage:")
    assert plan.update == updated
    assert list(plan.kept) == ["theirs"]
    assert "xid 79" in plan.kept["theirs"]
