"""cuda_facts as Ansible runs it: whole hosts planted in a folder, nvidia-smi a script that prints recordings."""

import os
import shlex
import time
from pathlib import Path

import cuda_facts
import pytest
import yaml

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "nvidia"
HOSTS = yaml.safe_load((FIXTURES / "hosts.yaml").read_text(encoding="utf-8"))
CONTRACT = {
    "status",
    "message",
    "hint",
    "kernel_driver",
    "user_driver",
    "flavour",
    "arch",
    "platform",
    "cuda_version",
    "gpus",
    "mig_devices",
    "processes",
    "unified_memory",
    "memory_total_mib",
    "disagreements",
    "sources",
}


def plant(root, files=(), links=(), folders=()):
    """Make a host's files below a root: the root."""
    for path, text in dict(files).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    for path, target in dict(links).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    for path in folders:
        (root / path).mkdir(parents=True, exist_ok=True)
    root.mkdir(exist_ok=True)
    return root


def script(path, body):
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def smi_script(path, answers):
    """A nvidia-smi that prints a recording for the first pattern its arguments match."""
    cases = [
        f"{shell_pattern(pattern)}) cat {shlex.quote(str(FIXTURES / 'smi' / name))}; exit {status};;"
        for pattern, (name, status) in answers.items()
    ]
    return script(
        path, "\n".join(['case "$*" in', *cases, "esac", "echo Invalid combination of input arguments", "exit 2"])
    )


def shell_pattern(pattern):
    """Quoted, but for its stars."""
    return "*".join(shlex.quote(part) if part else "" for part in pattern.split("*")) or "''"


@pytest.fixture
def read(run_module):
    """Run the module: its facts."""

    def call(**options):
        result = run_module(cuda_facts, **options)
        assert result["changed"] is False
        facts = result["ansible_facts"]["cuda"]
        assert set(facts) == CONTRACT
        return facts

    return call


@pytest.mark.parametrize("host", HOSTS, ids=[host["name"] for host in HOSTS])
def test_host(read, tmp_path, host):
    root = plant(tmp_path / "root", host.get("files", ()), host.get("links", ()), host.get("folders", ()))
    options = {"root": str(root)}
    if "smi" in host:
        options["nvidia_smi"] = smi_script(tmp_path / "nvidia-smi", host["smi"])
    facts = read(**options)
    assert {name: facts[name] for name in host["facts"]} == host["facts"]
    if "memory" in host:
        assert [gpu["memory_total_mib"] for gpu in facts["gpus"]] == host["memory"]
    if "capabilities" in host:
        assert [gpu["compute_capability"] for gpu in facts["gpus"]] == host["capabilities"]
    for words in host.get("message", ()):
        assert words in facts["message"]
    for words in host.get("hint", ()):
        assert words in facts["hint"]
    for name, source in host.get("sources", {}).items():
        assert facts["sources"][name]["source"] == source
    for name in ("kernel_driver", "user_driver", "cuda_version"):
        if facts[name] is not None:
            assert facts[name] in facts["sources"][name]["line"], f"{name} is not in its literal line"


def test_every_case_of_section_a_has_a_host():
    named = {host["name"].split()[0] for host in HOSTS}
    assert {f"A{number}" for number in range(1, 25)} - named == {"A19"}, "A19 is test_wedged below"


def test_check_mode_is_the_same(run_module, tmp_path):
    root = str(plant(tmp_path / "root", {"sys/module/nvidia/version": "580.95.05\n"}))
    assert run_module(cuda_facts, root=root) == run_module(cuda_facts, check=True, diff=True, root=root)


def test_a_tree_is_never_mixed_with_this_host(read, tmp_path, monkeypatch):
    """With a root, a nvidia-smi that is only a name is not looked for."""
    smi_script(tmp_path / "nvidia-smi", {"*": ["banner-610.43.02-b200.txt", 0]})
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert read(root=str(plant(tmp_path / "root")))["status"] == "no-driver"


def test_wedged(read, tmp_path):
    """A19: a nvidia-smi that never returns and ignores SIGTERM costs the time-out and at most a second."""
    smi = script(tmp_path / "nvidia-smi", "trap '' TERM INT HUP\nwhile :; do sleep 1; done")
    root = plant(tmp_path / "root", {"sys/module/nvidia/version": "580.95.05\n"})
    before = time.monotonic()
    facts = read(root=str(root), nvidia_smi=smi, timeout=1)
    assert time.monotonic() - before < 2
    assert facts["status"] == "wedged"
    assert facts["kernel_driver"] == "580.95.05"
    assert facts["cuda_version"] is None
    assert "`nvidia-smi -q -x` did not return within 1 s" in facts["message"]
    assert "Reboot" in facts["hint"]


def test_garbage_is_cut_off(read, tmp_path):
    """50 MB of garbage end the program early; the facts hold none of it."""
    smi = script(
        tmp_path / "nvidia-smi",
        f"yes 'CUDA Version: 99.9 Driver Version: 99.9' | head -c 50000000 | tee {tmp_path}/wrote",
    )
    root = plant(tmp_path / "root", {"sys/module/nvidia/version": "580.95.05\n"})
    facts = read(root=str(root), nvidia_smi=smi, timeout=20)
    assert (tmp_path / "wrote").stat().st_size < 20_000_000
    assert facts["status"] == "cuda-unreported"
    assert facts["cuda_version"] is None
    assert "which was cut off" in facts["message"]
    assert len(str(facts)) < 5000


def test_a_nvidia_smi_that_cannot_start(read, tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_bytes(b"\x7fELF not for this machine")
    smi.chmod(0o755)
    facts = read(root=str(plant(tmp_path / "root")), nvidia_smi=str(smi))
    assert facts["status"] == "driver-not-loaded"
    assert "does not start" in facts["message"]


def test_a_path_to_no_nvidia_smi(read, tmp_path):
    assert read(root=str(plant(tmp_path / "root")), nvidia_smi=str(tmp_path / "absent"))["status"] == "no-driver"


def test_override_of_cuda_without_a_driver(read, tmp_path):
    facts = read(root=str(plant(tmp_path / "root")), cuda_version="13.0")
    assert facts["status"] == "no-driver"
    assert facts["cuda_version"] == "13.0"
    assert facts["sources"]["cuda_version"] == {"source": "override", "line": "cuda_version: 13.0"}
    assert "CUDA 13.0 is given by an override" in facts["message"]


def test_override_of_the_driver_takes_cuda_from_the_table(read, tmp_path):
    facts = read(root=str(plant(tmp_path / "root")), driver_version="570.172.08")
    assert facts["status"] == "no-driver"
    assert (facts["kernel_driver"], facts["user_driver"], facts["cuda_version"]) == ("570.172.08", "570.172.08", "12.8")
    assert {facts["sources"][name]["source"] for name in ("kernel_driver", "cuda_version")} == {"override"}


def test_overrides_win_over_what_was_read(read, tmp_path):
    root = str(plant(tmp_path / "root", {"sys/module/nvidia/version": "580.95.05\n"}))
    facts = read(root=root, driver_version="610.43.02", cuda_version="13.2")
    assert (facts["status"], facts["kernel_driver"], facts["cuda_version"]) == ("ok", "610.43.02", "13.2")


@pytest.mark.parametrize(
    ("option", "value"),
    [("cuda_version", "13"), ("cuda_version", "cu130"), ("driver_version", "latest"), ("driver_version", "35.3.1")],
)
def test_an_override_that_is_no_version(run_module, tmp_path, option, value):
    result = run_module(cuda_facts, root=str(plant(tmp_path / "root")), **{option: value})
    assert result["failed"]
    assert f"`{value}`" in result["msg"]
    assert f"`{option}`" in result["msg"]


@pytest.mark.parametrize("timeout", [0, -1])
def test_no_time_at_all_is_no_wedged_driver(run_module, tmp_path, timeout):
    result = run_module(cuda_facts, root=str(tmp_path), timeout=timeout)
    assert result["failed"]
    assert result["msg"] == f"Expected `timeout` to be above 0, but received: `{timeout}`"


def test_a_folder_where_a_file_should_be_is_an_error(run_module, tmp_path):
    root = plant(tmp_path / "root", folders=["sys/module/nvidia/version"])
    result = run_module(cuda_facts, root=str(root))
    assert result["failed"]
    assert "sys/module/nvidia/version" in result["msg"]


def test_text_that_is_not_utf8_stays_json(read, tmp_path):
    root = plant(tmp_path / "root", folders=["proc/driver/nvidia"])
    (root / "proc/driver/nvidia/version").write_bytes(b"NVRM version: \xff\xfe Kernel Module  580.142 \x80\n")
    facts = read(root=str(root))
    assert facts["kernel_driver"] == "580.142"
