"""The role page_cache for real, in a private mount namespace, and everything a user can try on its helper.

/etc/sudoers.d and /usr/local/sbin are empty there, sync(1) is a program that leaves a trace, and a pipe stands over
/proc/sys/vm/drop_caches, so that every byte ever written to it is seen.
"""

import json
import os
import shutil
import subprocess
import sys
import time

import jinja2
import pytest

from .page_cache_host import PROJECT, needs_mounts, open_folder

HELPER = "/usr/local/sbin/armstage-drop-cache"
SUDOERS = "/etc/sudoers.d/armstage-drop-cache"
PRIVATE = """
mount -t tmpfs -o mode=755 none /etc/sudoers.d
mount -t tmpfs -o mode=755 none /usr/local/sbin
mount --bind "$1/sync" "$(readlink -f /usr/bin/sync)"
mount --bind "$1/drop_caches" /proc/sys/vm/drop_caches
touch "$1/ready"
exec sleep 600
"""

pytestmark = [
    needs_mounts,
    pytest.mark.skipif(not shutil.which("sudo"), reason="needs sudo"),
    pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv(1)"),
]


class Namespace:
    """A place where the role can be applied to this host without this host knowing."""

    def __init__(self):
        self.folder = open_folder()
        self.trace = self.folder / "trace"
        self.trace.write_text("")
        self.trace.chmod(0o666)
        (self.folder / "sync").write_text(f"#!/bin/sh\necho sync >>{self.trace}\n")
        (self.folder / "sync").chmod(0o755)
        os.mkfifo(self.folder / "drop_caches")
        reader = f"while :; do cat {self.folder}/drop_caches >>{self.trace}; done"
        self.processes = [
            subprocess.Popen(["bash", "-c", reader], start_new_session=True),
            subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "bash", "-euc", PRIVATE, "x", str(self.folder)],
                start_new_session=True,
            ),
        ]
        for _try in range(100):
            if (self.folder / "ready").exists():
                return
            time.sleep(0.05)
        self.close()
        raise AssertionError("the namespace did not come up")

    def close(self):
        for process in self.processes:
            os.killpg(process.pid, 9)
            process.wait()
        shutil.rmtree(self.folder)

    def run(self, command, **options):
        enter = ["nsenter", f"--mount=/proc/{self.processes[1].pid}/ns/mnt"]
        return subprocess.run([*enter, *command], capture_output=True, text=True, timeout=60, **options)

    def apply(self, *options, **variables):
        """Run the playbook; returns ``(changed, output)``."""
        command = ["ansible-playbook", "-i", "localhost,", "-c", "local", *options]
        values = {"ansible_python_interpreter": sys.executable, "ansible_become": False, **variables}
        environment = {**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")}
        environment["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        command += [str(PROJECT / "playbooks/page_cache_helper.yml"), "-e", json.dumps(values)]
        done = self.run(command, env=environment)
        recap = [line for line in done.stdout.splitlines() if "changed=" in line]
        changed = int(recap[-1].split("changed=")[1].split()[0]) if recap and done.returncode == 0 else None
        return changed, done.stdout + done.stderr

    def attack(self, script, user):
        """Run a script as ``user`` from a folder full of traps; returns what reached sync and the kernel."""
        self.trace.write_text("")
        become = [] if user == "root" else ["setpriv", "--reuid=nobody", "--regid=nogroup", "--init-groups"]
        evil = self.folder / "evil"
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "H": HELPER, "EVIL": str(evil), "SUDO": "sudo -n"}
        if user == "root":
            environment["SUDO"] = ""
        self.run([*become, "bash", "-c", f"cd {evil}; {script}"], env=environment)
        time.sleep(0.1)
        return self.trace.read_text()


@pytest.fixture(scope="module")
def namespace():
    place = Namespace()
    evil = place.folder / "evil"
    evil.mkdir(mode=0o777)
    for name in ("sync", "echo", "bash", "rc"):
        (evil / name).write_text(f"#!/bin/sh\necho EVIL >>{place.trace}\n")
        (evil / name).chmod(0o755)
    (evil / "3").symlink_to(HELPER)
    evil.chmod(0o777)
    yield place
    place.close()


@pytest.fixture(scope="module")
def installed(namespace):
    changed, output = namespace.apply(page_cache_users=["nobody"])
    assert changed, output
    return namespace


ATTACKS = {
    "nothing": "$SUDO $H",
    "arguments": "$SUDO $H 3; $SUDO $H -- 3; $SUDO $H '; echo 3 >/proc/sys/vm/drop_caches'",
    "PATH": "PATH=$EVIL:$PATH $SUDO $H",
    "no PATH": "P=$SUDO; unset PATH; ${P:+/usr/bin/sudo -n} $H",
    "a function for sync": "sync() { echo 3 >/proc/sys/vm/drop_caches; }; export -f sync; $SUDO $H",
    "a function for echo": "echo() { builtin echo 3; }; export -f echo; $SUDO $H",
    "BASH_ENV and ENV": "BASH_ENV=$EVIL/rc ENV=$EVIL/rc $SUDO $H",
    "tracing that runs a command": "env SHELLOPTS=xtrace PS4='$('$EVIL'/rc)' $SUDO $H",
    "IFS": "IFS=0123456789/ $SUDO $H",
    "locale": "LC_ALL=$EVIL/rc LANG=../../x $SUDO $H",
    "variables through sudo": '[ -n "$SUDO" ] && $SUDO BASH_ENV=$EVIL/rc $H; $SUDO $H',
    "keeping the environment": '[ -n "$SUDO" ] && BASH_ENV=$EVIL/rc $SUDO -E $H; $SUDO $H',
    "a link of another name": "$SUDO ./3; $SUDO $EVIL/3 3; $SUDO $H",
    "a replaced helper": '[ -n "$SUDO" ] && { ln -sf rc $H; rm -f $H; cp $EVIL/rc $H; }; $SUDO $H',
    "the helper as input of a shell": "[ -n \"$SUDO\" ] && $SUDO bash -c 'echo 3 >/proc/sys/vm/drop_caches'; $SUDO $H",
    "tee": '[ -n "$SUDO" ] && echo 3 | $SUDO tee /proc/sys/vm/drop_caches; $SUDO $H',
    "closed standard input": "$SUDO $H <&-",
    "closed streams": "$SUDO $H <&- >&- 2>&-",
    "huge standard input": "yes 3 | head -c 200000000 | $SUDO $H",
    "endless standard input": "$SUDO $H </dev/zero",
    "output to a full disk": "$SUDO $H >/dev/full 2>&1",
    "ignored signals": "trap '' PIPE TERM HUP XFSZ; $SUDO $H",
    "umask": "umask 777; $SUDO $H",
    "a folder that is gone": "mkdir gone; cd gone; rmdir ../gone; $SUDO $H",
}


# How often a script comes through: sudo refuses arguments and other names, root runs them and they change nothing.
RUNS = {("arguments", "nobody"): 0, ("arguments", "root"): 3, ("a link of another name", "root"): 3}


@pytest.mark.parametrize("user", ["nobody", "root"])
@pytest.mark.parametrize("name", ATTACKS)
def test_the_helper_syncs_and_writes_one_fixed_value_whatever_is_tried(installed, name, user):
    """Nobody through sudo; root without it, whose environment nothing has cleaned."""
    assert installed.attack(ATTACKS[name], user) == "sync\n1\n" * RUNS.get((name, user), 1)


def test_a_file_size_limit_can_only_keep_it_from_writing(installed):
    assert installed.attack("ulimit -f 0; $SUDO $H", "root") in ("sync\n1\n", "1\n", "sync\n", "")


def test_who_was_not_named_may_not_run_it(installed):
    script = f"setpriv --reuid=daemon --regid=daemon --init-groups sudo -n {HELPER}"
    assert installed.attack(script, "root") == ""


def test_files_belong_to_root_and_sudo_finds_them_valid(installed):
    seen = installed.run(["stat", "-c", "%a %U:%G", HELPER, SUDOERS]).stdout
    assert seen == "755 root:root\n440 root:root\n"
    checked = installed.run(["visudo", "-c"])
    assert checked.returncode == 0, checked.stdout + checked.stderr
    allowed = installed.run(["sudo", "-l", "-U", "nobody"]).stdout
    assert f'(root) NOPASSWD: {HELPER} ""' in allowed


def test_the_module_uses_the_helper_when_it_may_not_write(installed):
    """As nobody, with the host's own Python, and for the mode that the helper has, no other."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if not python:
        pytest.skip("needs a Python that every user may run")
    shutil.copytree(PROJECT / "module_utils", installed.folder / "module_utils", dirs_exist_ok=True)
    program = (
        "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1])\n"
        "from armstage.memory.drop import *\n"
        "target = target_of('/')\n"
        "print(drop(target, 'pagecache', 10), obstacle(target, 'all').message)\n"
    )
    script = f'{python} -c "{program}" {installed.folder}/module_utils >$EVIL/out 2>&1'
    # the pipe is writable by its owner only, as the kernel's file is
    trace = installed.attack(script, "nobody")
    assert trace == "sync\n1\n"
    assert (installed.folder / "evil/out").read_text() == (
        f"('helper', []) Expected `{HELPER}` to drop `all`, but it was installed for `pagecache`\n"
    )


def rendered(namespace, template, name, **variables):
    """A template of the role, written where ``namespace`` sees it."""
    environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters["comment"] = lambda text: f"# {text}"
    text = environment.from_string((PROJECT / "roles/page_cache/templates" / template).read_text())
    path = namespace.folder / name
    path.write_text(text.render(ansible_managed="Ansible managed", __page_cache_helper=HELPER, **variables))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("folders", "dropped"),
    [
        ([], True),
        (["system.slice/slurmstepd.scope/job_17"], True),
        (["system.slice/slurmstepd.scope/job_17", "system.slice/slurmstepd.scope/job_18"], False),
        (["system.slice/node7_slurmstepd.scope/job_18"], False),
        (["memory/slurm/uid_1000/job_17"], True),
        (["memory/slurm_node7/uid_1000/job_17", "memory/slurm_node7/uid_1001/job_9"], False),
    ],
)
def test_the_slurm_epilog_drops_after_the_last_job_only(installed, folders, dropped):
    epilog = rendered(installed, "slurm-epilog.sh.j2", "epilog")
    made = " ".join(f"/sys/fs/cgroup/{folder}" for folder in folders)
    script = (
        f"mount -t tmpfs none /sys/fs/cgroup; mkdir -p /tmp {made}; SLURM_JOB_ID=17 {epilog}; echo $? >$EVIL/status"
    )
    trace = installed.attack(f"unshare --mount --propagation private bash -c '{script}'", "root")
    assert (installed.folder / "evil/status").read_text() == "0\n"
    assert trace == ("sync\n1\n" if dropped else "")


def test_the_epilog_neither_fails_nor_waits(installed):
    """Slurm drains a node whose epilog fails and holds one whose epilog takes long."""
    epilog = rendered(installed, "slurm-epilog.sh.j2", "epilog")
    begin = time.monotonic()
    text = epilog.read_text().replace(" 300 ", " 1 ")
    for helper in ("/nonexistent", "/usr/bin/false", "/usr/bin/yes"):
        epilog.write_text(text.replace(HELPER, helper))
        assert subprocess.run([epilog], env={"PATH": "/usr/bin:/bin"}).returncode == 0
    assert time.monotonic() - begin < 1


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_takes_the_units(installed):
    schedule = "*:0/30"
    units = [
        rendered(installed, f"{kind}.j2", f"armstage-drop-cache.{kind}", page_cache_schedule=schedule)
        for kind in ("service", "timer")
    ]

    def complaints():
        done = installed.run(["systemd-analyze", "verify", "--man=no", *map(str, units)])
        lines = (done.stdout + done.stderr).splitlines()
        return [line for line in lines if "armstage-drop-cache" in line and "is marked executable" not in line]

    assert complaints() == []
    units[1].write_text(units[1].read_text().replace(schedule, "whenever"))
    assert complaints()


def test_a_timer_without_systemd_is_refused(namespace):
    if os.path.isdir("/run/systemd/system"):
        pytest.skip("systemd runs here, and a timer would be real")
    _changed, output = namespace.apply(page_cache_schedule="*:0/30")
    assert "`page_cache_schedule` needs systemd, but this host does not run it" in output


def test_applying_it_again_changes_nothing_and_absent_leaves_nothing(namespace):
    epilog = str(namespace.folder / "epilog")
    wanted = {"page_cache_users": ["nobody"], "page_cache_groups": ["users"], "page_cache_slurm_epilog": epilog}
    namespace.apply(**wanted)
    assert namespace.apply(**wanted)[0] == 0
    changed, output = namespace.apply("--check", page_cache_state="absent", **wanted)
    assert changed == 1, output
    assert namespace.run(["ls", HELPER, SUDOERS, epilog]).returncode == 0
    assert namespace.apply(page_cache_state="absent", **wanted)[0] == 1
    assert namespace.apply(page_cache_state="absent", **wanted)[0] == 0
    assert namespace.run(["ls", "-A", "/etc/sudoers.d", "/usr/local/sbin"]).stdout.split() == [
        "/etc/sudoers.d:",
        "/usr/local/sbin:",
    ]
    # on the empty host a check predicts what a run would make
    assert namespace.apply("--check", **wanted)[0] == 3


UNSAFE = [
    "ALL",
    "a, ALL",
    "x ALL=(ALL) NOPASSWD: ALL #",
    "%wheel",
    "a\nb",
    "a\n",
    "",
    "-u",
    "#0",
    "ADMINS",
    "a b",
    "!a",
]


def test_names_that_would_mean_more_to_sudo_are_refused(namespace):
    changed, output = namespace.apply(page_cache_users=["alice", *UNSAFE], page_cache_groups=["gpu-users", "ALL"])
    assert changed is None
    received = output.split("but received: ")[1].split("\n")[0]
    assert received == ", ".join(json.dumps(name) for name in [*UNSAFE, "ALL"])
    assert namespace.run(["grep", "-r", "NOPASSWD: ALL", "/etc/sudoers.d"]).returncode != 0
