"""What `--check` says at the end of a run: what would be, and nothing that was not measured."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.armstage.staging.publish import Store
from ansible.module_utils.armstage.staging.record import Release

ROOT = Path(__file__).resolve().parents[3]
HERE = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}


@pytest.fixture
def play(tmp_path):
    """Run a playbook on this host as its stager: what was printed from the recap on, and before it."""

    def run(playbook, *options, **variables):
        hosts = tmp_path / "hosts.json"
        stagers = {"hosts": {"localhost": HERE}, "vars": {"armstage_root": str(tmp_path / "root")}}
        hosts.write_text(json.dumps({"stagers": stagers}))
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [program, playbook, "-i", hosts, "-e", json.dumps(variables), *options]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        before, _recap, after = done.stdout.partition("PLAY RECAP")
        return before, after.partition("\n\n")[2].strip("\n").splitlines()

    return run


def test_a_release_that_would_be_staged_has_neither_size_nor_time(play, tmp_path, server, tar, elf):
    content = tar({"uv/uv": elf("aarch64")})
    source = {"url": server.put("/uv.tar.gz", content), "sha256": hashlib.sha256(content).hexdigest()}
    options = {"name": "uv", "version": "1.0", "dest": "{{ armstage_root }}", "link": "bin/uv-aarch64"}
    task = {**options, "link_target": "uv", "sources": [{**source, "strip_components": 1, "kind": "mirror"}]}
    playbook = tmp_path / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "stagers", "tasks": [{"staged_release": task}]}]))
    sha = source["sha256"][:12]
    _before, said = play(playbook, "--check")
    assert said == [
        "component  version  source  sha256        would be",
        f"uv         1.0      mirror  {sha}  staged",
        "",
        "Nothing was changed. Next: the same without --check",
    ]
    _before, said = play(playbook)
    assert said[0] == "component  version  source  size  sha256        took"
    assert said[2] == "ELF files staged: 1; 1 are aarch64; none was executed to stage them"
    _before, said = play(playbook, "-C")
    assert said[1].endswith(f" B  {sha}  unchanged")
    assert len(said) == 2


def test_a_rollback_says_where_links_would_lead(play, tmp_path):
    store, links = Store(tmp_path / "root"), {}
    (tmp_path / "root/envs").mkdir(parents=True)
    for tag, digest in (("cu128", "1" * 64), ("cu130", "2" * 64)):
        with store.lock(), store.begin(f"env-{tag}") as partial:
            path = store.publish(partial, Release(f"env-{tag}", "2.11.0", digest, {"kind": "test"}, "2026-11-30"))
        links[tag] = tmp_path / "root/envs" / tag
        links[tag].symlink_to(os.path.relpath(path, tmp_path / "root/envs"))
    playbook = ROOT / "playbooks/rollback.yml"
    said, _summary = play(playbook, "--check", armstage_rollback_to="cu128")
    would = f"{tmp_path}/root: a run would move links: no environment newer than cu128 is linked. Nothing was moved"
    assert would in said
    assert "Forward again" not in said
    assert links["cu130"].is_symlink()
    said, _summary = play(playbook, armstage_rollback_to="cu128")
    assert f"{tmp_path}/root: no environment newer than cu128 is linked (0.0" in said
    assert "would" not in said.replace("Say where the links would lead", "")
    assert not links["cu130"].is_symlink()
