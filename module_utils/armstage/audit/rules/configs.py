"""Rules on training and serving configurations: how a job is spread over nodes, and over which network."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...readers.nodes import leaves
from ..model import WARNING, Found, Project, Rule
from ..scripts import ShellScript
from ..source import Source

_TENSOR = re.compile(
    r"(?:^|[._-])(?:tensor(?:[-_]?model)?[-_]?parallel(?:[-_]?(?:size|degree))?|tp(?:[-_]?(?:size|degree))?)$",
    re.IGNORECASE,
)
_NODES = re.compile(r"^(?:n[-_]?nodes|num[-_]?nodes|nodes|num[-_]?machines)$", re.IGNORECASE)
_PER_NODE = re.compile(
    r"^(?:n?proc[-_]?per[-_]?node|(?:n|num)?[-_]?gpus?[-_]?per[-_]?(?:node|machine)|gpus|devices|num[-_]?gpus|ntasks[-_]?per[-_]?node)$",
    re.IGNORECASE,
)
_INTERFACE = re.compile(
    r"(?:^|_)(?:SOCKET_IFNAME|IF_NAME|IFNAME|NET_DEVICES|tcp_if_include)$|^(?:interface|network_interface|socket_ifname)$",
    re.IGNORECASE,
)
_HOST = re.compile(
    r"(?:^|_)(?:MASTER_ADDR|MASTER_ADDRESS|MAIN_PROCESS_IP|HEAD_NODE_IP|RDZV_ENDPOINT|COORDINATOR_ADDRESS)$",
    re.IGNORECASE,
)
_OWN_ADDRESS = re.compile(r"(?:^|_)(?:HOST_IP|NODE_IP|LOCAL_IP|ADVERTISE_ADDR(?:ESS)?)$", re.IGNORECASE)
_COMMAND = re.compile(r"(?:^|[-_])(?:command|cmd|args|arguments|entrypoint|script|run|launcher)$", re.IGNORECASE)
_SPARK = re.compile(
    r"(?i)(?<![a-z])(?:dgx[-_ ]?)?spark(?:[-_]?\d+|[-_]?[0-9a-f]{4})?(?![a-z:])|(?<![a-z0-9])gb10(?![0-9])"
)

INTERFACE_KINDS = (
    (re.compile(r"wl\w*"), "Wi-Fi"),
    (
        re.compile(r"docker\w*|br-\w+|veth\w*|virbr\w*|cni\w*|podman\w*|flannel\S*|lxc\w*"),
        "a bridge of containers or virtual machines",
    ),
    (re.compile(r"tailscale\w*|wg\w*|tun\w*|tap\w*|zt\w*"), "a tunnel"),
)
LOOPBACK = ("lo", "localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Setting:
    """A name and its value, in a configuration file, on a command line or in the environment."""

    source: Source
    line: int
    name: str
    value: Any
    first_line: int = 0
    last_line: int = 0

    @property
    def number(self) -> int | None:
        text = str(self.value).strip()
        return int(text) if re.fullmatch(r"\d{1,5}", text) else None

    def found(self, why: str) -> Found:
        return Found(self.source, self.line, why=why, first_line=self.first_line, last_line=self.last_line)


def _groups(project: Project) -> Iterator[tuple[Source, list[Setting]]]:
    """The settings of each file that has any."""
    for source in project.of("config", "environment"):
        yield source, list(_file_settings(source))
    for script in project.scripts:
        yield script.source, list(_script_settings(script))


def _file_settings(source: Source) -> Iterator[Setting]:
    """Each value under the last name that leads to it; the options of a command under their own."""
    words: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for path, line, value in leaves(source.document):
        names = [part for part in path if isinstance(part, str)]
        if not names:
            continue
        yield Setting(source, line, names[-1], value)
        if _COMMAND.search(names[-1]):
            words.setdefault(path[: path.index(names[-1]) + 1], []).extend((line, word) for word in str(value).split())
        elif isinstance(value, str) and re.fullmatch(r"[A-Za-z_]\w*=\S*", value):
            name, _, inner = value.partition("=")
            yield Setting(source, line, name, inner)
    for command in words.values():
        for line, name, value in _options(command):
            yield Setting(source, line, name, value)


def _options(words: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """`--name value`, `--name=value` and `name=value` of a command line, each with its line."""
    for position, (line, word) in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if equals:
            yield line, name, value.strip("\"'")
        elif word.startswith("-") and position + 1 < len(words) and not words[position + 1][1].startswith("-"):
            yield line, name, words[position + 1][1].strip("\"'")


def _script_settings(script: ShellScript) -> Iterator[Setting]:
    for line, text in script.directives:
        for _line, name, value in _options([(line, word) for word in text.split()[1:]]):
            yield Setting(script.source, line, {"N": "nodes"}.get(name, name), value)
    for call in script.calls:
        for assignment in call.assignments:
            yield Setting(
                script.source,
                assignment.line,
                assignment.name,
                assignment.value.text.strip("\"'"),
                call.first_line,
                call.last_line,
            )
        for line, name, value in _options([(word.line, text) for word, text in zip(call.arguments, call.texts)]):
            yield Setting(script.source, line, name, value, call.first_line, call.last_line)


def _nodes(settings: list[Setting]) -> int:
    return max((setting.number or 0 for setting in settings if _NODES.match(setting.name)), default=0)


def _gpus_per_node(settings: list[Setting]) -> int:
    return max((setting.number or 0 for setting in settings if _PER_NODE.match(setting.name)), default=0)


def tensor_parallel_over_nodes(project: Project) -> Iterator[Found]:
    for source, settings in _groups(project):
        wide = [setting for setting in settings if _TENSOR.search(setting.name) and (setting.number or 0) > 1]
        if not wide:
            continue
        nodes, per_node = _nodes(settings), _gpus_per_node(settings)
        if nodes > 1 and per_node == 1:
            evidence = f"{nodes} nodes with one GPU each"
        elif project.facts.on_spark or _names_spark(source, settings):
            evidence = "a DGX Spark has one GPU"
        else:
            continue
        for setting in wide:
            yield setting.found(
                f"A tensor parallel size of {setting.number} spans {setting.number} nodes here "
                f"({evidence}): every layer waits for the network"
            )


def _names_spark(source: Source, settings: list[Setting]) -> bool:
    return bool(_SPARK.search(source.path)) or any(
        _SPARK.search(str(setting.value)) or _SPARK.search(setting.name) for setting in settings
    )


def wrong_interface(project: Project) -> Iterator[Found]:
    for _source, settings in _groups(project):
        interfaces = [
            setting for setting in settings if _INTERFACE.search(setting.name) and isinstance(setting.value, str)
        ]
        hosts = [setting for setting in settings if _HOST.search(setting.name.replace("-", "_"))]
        own = [setting for setting in settings if _OWN_ADDRESS.search(setting.name.replace("-", "_"))]
        several = _nodes(settings) > 1
        for setting in interfaces:
            kind = _interface_kind(str(setting.value))
            if kind:
                yield setting.found(
                    f"`{setting.name}={setting.value}` is {kind}: the nodes' traffic belongs on the "
                    "interconnect (ConnectX)"
                )
            elif several and str(setting.value) in LOOPBACK:
                yield setting.found(f"`{setting.name}={setting.value}` reaches no other node")
        for setting in hosts if several else []:
            if str(setting.value).rsplit(":", 1)[0].strip("[]") in LOOPBACK:
                yield setting.found(
                    f"`{setting.name}={setting.value}` is each node itself: the other nodes wait for a "
                    "master that is not there"
                )
        yield from _other_network(hosts, own)


def _interface_kind(value: str) -> str:
    """What the first interface named is, where it is none for this; a list of exclusions (`^docker0,lo`) names none."""
    if value.startswith("^"):
        return ""
    names = [name.lstrip("=").split(":")[0] for name in value.split(",")]
    return next((kind for name in names for pattern, kind in INTERFACE_KINDS if pattern.fullmatch(name)), "")


def _other_network(hosts: list[Setting], own: list[Setting]) -> Iterator[Found]:
    """Addresses of a node's own that are not in the network of the master's."""
    masters = [address for address in (_address(setting.value) for setting in hosts) if address]
    if len(masters) != 1:
        return
    network = ipaddress.ip_network(f"{masters[0]}/24", strict=False)
    for setting in own:
        address = _address(setting.value)
        if address and address.version == 4 and address not in network:
            yield setting.found(
                f"`{setting.name}={setting.value}` is not in the network of the master's address "
                f"{masters[0]}: traffic takes another interface"
            )


def _address(value: Any) -> ipaddress.IPv4Address | None:
    try:
        found = ipaddress.IPv4Address(str(value).rsplit(":", 1)[0])
    except ValueError:
        return None
    return found if not found.is_loopback and not found.is_unspecified else None


RULES = (
    Rule(
        "tensor-parallel-over-nodes",
        "Tensor parallelism across nodes of one GPU each, such as two DGX Sparks",
        WARNING,
        "Every layer waits for the network between the nodes",
        "Measure before relying on it: inference over two Sparks was reported from 1.14x (antirez/ds4#754) "
        "to 2.09x (unslothai/unsloth#10280), "
        "2026-08. Pipeline or data parallelism needs less of the network; check RoCE, MTU 9000 and the "
        "ConnectX interface first",
        bad={"configs/serve.yaml": "nnodes: 2\nnproc_per_node: 1\nengine:\n  tensor_parallel_size: 2\n"},
        good={"configs/serve.yaml": "nnodes: 2\nnproc_per_node: 4\nengine:\n  tensor_parallel_size: 4\n"},
        check=tensor_parallel_over_nodes,
    ),
    Rule(
        "wrong-interface",
        "Traffic between nodes is bound to an interface or address that is not the interconnect's",
        WARNING,
        "The nodes' traffic takes Wi-Fi, a bridge or the management network, or reaches no other node at all",
        "Name the ConnectX interface (`ip -br addr`; on a DGX Spark enp1s0f0np0 or enp1s0f1np1) in every "
        "*_SOCKET_IFNAME, and an address of its network in every *_HOST_IP and MASTER_ADDR",
        bad={"launch.sh": "export NCCL_SOCKET_IFNAME=wlP9s9\ntorchrun --nnodes=2 train.py\n"},
        good={"launch.sh": "export NCCL_SOCKET_IFNAME=enp1s0f1np1\ntorchrun --nnodes=2 train.py\n"},
        check=wrong_interface,
    ),
)
