"""The connection plugin srun against real nodes: an unprivileged user, conda and a virtualenv on the login node."""

import os
import signal
import time

import pytest

from .conftest import wait_until

# Runs until the file is there; says that it began by another file.
WAITING = {"name": "wait", "raw": "touch ~/began; sleep 60"}


@pytest.fixture
def began(cluster):
    """began(): wait until task `wait` runs on a node."""
    path = cluster.home / "began"
    path.unlink(missing_ok=True)

    def wait(seconds=40):
        assert wait_until(path.exists, seconds)

    return wait


@pytest.fixture
def holders(cluster):
    """holders(): the process ids of the user's holders."""

    def find():
        mark = f"SLURM_CONF={cluster.folder}/".encode()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as command, open(f"/proc/{name}/environ", "rb") as environment:
                    if b"armstage.slurm.holder" in command.read() and mark in environment.read():
                        found.append(int(name))
            except OSError:
                continue
        return found

    return find


@pytest.fixture
def job(cluster):
    """A job of the user's on gb01 that holds it for the test."""
    number = cluster.call("sbatch", "--parsable", "-w", "gb01", "--wrap", "sleep 300", user=True).strip()
    assert wait_until(lambda: " JobState=RUNNING" in cluster.call("scontrol", "show", "job", "-o", number))
    yield number
    cluster.call("scancel", number, check=False)


def test_a_play_of_twelve_tasks_on_two_nodes_is_two_steps_and_nothing_leaks(play, holders):
    tasks = [{"raw": f"echo {number}"} for number in range(9)]
    tasks += [{"command": "cat", "args": {"stdin": "é" * 100}, "register": "echoed"}]
    tasks += [
        {"assert": {"that": "echoed.stdout == 'é' * 100"}},
        {"raw": "uname -nm; env; exit 3", "register": "seen", "failed_when": "seen.rc != 3"},
    ]
    tasks += [{"debug": {"var": "seen.stdout"}}]
    played = play(tasks, hosts=("gb01", "gb02"))
    assert played.status == 0, played.text
    assert played.steps == 2
    assert "gb01 aarch64" in played.text
    assert "gb02 aarch64" in played.text
    assert not any(name in played.text for name in ("login", "CONDA_PREFIX", "VIRTUAL_ENV", "PYTHONPATH", "SRUN_CPUS"))
    assert "SLURM_NTASKS=1" in played.text
    assert wait_until(lambda: not holders())


def test_a_step_for_each_task_does_the_same_in_a_job_that_is_there(cluster, play, job, holders):
    tasks = [{"raw": "echo $SLURM_JOB_ID; cat; exit 4", "register": "seen", "failed_when": "seen.rc != 4"}] * 2
    played = play([*tasks, {"debug": {"var": "seen.stdout"}}], srun_job_id=job, srun_persist=False)
    assert played.status == 0, played.text
    assert played.steps == 2
    assert job in played.text
    assert not holders()
    assert cluster.jobs() == [job]


def test_a_node_without_python_still_runs_commands(play):
    played = play(
        [{"raw": "echo here; exit 5", "register": "seen", "failed_when": "seen.rc != 5"}],
        srun_variables={"PATH": "/none"},
    )
    assert played.status == 0, played.text
    played = play([{"command": "uname"}], srun_variables={"PATH": "/none"})
    assert "UNREACHABLE" not in played.text


@pytest.mark.parametrize("shared", [True, False])
def test_files_arrive_whole(cluster, play, shared):
    source = cluster.home / "sent.bin"
    source.write_bytes(os.urandom(20 * 1024 * 1024 + 1))
    source.chmod(0o644)
    there = str(cluster.home / "there.bin") if shared else "/dev/shm/there.bin"
    back = cluster.home / "back.bin"
    back.unlink(missing_ok=True)
    tasks = [
        {"copy": {"src": str(source), "dest": there}},
        {"fetch": {"src": there, "dest": str(back), "flat": True}},
        {"raw": f"rm {there}"},
    ]
    variables = {} if shared else {"ansible_remote_tmp": "/dev/shm/ansible"}
    played = play(tasks, **variables)
    assert played.status == 0, played.text
    assert back.read_bytes() == source.read_bytes()
    assert played.steps == 1


@pytest.mark.parametrize("what", ["200 KB of standard input", "20 MB there and back"])
def test_a_step_does_it_a_hundred_times(cluster, what):
    """By one client after the other, through the step; nothing hangs and every checksum is equal."""
    script = cluster.home / "many.py"
    script.write_text(MANY.format(path=cluster.project, once=ONCE[what]))
    before = cluster.requests()
    output = cluster.call(cluster.program("python"), str(script), user=True, timeout=300)
    assert output.splitlines()[-1] == "100 equal"
    assert (cluster.requests() - before)["REQUEST_JOB_STEP_CREATE"] == 1
    assert wait_until(lambda: not cluster.jobs())


MANY = """
import hashlib, os, sys
sys.path.insert(0, "{path}/module_utils")
from armstage.slurm import client, files
from armstage.slurm.allocation import Request
where = client.Specification("gb02", request=Request("gb02"), owner=os.getpid())

def run(argv, stdin=tuple, stdout=None):
    out, err = [], []
    status = client.run(where, argv, iter(stdin()), stdout or out.append, err.append)
    return status, b"".join(out), b"".join(err)

{once}
equal = sum(once(os.urandom(200_000)) for number in range(100))
# One that reads none of what it is sent.
assert client.run(where, ["true"], iter([bytes(100_000)] * 50)) == 0
print(equal, "equal")
"""
ONCE = {
    "200 KB of standard input": """
def once(data):
    status, out, err = run(["sha256sum"], lambda: [data[:70_000], data[70_000:]])
    return not status and out.split()[0].decode() == hashlib.sha256(data).hexdigest()
""",
    # Below /dev/shm: a filesystem that only the node sees.
    "20 MB there and back": """
def once(data):
    with open("sent", "wb") as file:
        file.write(data * 100)
    files.put(run, "sent", "/dev/shm/many")
    files.fetch(run, "/dev/shm/many", "back")
    with open("back", "rb") as file:
        return file.read() == data * 100
""",
}

# --- what can go wrong


def end_of(play, process, seconds=40):
    """The play must end by itself, in time."""
    return play.finish(process, timeout=seconds)


def test_killing_the_holder_makes_the_host_unreachable_at_once(cluster, play, began, holders):
    process = play.start([WAITING])
    began()
    for holder in holders():
        os.kill(holder, signal.SIGKILL)
    played = end_of(play, process)
    assert "UNREACHABLE" in played.text
    assert "the process that held the step on `gb01` is gone" in played.text
    cluster.call("scancel", *cluster.jobs())  # nobody is left who could: only its time limit would end it


def test_a_cancelled_job_is_unreachable_with_slurms_reason(cluster, play, began):
    process = play.start([WAITING])
    began()
    cluster.call("scancel", *cluster.jobs())
    played = end_of(play, process)
    assert "UNREACHABLE" in played.text
    assert "is CANCELLED" in played.text, played.text
    assert "hint: Someone cancelled it" in played.text


def test_a_node_that_goes_down_is_unreachable_with_slurms_reason(cluster, play, began):
    process = play.start([WAITING])
    began()
    cluster.call("scontrol", "update", "NodeName=gb01", "State=DOWN", "Reason=tested")
    played = end_of(play, process)
    assert "UNREACHABLE" in played.text
    assert "NODE_FAIL" in played.text
    assert wait_until(lambda: cluster.state("gb01") == "IDLE")


def test_the_job_is_cancelled_when_the_controller_is_back(cluster, play, began):
    process = play.start([WAITING])
    began()
    cluster.stop("slurmctld")
    process.send_signal(signal.SIGINT)
    end_of(play, process)
    cluster.start_controller()
    assert wait_until(lambda: not cluster.jobs(), 30)


def test_without_a_controller_there_is_one_clear_error(cluster, play):
    cluster.stop("slurmctld")
    try:
        played = play([{"raw": "true"}])
    finally:
        cluster.start_controller()
    assert "UNREACHABLE" in played.text
    assert "slurm" in played.text.lower()
    assert "Traceback" not in played.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_job(cluster, play, began, number):
    process = play.start([WAITING])
    began()
    assert cluster.jobs()
    os.killpg(process.pid, number)
    end_of(play, process)
    assert wait_until(lambda: not cluster.jobs(), 10)


def test_the_reason_is_shown_while_the_job_waits(cluster, play, job):
    cluster.call("scontrol", "update", f"JobId={job}", "TimeLimit=10")
    blocker = cluster.call(
        "sbatch", "--parsable", "-w", "gb02", "--exclusive", "--wrap", "sleep 300", user=True
    ).strip()
    wait_until(lambda: "RUNNING" in cluster.call("scontrol", "show", "job", "-o", blocker))
    process = play.start([{"raw": "true"}], hosts=("gb02",))
    time.sleep(6)
    cluster.call("scancel", blocker)
    played = end_of(play, process, 60)
    assert played.status == 0, played.text
    assert "waits for `gb02`: " in played.text


def test_what_can_never_start_is_given_up(play):
    played = play([{"raw": "true"}], srun_partition="all", srun_time="50")
    assert "UNREACHABLE" in played.text
    assert "PartitionTimeLimit" in played.text or "time limit" in played.text
