"""G10: a run over two Sparks: is it asked for in a way that can start, and are the links between them fit for it.

The field disagrees with "never tensor parallel over two Sparks": NVIDIA's own playbooks do it, and what
was measured differs by workload. So it is not forbidden; what was measured, by whom and when, is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..elf.words import listed, quoted
from . import fabric
from .context import Context
from .fabric import Link
from .model import FAIL, INFO, PASS, SKIP, WARN, Fact, Finding, worst
from .occupancy import command_line, find
from .settings import Command, Read, Setting, options
from .settings import find as find_files
from .settings import read as read_file
from .thresholds import THRESHOLDS

TENSOR = ("tensor_parallel_size", "tensor_model_parallel_size", "tp_size", "tp", "autotp_size", "tensor_parallel")
PIPELINE = ("pipeline_parallel_size", "pipeline_model_parallel_size", "pp_size", "pp")
DATA = ("data_parallel_size",)
"""vLLM's: each of them is a copy on GPUs of its own."""

PER_NODE = ("nproc_per_node", "num_gpus", "n_gpus_per_node", "num_gpus_per_node", "gpus_per_node")
PROCESSES = ("num_processes",)
"""Processes with a GPU each: on one node (torchrun, DeepSpeed, verl), in all (accelerate)."""

NODES = ("nnodes", "nnode", "num_nodes", "num_machines")
REMOTE = ("rpc", "data_parallel_address")
"""Settings that name the other node themselves (llama.cpp, vLLM)."""

LAUNCHERS = ("distributed_executor_backend", "dist_init_addr", "node_rank", "headless", "hostfile", *REMOTE)
"""Settings that only a launch over several nodes has (vLLM, SGLang, torchrun, DeepSpeed, Megatron; 2026-08-18)."""

TRAINING = (
    "learning_rate",
    "optimizer",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "train_batch_size",
    "micro_batch_size",
    "train_iters",
    "optim",
    "lr",
)
TRAINING_PROGRAMS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed", "accelerate")
NODE_PROGRAMS = ("mpirun", "mpiexec", "srun", "ray", "trtllm-llmapi-launch")

INTERFACE_VARIABLES = ("nccl_socket_ifname", "gloo_socket_ifname", "tp_socket_ifname", "ucx_net_devices")
ADDRESS_VARIABLES = ("vllm_host_ip", "host_ip")


def check(context: Context) -> Finding:
    read = [read_file(path) for path in find_files(context.request.configs)]
    running = list(_running(context))
    settings = [setting for each in read for setting in each.settings] + [s for each in running for s in options(each)]
    commands = [command for each in read for command in each.commands] + running
    links = fabric.links(context)
    up = [link for link in links if link.active and link.carrier]
    tensor, pipeline = _largest(settings, TENSOR), _largest(settings, PIPELINE)
    gpus = max(1, len(context.driver["gpus"]))
    world = _number(tensor) * _number(pipeline) * _number(_largest(settings, DATA))
    asked = tensor or pipeline or _largest(settings, DATA)
    remote = any(each.name in REMOTE and isinstance(each.value, str) for each in settings)
    over_two = world > gpus or remote or _largest(settings, NODES) is not None
    crowded = list(_crowded(settings, gpus))
    if not over_two and not up and not crowded:
        looked = f"{len(read)} files ask for one GPU" if read else "no configuration was given (--config)"
        return worst(
            list(_unread(read)), Finding(SKIP, f"one Spark: no ConnectX link is up and {looked}", source=fabric.DEVICES)
        )
    problems = [*_unread(read), *crowded, *_links(links, up, over_two), *_variables(context, settings, up)]
    if over_two:
        problems += _launch(world, gpus, settings, commands, asked)
        problems += _training(settings, commands, tensor)
    return worst(problems, _fine(links, up, tensor, pipeline, over_two))


def _running(context: Context) -> Iterator[Command]:
    """The command lines of the programs on the GPU."""
    for tenant in find(context):
        words = command_line(context, tenant.pid)
        if words:
            yield Command(tuple(words), f"pid {tenant.pid}")


def _unread(read: Sequence[Read]) -> Iterator[Finding]:
    problems = [each.problem for each in read if each.problem]
    if problems:
        yield Finding(WARN, "; ".join(problems[:3]), "Give the file that the program reads, or write it as JSON")


def _largest(settings: Sequence[Setting], names: Sequence[str]) -> Setting | None:
    """The setting of one of these names with the largest number above 1; None where there is none."""
    numbers = [replace(each, value=_whole(each.value)) for each in settings if each.name in names]
    return max((each for each in numbers if each.value > 1), key=lambda each: int(each.value), default=None)


def _whole(value: Any) -> int:
    """A number as configurations write it: `2`, `"2"`, `2.0`, torchrun's `1:2` (at most two); 0 for anything else."""
    match = re.fullmatch(r"(?:\d+:)?(\d+)(?:\.0+)?", str(value).strip(), re.ASCII)
    return int(match[1]) if match else 0


def _number(setting: Setting | None) -> int:
    return int(setting.value) if setting else 1


def _programs(commands: Sequence[Command]) -> set[str]:
    """The names that may be programs: one may start another, as `docker exec x mpirun` does."""
    return {os.path.basename(word) for command in commands for word in command.words}


def _launch(
    world: int, gpus: int, settings: Sequence[Setting], commands: Sequence[Command], asked: Setting | None
) -> Iterator[Finding]:
    """More GPUs asked for than one Spark has, and nothing that would start a second node."""
    launched = _largest(settings, NODES) or any(each.name in LAUNCHERS and each.value for each in settings)
    if world > gpus and asked and not launched and not _programs(commands).intersection(NODE_PROGRAMS):
        yield Finding(
            FAIL,
            f"{asked.name} {asked.value} ({asked.where}) asks for {world} GPUs, a Spark has {gpus}, and nothing there"
            " starts a second node",
            "Name the nodes: --nnodes 2 --node-rank 0 with torchrun or SGLang, --distributed-executor-backend ray with"
            " vLLM",
            "NVIDIA/dgx-spark-playbooks#63",
        )


def _crowded(settings: Sequence[Setting], gpus: int) -> Iterator[Finding]:
    """More processes on one node than it has GPUs, each of which wants its own."""
    nodes = _number(_largest(settings, NODES))
    for asked, room in ((_largest(settings, PER_NODE), gpus), (_largest(settings, PROCESSES), gpus * nodes)):
        if asked and _number(asked) > room:
            yield Finding(
                FAIL,
                f"{asked.name} {asked.value} ({asked.where}) starts {asked.value} processes with a GPU each, and there"
                f" {'is' if room == 1 else 'are'} {room}",
                "One process a Spark: --nproc-per-node 1, and --nnodes 2 for two of them",
                "NVIDIA/dgx-spark-playbooks#63",
            )


def _training(settings: Sequence[Setting], commands: Sequence[Command], tensor: Setting | None) -> Iterator[Finding]:
    trains = [each for each in settings if each.name in TRAINING]
    if tensor and (trains or _programs(commands).intersection(TRAINING_PROGRAMS)):
        layer = THRESHOLDS["two_sparks"]["tensor_parallel"][-1]
        yield Finding(
            WARN,
            f"{tensor.name} {tensor.value} ({tensor.where}) trains tensor parallel over two Sparks; a split by layers"
            f" was measured at {layer['measured']}",
            "Split by layers (pipeline parallel) instead",
            layer["source"],
        )


def _links(links: Sequence[Link], up: Sequence[Link], over_two: bool) -> Iterator[Finding]:
    known = THRESHOLDS["two_sparks"]
    if over_two and not up:
        states = listed(f"{link.device} {'active' if link.active else 'down'}" for link in links) or "no RoCE device"
        yield Finding(
            WARN,
            f"two Sparks are asked for, and no ConnectX link is up ({states}): the run would go over the slow network",
            "Plug the QSFP cable in and bring both halves of the port up (`ip link set dev ... up`)",
            fabric.DEVICES,
        )
    small = [link for link in up if link.mtu is not None and link.mtu < known["mtu"]]
    if small:
        names = listed(f"{link.interface} has {link.mtu}" for link in small)
        hint = f"On both Sparks: `ip link set dev {small[0].interface} mtu {known['mtu']}`, and in netplan, to last"
        yield Finding(WARN, f"MTU below {known['mtu']}: {names}", hint, known["mtu_source"])
    without = [link.device for link in up if not link.addresses]
    if without:
        hint = "Give the interface an IPv4 address, the same network on both Sparks"
        yield Finding(
            WARN, f"{listed(without)} {_has(without)} no RoCE v2 GID with an IPv4 address", hint, fabric.DEVICES
        )
    halves = [(link, half) for link in up if (half := fabric.other_half(link, links)) and half not in up]
    for link, half in halves:
        hint = f"Bring {half.interface or half.device} up as well: address, MTU, `ip link set dev ... up`"
        yield Finding(
            WARN, f"only {link.device} of its port is up, {half.device} is down", hint, known["halves_source"]
        )


def _has(names: Sequence[str]) -> str:
    return "have" if len(names) > 1 else "has"


def _variables(context: Context, settings: Sequence[Setting], up: Sequence[Link]) -> Iterator[Finding]:
    """NCCL's and the launchers' variables, of the job and of the files, against the links there are."""
    known = THRESHOLDS["two_sparks"]
    environ = {
        name.lower(): Setting(name.lower(), value, "environment") for name, value in context.request.environ.items()
    }
    given: Mapping[str, Setting] = {**environ, **{setting.name: setting for setting in settings}}
    if not up:
        return
    devices, interfaces = [link.device for link in up], [link.interface for link in up]
    addresses = [address for link in up for address in link.addresses]
    chosen = given.get("nccl_ib_hca")
    if chosen:
        named = [device for device in devices if _names(str(chosen.value), device)]
        left = [device for device in devices if device not in named]
        if not named or left:
            which = f"leaves out {quoted(left)}" if named else f"names none of {quoted(devices)}"
            hint = f"NCCL_IB_HCA={','.join(devices)}"
            yield Finding(WARN, f"NCCL_IB_HCA=`{chosen.value}` ({chosen.where}) {which}", hint, known["halves_source"])
    index = given.get("nccl_ib_gid_index")
    if index and str(index.value).isdigit():
        wrong = [link.device for link in up if int(index.value) not in [gid.index for gid in link.gids if gid.usable]]
        if wrong:
            detail = f"NCCL_IB_GID_INDEX=`{index.value}` ({index.where}) is no RoCE v2 IPv4 GID of {quoted(wrong)}"
            yield Finding(WARN, detail, "Unset it: NCCL finds the GID of each device itself", known["gid_source"])
    yield from _off_the_link(given, INTERFACE_VARIABLES, interfaces)
    yield from _off_the_link(given, ADDRESS_VARIABLES, addresses)


def _names(value: str, device: str) -> bool:
    """NCCL's own rule: a list of prefixes, ``=`` in front for exact names, ``^`` to leave out."""
    words = [word.partition(":")[0] for word in value.lstrip("^=").split(",") if word]
    exact, without = value.lstrip("^").startswith("="), value.startswith("^")
    found = any(device == word if exact else device.startswith(word) for word in words)
    return found != without


def _off_the_link(given: Mapping[str, Setting], names: Sequence[str], expected: Sequence[str]) -> Iterator[Finding]:
    for name in names:
        setting = given.get(name)
        values = [word.strip("^=") for word in str(setting.value).split(",")] if setting else []
        if setting and expected and not any(value.partition(":")[0] in expected for value in values):
            yield Finding(
                WARN,
                f"{name.upper()}=`{setting.value}` ({setting.where}) is not on a ConnectX link: {quoted(expected)}",
                "Put every *_SOCKET_IFNAME and *_HOST_IP on the link: a queue that advertises another address hangs"
                " once NCCL is up",
                "MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#9",
            )


def _fine(
    links: Sequence[Link],
    up: Sequence[Link],
    tensor: Setting | None,
    pipeline: Setting | None,
    over_two: bool,
) -> Finding:
    known = THRESHOLDS["two_sparks"]
    facts: list[Any] = [
        Fact(
            link.device,
            f"{link.interface or 'no interface'}, {'up' if link in up else 'down'}, MTU {link.mtu},"
            f" {link.rate or 'no rate'}, RoCE v2 {', '.join(link.addresses) or 'none'}",
            f"{fabric.DEVICES}/{link.device}",
        )
        for link in links
    ]
    asked = [each for each in (tensor, pipeline) if each]
    facts += [Fact(each.name, str(each.value), each.where) for each in asked]
    facts += [Fact(each["what"], each["measured"], each["source"]) for each in known["tensor_parallel"]]
    ready = f"{listed(link.device for link in up)} up, MTU {', '.join(str(link.mtu) for link in up)}"
    if not over_two:
        return Finding(PASS, f"{ready}; nothing asks for a second Spark", source=fabric.DEVICES, facts=tuple(facts))
    measured = "; ".join(f"{each['what']} {each['measured']} ({each['source']})" for each in known["tensor_parallel"])
    wanted = listed(f"{each.name} {each.value}" for each in asked) or "several nodes"
    detail = f"{wanted} over two Sparks; {ready}; no bandwidth was measured here. Others measured: {measured}"
    return Finding(PASS if up else INFO, detail, source=known["source"], facts=tuple(facts))
