"""What files and command lines ask for: how many GPUs, on how many nodes, and by what the others are started."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .model import FAIL, SKIP, WARN, Finding
from .shell import Command, Setting, options
from .thresholds import THRESHOLDS

TENSOR = ("tensor_parallel_size", "tensor_model_parallel_size", "tp_size", "tp", "autotp_size", "tensor_parallel",
          "tensor_parallel_degree", "tensor_parallel_dim", "num_shard")  # fmt: skip
PIPELINE = ("pipeline_parallel_size", "pipeline_model_parallel_size", "pp_size", "pp", "pipeline_parallel_degree")
DATA = ("data_parallel_size", "dp_size", "dp")
"""vLLM's and SGLang's: each of them is a copy on GPUs of its own, but with attention alone so divided (SGLang)."""
CONTEXT = ("context_parallel_size", "prefill_context_parallel_size", "cp_size")
SIZES = (TENSOR, PIPELINE, DATA, CONTEXT)
"""Sizes whose product is the number of GPUs (vLLM, SGLang, TensorRT-LLM, TGI, Megatron, torchtitan; 2026-12-01)."""

PER_NODE = ("nproc_per_node", "num_gpus", "n_gpus_per_node", "num_gpus_per_node", "gpus_per_node")
PROCESSES = ("num_processes",)
"""Processes with a GPU each: on one node (torchrun, DeepSpeed, verl), in all (accelerate)."""

ACCELERATE = ("num_machines", "distributed_type", "machine_rank", "main_process_ip", "compute_environment")
"""Settings beside which ``num_processes`` is accelerate's: others mean workers of the CPU by it."""

NODES = ("nnodes", "nnode", "num_nodes", "num_machines")
REMOTE = ("rpc", "data_parallel_address")
"""Settings that name the other node themselves (llama.cpp, vLLM)."""

ONE_OF_SEVERAL = ("dist_init_addr", "node_rank", "headless", "ray_cluster_size")
"""Settings that only one of several nodes has, unless one node is said (SGLang, vLLM and its script
for LeaderWorkerSet, torchrun; 2026-12-01)."""

BACKENDS = ("distributed_executor_backend", "data_parallel_backend")
LOCAL_BACKENDS = ("mp", "uni")
"""vLLM's that start processes on this node; over several only together with ``--nnodes`` (vllm 0.10.1 to 0.18)."""

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
MPI = ("mpirun", "mpiexec", "orterun", "prterun", "horovodrun")
SLURM = ("srun", "sbatch", "salloc")
CLUSTER = ("launch-cluster.sh", "run-recipe.sh", "run-recipe.py", "sparkrun")
"""eugr/spark-vllm-docker's and sparkrun: they start what they are given on every Spark, but with ``--solo``."""

RAY = ("start", "up", "submit", "job", "symmetric-run")
"""What of `ray` makes a cluster or uses one, as `pip install ray` does not."""

UNKNOWN = re.compile(r"\$|\{.*\}|<.*>|`")
"""What a template, or a shell that was not run, leaves where a number is meant."""

SOURCE = "NVIDIA/dgx-spark-playbooks#63"


@dataclass(frozen=True)
class Launch:
    """``gpus`` are those of this node."""

    settings: Sequence[Setting]
    commands: Sequence[Command]
    gpus: int

    @cached_property
    def tensor(self) -> Setting | None:
        return largest(self.settings, TENSOR)

    @cached_property
    def pipeline(self) -> Setting | None:
        return largest(self.settings, PIPELINE)

    @cached_property
    def asked(self) -> Setting | None:
        """The setting by which more than one GPU is asked for."""
        return next(filter(None, (largest(self.settings, names) for names in SIZES)), None)

    @cached_property
    def world(self) -> int:
        """The GPUs that the largest of the launches asks for."""
        groups: dict[str, list[Setting]] = {}
        for each in self.settings:
            groups.setdefault(each.group, []).append(each)
        return max([1, *map(_product, groups.values())])

    @cached_property
    def nodes(self) -> int | None:
        """How many nodes are said; None where it is not said, or by a variable."""
        said = [_whole(each.value) for each in self.settings if each.name in NODES] + list(self._slurm_nodes())
        return max(said) if said and all(said) else None

    @cached_property
    def over_two(self) -> bool:
        remote = any(each.name in REMOTE and _is_far(each.value) for each in self.settings)
        return self.world > self.gpus or remote or (self.nodes or 1) > 1

    @cached_property
    def launched(self) -> bool:
        """Whether something starts a second node, or is one of several."""
        if self.nodes == 1:
            return self._by_program(one_node=True)
        given = [each for each in self.settings if each.value not in (None, False, "")]
        return (
            any(each.name in NODES and (_whole(each.value) > 1 or is_unknown(each)) for each in given)
            or any(each.name in REMOTE or each.name == "hostfile" for each in given if _is_far(each.value))
            or any(each.name in ONE_OF_SEVERAL and _is_far(each.value) for each in given)
            or self._by_program()
        )

    def _by_program(self, one_node: bool = False) -> bool:
        backends = [str(each.value) for each in self.settings if each.name in BACKENDS]
        if any(backend not in LOCAL_BACKENDS and backend not in ("None", "") for backend in backends):
            return True
        return any(_starts_others(command, one_node) for command in self.commands)

    def _slurm_nodes(self) -> Iterator[int]:
        for command in self.commands:
            words = command.words
            for position, word in enumerate(words if programs([command]).intersection(SLURM) else ()):
                match = re.fullmatch(r"(?:-N=?|--nodes[= ]?)(.*)", word)
                if match:
                    value = match[1] or next(iter(words[position + 1 :]), "")
                    yield _whole(value.rpartition("-")[2])

    def unknown(self) -> Setting | None:
        """A size that is a variable here, so that nobody knows what it asks for."""
        names = {name for each in SIZES for name in each}
        return next((each for each in self.settings if each.name in names and is_unknown(each)), None)

    def findings(self) -> Iterator[Finding]:
        yield from self._crowded()
        if self.over_two:
            yield from self._nowhere()
            yield from self._training()
        else:
            yield from self._not_told()

    def _not_told(self) -> Iterator[Finding]:
        each = self.unknown()
        if each:
            yield Finding(
                SKIP,
                f"{each.name} is `{each.value}` ({each.where}), whose value is not known here: whether one Spark is"
                " enough was not judged",
                "Give --config a file with the number in it, or look again while the program runs",
            )

    def _nowhere(self) -> Iterator[Finding]:
        """More GPUs asked for than one Spark has, and nothing that would start a second node."""
        asked, nodes = self.asked, self.nodes or 1
        if self.world <= self.gpus or not asked:
            return
        wants = f"{asked.name} {asked.value} ({asked.where}) asks for {self.world} GPUs"
        if not self.launched:
            yield Finding(
                FAIL,
                f"{wants}, a Spark has {self.gpus}, and nothing there starts a second node",
                "Name the nodes: --nnodes 2 --node-rank 0 with torchrun or SGLang, --distributed-executor-backend ray"
                " with vLLM",
                SOURCE,
            )
        elif nodes > 1 and self.world > nodes * self.gpus:
            yield Finding(
                FAIL,
                f"{wants}, and {nodes} Sparks have {nodes * self.gpus}",
                f"Make the product of the sizes {nodes * self.gpus}, or name as many nodes as there are to be GPUs",
                SOURCE,
            )

    def _crowded(self) -> Iterator[Finding]:
        """More processes on one node than it has GPUs, each of which wants its own."""
        on_a_node, in_all = largest(self.settings, PER_NODE), largest(self._accelerate(), PROCESSES)
        nodes = self.nodes or 1
        known = not any(each.name in NODES and is_unknown(each) for each in self.settings)
        for asked, room in ((on_a_node, self.gpus), (in_all if known else None, self.gpus * nodes)):
            if asked and number(asked) > room:
                yield Finding(
                    FAIL,
                    f"{asked.name} {asked.value} ({asked.where}) starts {asked.value} processes with a GPU each, and"
                    f" there {'is' if room == 1 else 'are'} {room}",
                    "One process a Spark: --nproc-per-node 1, and --nnodes 2 for two of them",
                    SOURCE,
                )

    def _accelerate(self) -> list[Setting]:
        """The settings of accelerate, as far as it uses the GPU."""
        by_command = {each.where for each in self.commands if "accelerate" in programs([each])}
        by_file = {each.group for each in self.settings if each.name in ACCELERATE}
        on_cpu = {each.group for each in self.settings if each.name in ("use_cpu", "cpu") and each.value is True}
        return [each for each in self.settings if each.group in (by_command | by_file) - on_cpu]

    def _training(self) -> Iterator[Finding]:
        trains = [each for each in self.settings if each.name in TRAINING]
        if self.tensor and (trains or programs(self.commands).intersection(TRAINING_PROGRAMS)):
            layer = THRESHOLDS["two_sparks"]["tensor_parallel"][-1]
            yield Finding(
                WARN,
                f"{self.tensor.name} {self.tensor.value} ({self.tensor.where}) trains tensor parallel over two Sparks;"
                f" a split by layers was measured at {layer['measured']}",
                "Split by layers (pipeline parallel) instead",
                layer["source"],
            )


def largest(settings: Sequence[Setting], names: Sequence[str]) -> Setting | None:
    """The setting of one of these names with the largest number above 1; None where there is none."""
    numbers = [replace(each, value=_whole(each.value)) for each in settings if each.name in names]
    return max((each for each in numbers if each.value > 1), key=lambda each: int(each.value), default=None)


def number(setting: Setting | None) -> int:
    return int(setting.value) if setting else 1


def is_unknown(setting: Setting) -> bool:
    return isinstance(setting.value, (str, Mapping)) and bool(UNKNOWN.search(str(setting.value)))


def programs(commands: Sequence[Command]) -> set[str]:
    """The names that may be programs: one may start another, as `docker exec x mpirun` does."""
    return {os.path.basename(word) for command in commands for word in command.words}


def _product(settings: Sequence[Setting]) -> int:
    shared = any(each.name == "enable_dp_attention" and each.value is True for each in settings)
    product = 1
    for names in SIZES:
        product *= 1 if shared and names is DATA else number(largest(settings, names))
    return product


def _whole(value: Any) -> int:
    """A number as configurations write it: `2`, `"2"`, `2.0`, torchrun's `1:2` (at most two); 0 for anything else."""
    match = re.fullmatch(r"(?:\d{1,3}:)?(\d{1,3})(?:\.0+)?", str(value).strip(), re.ASCII)
    return int(match[1]) if match else 0


def _is_far(value: Any) -> bool:
    """Whether a value may lead to another node: an address of this one's own loop does not."""
    host = re.sub(r"^\w+://|:\d+$", "", str(value)).strip("[]")
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host not in ("localhost", "False", "false")


def _starts_others(command: Command, one_node: bool) -> bool:
    """Whether a command starts something on other nodes; where one node is said, Slurm and the like do not."""
    words = [os.path.basename(word) for word in command.words]
    names = set(words)
    if any(pair[0] == "ray" and pair[1] in RAY for pair in zip(words, words[1:])):
        return True
    if names.intersection(CLUSTER) and not {"--solo", "-solo"} & names:
        return True
    if names.intersection(MPI):
        hosts = [each for each in options(command) if each.name in ("h", "host", "hosts")]
        named = [host for each in hosts for host in str(each.value).split(",")]
        return not named or any(_is_far(host) for host in named)
    return "trtllm-llmapi-launch" in names or (not one_node and "srun" in names)
