"""Locks, constraints and the digests that they hold."""

import hashlib

from .looking import env, nothing_published
from .processes import program
from .wheels import digest_of, lock_text


def test_a_lock_is_installed_as_it_is(run, root, wheels):
    lock = lock_text(wheels)
    result = run(lock=lock)
    assert result["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    assert (env(root) / "share/armstage/lock.txt").read_text() == lock
    assert result["release"]["source"]["sha256"] == hashlib.sha256(lock.encode()).hexdigest()


def test_what_was_resolved_is_a_lock_that_serves_again(run, root, wheels, tmp_path):
    run()
    lock = (env(root) / "share/armstage/lock.txt").read_text()
    assert [line for line in lock.splitlines() if not line.startswith("#")] == [
        f"tool==1.0 --hash=sha256:{digest_of(wheels, 'tool')}",
        f"torch==2.11.0 --hash=sha256:{digest_of(wheels, 'torch')}",
    ]
    assert run(dest=str(tmp_path / "other"), lock=lock)["installed"] == {"torch": "2.11.0", "tool": "1.0"}


def test_a_wheel_of_another_digest_is_refused(run, root, wheels):
    result = run(lock=lock_text(wheels, torch="0" * 64))
    assert result["msg"] == (
        f"The wheel of `torch==2.11.0` has the sha256 `{digest_of(wheels, 'torch')}`, expected `{'0' * 64}`"
    )
    assert nothing_published(root)


def test_a_lock_that_lacks_something_is_refused(run, root, wheels):
    result = run(lock=f"torch==2.11.0 --hash=sha256:{digest_of(wheels, 'torch')}\n")
    assert result["msg"].startswith("The lock is not complete: ")
    assert "`tool`" in result["msg"]
    assert nothing_published(root)


def test_a_lock_of_other_requirements_is_refused_before_uv_runs(run, wheels):
    result = run(lock=lock_text(wheels), requirements=["torch==2.12.0"], uv="/no/such/uv")
    assert result["msg"] == "Found the requirement `torch==2.12.0`, but the lock holds `torch==2.11.0`"


def test_digests_in_constraints_are_verified(run, root, wheels):
    known = f"tool==1.0 --hash=sha256:{digest_of(wheels, 'tool')}\nunused==3 --hash=sha256:{'1' * 64}\n"
    assert run(constraints=known)["installed"] == {"torch": "2.11.0", "tool": "1.0"}
    assert (env(root) / "share/armstage/constraints.txt").read_text() == known
    changed = run(constraints=known.replace(digest_of(wheels, "tool"), "0" * 64))
    assert changed["msg"].startswith("The wheel of `tool==1.0` has the sha256 `")
    assert changed["msg"].endswith("`, which is none of those that the constraints hold")


def test_constraints_limit_what_is_chosen(run, wheels):
    assert run(constraints="tool<1\n")["msg"] == (
        f"There is only `tool==1.0` in the mirror `{wheels}`, but `tool<1` is required"
    )


UNHASHED = """\
import os, sys
if sys.argv[2] == "compile":
    print('lock-version = "1.0"\\n')
    for name, version in (("tool", "1.0"), ("torch", "2.11.0")):
        print(f'[[packages]]\\nname = "{name}"\\nversion = "{version}"')
        print('wheels = [{ url = "https://x.test", hashes = {} }]\\n')
else:
    os.execv(%r, sys.argv)
"""


def test_wheels_without_a_digest_are_said(run, root, wheels, tmp_path, uv):
    """uv 0.10.0 gives none for an index that has none; newer ones compute it."""
    old = program(tmp_path / "uv", UNHASHED % uv)
    assert run(uv=old)["unhashed"] == ["tool", "torch"]
    known = f"tool==1.0 --hash=sha256:{digest_of(wheels, 'tool')}\n"
    assert run(uv=old, constraints=known)["unhashed"] == ["torch"]
    assert (
        f"tool==1.0 --hash=sha256:{digest_of(wheels, 'tool')}\n" in (env(root) / "share/armstage/lock.txt").read_text()
    )
    assert "has the sha256" in run(uv=old, constraints=known.replace(digest_of(wheels, "tool"), "0" * 64))["msg"]
