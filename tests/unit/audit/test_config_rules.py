"""Forms of each fault that people write, and the forms beside them that are none: configurations."""

import pytest
from ansible.module_utils.armstage.audit.facts import Facts, read_compatibility
from ansible.module_utils.armstage.audit.project import audit_texts

from .findings import FACTS

CONFIGURATIONS = [
    ("nnodes: 2\ngpus_per_node: 1\ntensor_parallel_size: 2", ["3 tensor-parallel-over-nodes"]),
    ("hosts: [spark-1, spark-2]\ntensor-parallel-size: 2", ["2 tensor-parallel-over-nodes"]),
    ("gpu: GB10\nengine: {tp: 2}", ["2 tensor-parallel-over-nodes"]),
    ("node: dgx-spark\ncommand: [vllm, serve, --tensor-parallel-size, '2']", ["2 tensor-parallel-over-nodes"]),
    ("node: dgx-spark\nargs: --tp=2", ["2 tensor-parallel-over-nodes"]),
    ("node: dgx-spark\nnotes: use --tp=2", []),
    ("node: dgx-spark\ntensor_parallel_size: 1", []),
    ("tensor_parallel_size: 8", []),
    ("nnodes: 2\ngpus_per_node: 4\ntensor_parallel_size: 8", []),
    ("master: spark://x:7077\ntp: 2", []),
    ("tensor_parallel_size: ${size}\nnode: spark-1", []),
    ("env:\n  NCCL_SOCKET_IFNAME: wlan0", ["2 wrong-interface"]),
    ("env:\n  - GLOO_SOCKET_IFNAME=docker0", ["2 wrong-interface"]),
    ("env: {NCCL_SOCKET_IFNAME: '^lo,docker0'}", []),
    ("env: {NCCL_SOCKET_IFNAME: '=wlP9s9'}", ["1 wrong-interface"]),
    ("env: {NCCL_SOCKET_IFNAME: enp1s0f0np0}", []),
    ("nnodes: 2\nmaster_addr: localhost", ["2 wrong-interface"]),
    ("nnodes: 2\nrdzv_endpoint: 127.0.0.1:29500", ["2 wrong-interface"]),
    ("nnodes: 1\nmaster_addr: localhost", []),
    ("nnodes: 2\nGLOO_SOCKET_IFNAME: lo", ["2 wrong-interface"]),
    ("MASTER_ADDR: 192.168.100.1\nVLLM_HOST_IP: 192.168.1.7", ["2 wrong-interface"]),
    ("MASTER_ADDR: 192.168.100.1\nVLLM_HOST_IP: 192.168.100.2", []),
    ("MASTER_ADDR: head\nVLLM_HOST_IP: 192.168.100.2", []),
]


@pytest.mark.parametrize(("text", "expected"), CONFIGURATIONS)
def test_configurations(text, expected):
    found = audit_texts({"train.yaml": text}, FACTS)
    assert not found.unread
    assert [f"{finding.line} {finding.rule}" for finding in found.findings] == expected


def test_on_a_spark_every_tensor_parallel_size_spans_boxes():
    spark = Facts(
        read_compatibility(),
        {"status": "ok", "arch": "aarch64", "platform": "spark", "cuda_version": "13.0", "gpus": []},
    )
    found = audit_texts({"serve.sh": "vllm serve x -tp 2\n"}, spark)
    assert [finding.rule for finding in found.findings] == ["tensor-parallel-over-nodes"]
    assert audit_texts({"serve.sh": "vllm serve x -tp 2\n"}, FACTS).findings == ()
