"""The cluster's daemons: started by hand, on loopback, in a folder of their own, and ended by their process ids."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from armstage.errors import ArmstageError

from .. import apt, emulation, image, prerequisites, rootfs
from ..command import output_of
from ..host import Host, cache_folder
from . import configuration

HERE = Path(__file__).parent
PROJECT = HERE.resolve().parents[2]
USER, USER_ID = rootfs.USER, rootfs.USER_ID
# Of what containers of the lab need: the emulator and mmdebstrap; no podman.
ARM64 = ("qemu-user-static", "qemu-user", "mmdebstrap", "arch-test", "debian-archive-keyring")
NEEDS = (
    prerequisites.Need(("/usr/sbin/munged",), "munge"),
    prerequisites.Need(("/usr/sbin/slurmctld",), "slurmctld"),
    prerequisites.Need(("/usr/sbin/slurmd",), "slurmd"),
    prerequisites.Need(("/usr/bin/srun",), "slurm-client"),
    prerequisites.Need(("/usr/lib/*/slurm-wlm/auth_munge.so",), "slurm-wlm-basic-plugins"),
    prerequisites.Need(("gcc",), "gcc"),
    prerequisites.Need(("/usr/include/string.h",), "libc6-dev"),
)


def unsuitable(host: Host) -> str:
    """Why this machine can't be a cluster; empty where it can."""
    if not host.root:
        return "the Slurm lab needs root: it mounts, and starts slurmd"
    if host.distribution != "debian":
        return f"the Slurm lab installs Debian's packages, and this machine is `{host.distribution or 'unknown'}`"
    return "" if apt.mirror(host) or image.archive().exists() else "the Slurm lab needs a Debian mirror"


def is_present(name: str) -> bool:
    return any(Path("/").glob(name[1:])) if "*" in name else prerequisites.is_present(name)


def install(host: Host) -> Path:
    """Slurm's packages and the nodes' root filesystem: the latter's folder. Both are kept for the next time."""
    arm64 = [need for need in prerequisites.needs(host, has_mirror=True) if need.package in ARM64]
    prerequisites.install(host, arm64)
    absent = prerequisites.missing(NEEDS, present=is_present)
    if absent:
        prerequisites.install_packages([need.name_for("apt-get") for need in absent])
    emulation.register(host)
    root = cache_folder() / "slurm" / f"root-{image.tag()}"
    if not root.exists():
        if not image.archive().exists():
            image.build(host, str(apt.mirror(host)), image.archive())
        partial = Path(tempfile.mkdtemp(prefix=".root-", dir=_folder(root.parent)))
        output_of(["tar", "--extract", "--file", str(image.archive()), "--directory", str(partial)], timeout=300)
        partial.chmod(0o755)
        partial.rename(root)
    return root


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


class Cluster:
    """``nodes`` run jobs, ``absent`` ones never registered. ``work`` has the same path on every node."""

    def __init__(self, host: Host, nodes: Sequence[str] = ("gb01", "gb02"), absent: Sequence[str] = ("gb03",)) -> None:
        self.host, self.nodes, self.absent = host, list(nodes), list(absent)
        self.root = install(host)
        # Below /var/tmp: nodes have a /tmp of their own. Short, for the path of a socket has 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="armstage-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.work = self.folder / "work"
        self.home = self.work / USER
        self.project = self.folder / "armstage"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    # --- up and down

    def up(self) -> None:
        self._write()
        self._start("munged", self._munged())
        _wait("munged", lambda: (self.folder / "munge/socket").exists(), self.log("munged"))
        self.start_controller()
        for name in self.nodes:
            self.start_node(name)
        for name in self.nodes:
            self.wait_for_state(name, "IDLE")

    def start_controller(self) -> None:
        command = ["/usr/sbin/slurmctld", "-D", "-i", "-f", str(self.folder / "etc/slurm.conf")]
        self._start("slurmctld", self._with_accounts(command))
        _wait("slurmctld", lambda: "UP" in self.call("scontrol", "ping", check=False), self.log("slurmctld"))

    def start_node(self, name: str) -> None:
        preload = str(self.folder / "etc/uname.so") if self.host.emulates else ""
        processors = str(emulation.processor_folder()) if self.host.emulates else ""
        script = [str(HERE / "node.sh"), name, str(self.root), str(self.folder), preload, processors]
        self._start(name, ["unshare", "--mount", "--uts", "--propagation", "private", "sh", *script])

    def stop(self, name: str) -> None:
        """End a daemon of ours, and what it started."""
        daemon = self.daemons.pop(name)
        with contextlib.suppress(ProcessLookupError):
            daemon.terminate()
        try:
            daemon.wait(5)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait(5)

    def down(self) -> None:
        self.call("scancel", "--quiet", *self.jobs(), check=False)
        _wait("jobs", lambda: not self.jobs(), lambda: "", seconds=20)
        for name in reversed(list(self.daemons)):
            self.stop(name)
        for process in self._left_behind():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _left_behind(self) -> list[int]:
        """slurmstepd of ours outlives its slurmd; it names our folder nowhere but in its environment."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"SLURM_CONF={self.folder}/".encode() in (path / "environ").read_bytes():
                    found.append(int(path.name))
        return [process for process in found if process != os.getpid()]

    def _start(self, name: str, command: list[str]) -> None:
        with self._log_file(name).open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _munged(self) -> list[str]:
        folder = self.folder / "munge"
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        return [
            "/usr/sbin/munged",
            "--foreground",
            "--force",
            *(f"--{option}={folder / name}" for option, name in files.items()),
        ]

    def _write(self) -> None:
        for name in ("etc", "state", "log", "run", "munge", "work", *(f"spool/{node}" for node in self.nodes)):
            _folder(self.folder / name)
        self.home.mkdir()
        shutil.chown(self.home, USER_ID, USER_ID)
        self.work.chmod(0o1777)
        (self.folder / "munge").chmod(0o711)
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        etc = self.folder / "etc"
        port = free_ports(1 + len(self.nodes) + len(self.absent))
        names = configuration.slurm_conf(self.folder, socket.gethostname(), self.nodes, self.absent, port)
        (etc / "slurm.conf").write_text(names)
        (etc / "gres.conf").write_text(configuration.gres_conf())
        settings = "".join(f"echo export {key}={value}\n" for key, value in emulation.environment(self.host).items())
        (etc / "task-prolog").write_text(f"#!/bin/sh\n{settings}")
        (etc / "task-prolog").chmod(0o755)
        account = f"{USER}:x:{USER_ID}:{USER_ID}::{self.home}:/bin/bash\n"
        for name, line in {"passwd": account, "group": f"{USER}:x:{USER_ID}:\n"}.items():
            others = [
                each
                for each in Path("/etc", name).read_text().splitlines(keepends=True)
                if each.split(":")[2] != str(USER_ID)
            ]
            (etc / name).write_text("".join(others) + line)
        if self.host.emulates:
            library = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(etc / "uname.so"), str(HERE / "uname.c")]
            output_of(library, timeout=60)

    # --- using it

    def install_project(self) -> None:
        """armstage in a folder that every user may read, as an admin puts it there: its files, and its own .venv."""
        kept = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "armstage-report")
        shutil.copytree(PROJECT, self.project, symlinks=True, ignore=kept)
        output_of([str(self.project / "armstage"), "exec", "true"], timeout=600)

    def program(self, name: str) -> str:
        """The path of a program in the project's environment, such as `ansible-playbook`."""
        return str(self.project / ".venv/bin" / name)

    def _with_accounts(self, command: Sequence[str], as_user: bool = False) -> list[str]:
        """The command with the cluster's accounts, in a mount namespace of its own; as the user where asked."""
        binds = "; ".join(f'mount --bind "{self.folder}/etc/{name}" /etc/{name}' for name in ("passwd", "group"))
        switch = f"setpriv --reuid={USER_ID} --regid={USER_ID} --clear-groups --inh-caps=-all" if as_user else ""
        return ["unshare", "--mount", "sh", "-ec", f'{binds}; exec {switch} "$@"', "sh", *command]

    def environment(self, **variables: str) -> dict[str, str]:
        """That of a person on the login node."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        account = {"HOME": str(self.home), "USER": USER, "LOGNAME": USER}
        settings = {
            "SLURM_CONF": str(self.folder / "etc/slurm.conf"),
            "ANSIBLE_CONFIG": str(self.project / "ansible.cfg"),
        }
        return {**kept, **account, **settings, **variables}

    def as_user(self, *command: str) -> list[str]:
        """The command of the unprivileged user on the login node; run it with ``environment()``."""
        return self._with_accounts(command, as_user=True)

    def call(
        self,
        *command: str,
        user: bool = False,
        check: bool = True,
        timeout: float = 60,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Output of a command on the login node, as root or as the unprivileged user."""
        argv = self._with_accounts(command, as_user=user)
        done = subprocess.run(
            argv,
            env=self.environment(**variables),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise ArmstageError(f"Failed to run `{' '.join(command)}`: exit status {done.returncode}\n{done.stdout}")
        return done.stdout

    def borrow_uv_cache(self) -> Path:
        """uv's cache for the user, with what root has fetched before: its files are linked, none is changed."""
        cache = self.home / "uv-cache"
        cache.mkdir()
        mine = (
            Path(output_of(["uv", "cache", "dir"], timeout=30).strip()) if shutil.which("uv") else Path("/nonexistent")
        )
        if mine.is_dir() and mine.stat().st_dev == cache.stat().st_dev:
            output_of(["cp", "-al", f"{mine}/.", str(cache)], timeout=120)
        # uv opens locks and markers for writing: it makes new ones.
        for limits in (["-maxdepth", "2"], ["-name", ".lock"]):
            output_of(["find", str(cache), *limits, "-type", "f", "-delete"], timeout=60)
        output_of(["find", str(cache), "-type", "d", "-exec", "chown", f"{USER_ID}:{USER_ID}", "{}", "+"], timeout=60)
        return cache

    def jobs(self) -> list[str]:
        return self.call("squeue", "--noheader", "--format=%A", check=False).split()

    def state(self, node: str) -> str:
        found = self.call("scontrol", "show", "node", "-o", node, check=False).partition(" State=")[2]
        return found.partition(" ")[0]

    def wait_for_state(self, node: str, state: str) -> None:
        _wait(f"{node} to be {state}", lambda: self.state(node) == state, self.log(node))

    def _log_file(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def log(self, name: str):
        """A function that gives the end of a daemon's log, for an error."""
        return lambda: "\n".join(self.log_lines(name)[-15:])

    def requests(self) -> Counter[str]:
        """How often the controller was asked for what, by all users: `REQUEST_JOB_STEP_CREATE` -> 2."""
        # slurmctld writes to its log and to standard error: only the former's lines begin with the time.
        lines = [line for line in self.log_lines("slurmctld") if line.startswith("[")]
        return Counter(re.findall(r"Processing RPC: (\w+)", "\n".join(lines)))

    def log_lines(self, name: str) -> list[str]:
        path = self._log_file(name)
        return path.read_text(errors="replace").splitlines() if path.exists() else []


def free_ports(count: int) -> int:
    """The first of so many ports on loopback that nobody listens on."""
    for first in range(17000 + os.getpid() % 500 * 20, 32000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise ArmstageError(f"Expected {count} free ports from 17000 on")


def _wait(what, is_so, details, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise ArmstageError(f"Waited {seconds:.0f} s in vain for {what}\n{details()}")
        time.sleep(0.1)


@contextlib.contextmanager
def running(host: Host, **options) -> Iterator[Cluster]:
    """A cluster that is gone at the end, whatever happens."""
    cluster = Cluster(host, **options)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
