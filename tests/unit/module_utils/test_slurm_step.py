"""Command lines of srun and sbatch, frames, and the agent as a local process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.armstage.slurm import agent, allocation, commands, step
from hypothesis import given
from hypothesis import strategies as st


def test_srun_gets_a_clean_environment(monkeypatch):
    monkeypatch.setattr("os.environ", {"HOME": "/home/me", "USER": "me", "CONDA_PREFIX": "/c", "SLURM_NTASKS": "9"})
    options = step.StepOptions("7", "gb01", arguments=["--gres=none"], variables={"HTTPS_PROXY": "http://proxy"})
    command = options.command(["true"])
    assert command[:3] == ["srun", "--jobid=7", "--nodelist=gb01"]
    assert "--overlap" in command
    assert "--export=HOME,USER,PATH,LANG,HTTPS_PROXY" in command
    assert command[-2:] == ["--gres=none", "true"]
    environment = options.environment()
    assert "SLURM_NTASKS" not in environment
    assert environment["PATH"] == step.PATH
    assert environment["SLURM_EXIT_ERROR"] == "251"


def test_a_job_asks_for_what_is_named_and_nothing_else():
    request = allocation.Request("gb01", partition="gb200", time="10", gres="gpu:1", arguments=["--exclusive"])
    command = request.command()
    assert {"--nodelist=gb01", "--partition=gb200", "--time=10", "--gres=gpu:1", "--exclusive"} <= set(command)
    assert "--export=NONE" in command
    assert not any(word.startswith(("--account", "--qos", "--mem")) for word in command)
    assert command[-1] == "--wrap=exec sleep infinity"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("JobId=3 JobName=x JobState=PENDING Reason=Resources Dependency=(null)", "PENDING (Resources)"),
        ("JobId=3 JobName=x JobState=RUNNING Reason=None Dependency=(null)", "RUNNING"),
        ("JobId=3 JobName=x JobState=NODE_FAIL Reason=NodeDown Comment=x", "NODE_FAIL (NodeDown)"),
        (
            "JobId=3 JobName=a JobState=FAILED b UserId=me(1) JobState=RUNNING Reason=None Comment=JobState=FAILED"
            " AdminComment=x JobState=TIMEOUT Reason=TimeLimit",
            "RUNNING",
        ),
        ("", "not known to Slurm any more"),
    ],
)
def test_what_became_of_a_job(text, shown):
    status = allocation.parse_status(text)
    assert str(status) == shown
    assert status.over == (shown[:4] not in ("PEND", "RUNN"))
    assert "{" not in allocation.hint_for(status, "3")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("QOSMaxWallDurationPerJobLimit", "one job of the QoS may have"),
        ("QOSMaxGRESPerJob", "one job of the QoS may have"),
        ("QOSMaxNodePerJobLimit", "one job of the QoS may have"),
        ("QOSMinGRES", "one job of the QoS may have"),
        ("QOSMinCpuNotSatisfied", "one job of the QoS may have"),
        ("AssocMaxWallDurationPerJobLimit", "one job of the account may have"),
        ("AssocMaxCpuPerNode", "one job of the account may have"),
        ("PartitionTimeLimit", "does not allow so long a time"),
        *((reason, "") for reason in ("QOSMaxJobsPerUserLimit", "QOSMaxGRESPerUser", "QOSMaxSubmitJobPerUserLimit")),
        *((reason, "") for reason in ("AssocMaxJobsLimit", "AssocGrpGRES", "QOSGrpNodeLimit", "MaxGRESPerAccount")),
        *((reason, "") for reason in ("Resources", "Priority", "ReqNodeNotAvail,_UnavailableNodes:gb01", "None", "")),
    ],
)
def test_a_job_that_no_waiting_starts_is_told_from_one_that_others_hold_up(reason, words):
    assert (words in allocation.hopeless(reason)) if words else allocation.hopeless(reason) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "srun: error: Unable to create step for job 9: Job/step already completing or completed\n",
            "Unable to create",
        ),
        (
            "slurmstepd: error: *** STEP 2.0 ON gb01 CANCELLED DUE TO PREEMPTION ***\nsrun: error: gb01: Terminated\n",
            "DUE TO PREEMPTION",
        ),
        ("", "exit status 1"),
    ],
)
def test_what_slurm_said(text, words):
    assert words in commands.said(text, 1)


FRAMES = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=40)), max_size=8)


@given(FRAMES, st.integers(1, 50))
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames, size):
    data = b"".join(agent.pack(*frame) for frame in frames)
    unpacker = agent.Unpacker()
    found = [frame for start in range(0, len(data), size) for frame in unpacker.feed(data[start : start + size])]
    assert found == frames


def converse(frames):
    """What the agent answers until every command has ended: channel -> [(kind, content)]."""
    process = subprocess.Popen(
        [sys.executable, "-u", agent.__file__, "n"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdin.write(b"".join(agent.pack(*frame) for frame in frames))
    process.stdin.flush()
    assert process.stdout.readline() == b"armstage-step n\n"
    unpacker, said, open_channels = agent.Unpacker(), {}, {frame[0] for frame in frames if frame[1] == agent.START}
    while open_channels:
        for channel, kind, content in unpacker.feed(process.stdout.read1(65536)):
            said.setdefault(channel, []).append((kind, content))
            if kind == agent.EXIT:
                open_channels.discard(channel)
    process.stdin.close()
    assert process.wait(10) == 0
    return said


def start(channel, *argv):
    return channel, agent.START, json.dumps(argv).encode()


def test_commands_run_side_by_side_with_their_own_input_output_and_status():
    said = converse(
        [
            start(1, "sh", "-c", "cat; echo wrong >&2; exit 3"),
            start(2, "cat"),
            start(3, "/nowhere/program"),
            start(4, "sh", "-c", "kill -9 $$"),
            start(5, "sh", "-c", "sleep 30 & echo left"),
            start(6, "sleep", "30"),
            (6, agent.KILL, b""),
            (1, agent.STDIN, b"one"),
            (2, agent.STDIN, b"two" * 50_000),
            (2, agent.EOF, b""),
            (1, agent.EOF, b""),
        ]
    )
    output = {
        channel: b"".join(content for kind, content in frames if kind == agent.STDOUT)
        for channel, frames in said.items()
    }
    status = {channel: json.loads(frames[-1][1])["status"] for channel, frames in said.items()}
    taken = sum(int(content) for kind, content in said[2] if kind == agent.TAKEN)
    assert output == {1: b"one", 2: b"two" * 50_000, 3: b"", 4: b"", 5: b"left\n", 6: b""}
    assert status == {1: 3, 2: 0, 3: 127, 4: -9, 5: 0, 6: -9}
    assert (agent.STDERR, b"wrong\n") in said[1]
    assert taken == 150_000


def test_commands_end_with_the_agent():
    process = subprocess.Popen(
        [sys.executable, "-u", agent.__file__, "n"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdin.write(agent.pack(*start(1, "sh", "-c", "echo $$; sleep 30")))
    process.stdin.flush()
    process.stdout.readline()
    ((_channel, _kind, content),) = agent.Unpacker().feed(process.stdout.read1(65536))
    process.stdin.close()
    assert process.wait(5) == 0
    state = f"/proc/{int(content)}/stat"
    assert not os.path.exists(state) or " Z " in Path(state).read_text()
