"""Reports of hosts as they are in the field: real findings over recorded hosts, and as many of them as are wanted."""

import copy

from ansible.module_utils.armstage.memory.meminfo import read_memory
from ansible.module_utils.armstage.preflight import thermal
from ansible.module_utils.armstage.preflight.report import build
from ansible.module_utils.armstage.preflight.request import Request
from ansible.module_utils.armstage.preflight.runner import run_checks
from ansible.module_utils.armstage.preflight.sensors import parse_smi

from .hosts import STUCK, UNDER_LOAD, Host


def spark(folder, meminfo="gb10-cache-full", sensors=UNDER_LOAD, **options):
    """What preflight_info returns on a Spark, with sixty samples of its GPU."""
    host = Host(folder).spark(meminfo)
    result = run_checks(Request(environ={}, **{**host.options, **options}), describe=True)
    samples = [sample for at in range(60) for sample in at_time(parse_smi(sensors), at * 10.0)]
    sampled = thermal.judge(samples, "spark", 600, "nvidia-smi")
    for check in result["checks"]:
        if check["id"] == "G4":
            check.update(status=sampled.status, detail=sampled.detail, hint=sampled.hint, data=dict(sampled.data))
    statuses = {check["status"] for check in result["checks"]}
    result["verdict"] = "blocked" if "FAIL" in statuses else "ready-with-warnings" if "WARN" in statuses else "ready"
    return result


def at_time(samples, at):
    from dataclasses import replace

    return [replace(sample, at=at) for sample in samples]


def three(folder, **options):
    """A blocked Spark whose page cache was dropped, a good one, and a node that gave no answer."""
    blocked = spark(folder / "one", sensors=STUCK, **options)
    before = read_memory(str(folder / "one/host")).as_dict()
    good = spark(folder / "two", "gb10-idle", **options)
    after = read_memory(str(folder / "two/host")).as_dict()
    blocked["page_cache"] = {"changed": True, "before": before, "after": after, "message": "Freed 76.7 GiB"}
    lost = {"unreachable": True, "msg": "ssh: connect to host spark-3 port 22: Connection timed out"}
    return {"spark-1": blocked, "spark-2": good, "spark-3": lost}


def two_hundred(folder, **options):
    """Two hundred nodes: every tenth has a warning, every fortieth is blocked, one gives no answer."""
    good, results = spark(folder / "good", "gb10-idle", **options), {}
    for number in range(1, 201):
        result = copy.deepcopy(good)
        changes = (
            {"A2": ("WARN", "VIRTUAL_ENV=`/home/u/.venv` is set", "unset VIRTUAL_ENV")} if number % 10 == 0 else {}
        )
        if number % 40 == 0:
            changes["G1"] = ("FAIL", "torch 2.10.0+cpu is a CPU build, so no CUDA program runs here", "Stage again")
        for check in result["checks"]:
            if check["id"] in changes:
                check["status"], check["detail"], check["hint"] = changes[check["id"]]
        statuses = {status for status, _detail, _hint in changes.values()}
        result["verdict"] = "blocked" if "FAIL" in statuses else "ready-with-warnings" if statuses else good["verdict"]
        results[f"rack{(number - 1) // 20 + 1}-node{number}"] = result
    results["rack4-node77"] = {"unreachable": True, "msg": "Connection timed out"}
    return results


def report(results):
    return build.report(results)
