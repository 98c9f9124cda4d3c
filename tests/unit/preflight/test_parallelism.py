"""G10: runs over two Sparks: how they are asked for, and the links that sysfs shows."""

import pytest


@pytest.fixture
def pair(spark):
    """A Spark with both halves of one port up."""
    spark.roce("rocep1s0f1", "enp1s0f1np1").roce("roceP2p1s0f1", "enP2p1s0f1np1")
    return spark.roce("rocep1s0f0", "enp1s0f0np0", up=False).roce("roceP2p1s0f0", "enP2p1s0f0np0", up=False)


@pytest.fixture
def config(tmp_path):
    def write(text, name="serve.yaml"):
        (tmp_path / name).write_text(text)
        return (str(tmp_path / name),)

    return write


RAY = "vllm serve m -tp 2 --distributed-executor-backend ray"
TWO_NODES = "tensor_parallel_size: 2\ndistributed_executor_backend: ray\n"


def test_another_platform(host):
    host.driver("590.48.01", "banner-590.48.01-gb200.txt")
    assert host.look("G10").detail == "not a Spark (grace-blackwell): its links are of another kind"


def test_a_single_spark(spark, config):
    assert spark.look("G10").detail == "one Spark: no ConnectX link is up and no configuration was given (--config)"
    found = spark.look("G10", configs=config("tensor_parallel_size: 1\n"))
    assert (found.status, "1 file asks for one GPU" in found.detail) == ("SKIP", True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("serve.yaml", "tensor_parallel_size: 2\n"),
        ("serve.json", '{"engine": {"tensor_parallel_size": 2}}'),
        ("serve.toml", "[engine]\ntensor_parallel_size = 2\n"),
        ("serve.sh", "vllm serve m --tensor-parallel-size 2\n"),
        ("serve.sh", "python -m sglang.launch_server --tp 2\n"),
        ("serve.yaml", "pipeline_parallel_size: 2\n"),
        ("serve.yaml", 'tensor_parallel_size: "2"\n'),
        ("serve.yaml", "tensor_parallel_size: 2.0\n"),
        ("serve.sh", "SIZE=${SIZE:-2}\nvllm serve m --tensor-parallel-size ${SIZE}\n"),
        ("serve.sh", "docker exec x bash -lc 'vllm serve m -tp 2'\n"),
        ("serve.sh", 'docker exec x bash -c "\n  vllm serve m   --tensor-parallel-size 2\n"\n'),
        ("serve.sh", "vllm serve m --data-parallel-size 2\n"),
        ("serve.env", "TENSOR_PARALLEL_SIZE=2\n"),
        ("compose.yaml", 'services:\n  a:\n    command: >\n      bash -c "vllm serve m\n      -tp 2"\n'),
    ],
)
def test_more_gpus_than_a_spark_has_and_no_second_node(pair, config, name, text):
    found = pair.look("G10", configs=config(text, name))
    assert found.status == "FAIL", found.detail
    assert f"({config(text, name)[0]}" in found.detail
    assert "asks for 2 GPUs, a Spark has 1, and nothing there starts a second node" in found.detail
    assert "--nnodes 2" in found.hint


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("serve.yaml", TWO_NODES),
        ("serve.sh", "python -m x --nnodes 2 --node-rank 0 serve.py --tensor-parallel-size 2\n"),
        ("serve.sh", "python -m sglang.launch_server --tp 2 --nnodes 2 --dist-init-addr 10.0.0.1:5000\n"),
        ("serve.sh", "mpirun -np 2 trtllm-serve m --tp_size 2\n"),
        ("serve.sh", "docker exec x mpirun -x HF_TOKEN trtllm-llmapi-launch trtllm-serve m --tp_size 2\n"),
        ("compose.yaml", f'services:\n  a:\n    command: bash -c "ray start --head && {RAY}"\n'),
        ("serve.sh", "ray start --head\nvllm serve m --tensor-parallel-size 2 --distributed-executor-backend ray\n"),
    ],
)
def test_two_nodes_over_good_links_pass_with_what_was_measured_by_whom(pair, config, name, text):
    found = pair.look("G10", configs=config(text, name))
    assert found.status == "PASS", found.detail
    assert "rocep1s0f1 and roceP2p1s0f1 up" in found.detail or "roceP2p1s0f1 and rocep1s0f1 up" in found.detail
    assert "2.09x (unslothai/unsloth#10280, 2026-09-04)" in found.detail
    assert "1.14x, prefill slower (antirez/ds4#754, 2026-08-16)" in found.detail


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.sh", "torchrun --nproc-per-node 2 train.py\n"),
        ("train.sh", "torchrun --nproc_per_node=2 --nnodes=2 train.py\n"),
        ("train.sh", "deepspeed --num_gpus 2 train.py\n"),
        ("accelerate.yaml", "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 2\n"),
        ("accelerate.yaml", "num_machines: 2\nnum_processes: 4\n"),
    ],
)
def test_more_processes_on_a_node_than_gpus(pair, config, name, text):
    found = pair.look("G10", configs=config(text, name))
    assert found.status == "FAIL", found.detail
    assert "processes with a GPU each" in found.detail
    assert found.hint


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.sh", "torchrun --nnodes=2 --nproc-per-node=1 train.py\n"),
        ("train.sh", "torchrun --nnodes=1:2 --nproc-per-node=1 train.py\n"),
        ("train.sh", "torchrun --nproc-per-node=gpu train.py\n"),
        ("accelerate.yaml", "num_machines: 2\nnum_processes: 2\n"),
        ("serve.sh", "llama-server -m m.gguf --rpc 10.0.0.2:50052\n"),
        ("serve.sh", "ray start --head --num-gpus 1\n"),
    ],
)
def test_one_process_a_spark(pair, config, name, text):
    assert pair.look("G10", configs=config(text, name)).status == "PASS"


@pytest.mark.parametrize(
    "text",
    [
        "python -m torch.distributed.run --nnodes 2 pretrain_gpt.py --tensor-model-parallel-size 2\n",
        "srun python train.py --tensor-model-parallel-size 2 --nnodes 2 --micro-batch-size 1\n",
    ],
)
def test_training_is_known_by_its_launcher_and_its_settings(pair, config, text):
    assert "trains tensor parallel" in pair.look("G10", configs=config(text, "train.sh")).detail


def test_a_variable_of_a_pod_is_held_against_the_links(pair, config):
    text = "spec:\n  containers:\n  - args: [-tp, '2', --nnodes, '2']\n    env:\n    - name: NCCL_SOCKET_IFNAME\n"
    found = pair.look("G10", configs=config(text + "      value: eth0\n", "pod.yaml"))
    assert (found.status, "NCCL_SOCKET_IFNAME=`eth0`" in found.detail) == ("WARN", True)


def test_a_server_that_has_named_itself(pair):
    """Its command line is that of the process that started it."""
    pair.processes("42, 20000 MiB, VLLM::EngineCore").process(42, "VLLM::EngineCore")
    pair.put("proc/42/status", "Name:\tx\nPPid:\t41\n")
    pair.put("proc/41/cmdline", "vllm\0serve\0m\0--tensor-parallel-size\0" + "2\0")
    assert "tensor_parallel_size 2 (pid 42" in pair.look("G10").detail


def test_training_tensor_parallel_is_a_warning(pair, config):
    found = pair.look("G10", configs=config(TWO_NODES + "learning_rate: 0.0001\n"))
    assert found.status == "WARN"
    assert "split by layers was measured at 1.96x" in found.detail


def test_no_link_is_up(spark, config):
    spark.roce("rocep1s0f1", "enp1s0f1np1", up=False)
    found = spark.look("G10", configs=config(TWO_NODES))
    assert (found.status, "no ConnectX link is up (rocep1s0f1 down)" in found.detail) == ("WARN", True)


def test_switched_on_is_not_alive(pair):
    """The port says ACTIVE for a while after the cable is gone; the carrier does not."""
    for interface in ("enp1s0f1np1", "enP2p1s0f1np1"):
        pair.put(f"sys/class/net/{interface}/carrier", "0\n")
    assert pair.look("G10").status == "SKIP"


def test_links_are_judged_without_a_configuration(pair):
    assert pair.look("G10").status == "PASS"
    pair.put("sys/class/net/enP2p1s0f1np1/mtu", "1500\n")
    found = pair.look("G10")
    assert (found.status, "MTU below 9000: enP2p1s0f1np1 has 1500" in found.detail) == ("WARN", True)
    assert "dgx-spark-playbooks#25" in found.source


def test_half_a_port(pair):
    pair.put("sys/class/infiniband/roceP2p1s0f1/ports/1/state", "1: DOWN\n")
    found = pair.look("G10")
    assert (found.status, "only rocep1s0f1 of its port is up, roceP2p1s0f1 is down" in found.detail) == ("WARN", True)


def test_no_address_to_route_over(spark):
    spark.roce("rocep1s0f1", "enp1s0f1np1", gids=(("fe80::1", "RoCE v2"), ("10.0.0.1", "IB/RoCE v1")))
    spark.roce("roceP2p1s0f1", "enP2p1s0f1np1")
    found = spark.look("G10")
    assert "rocep1s0f1 has no RoCE v2 GID with an IPv4 address" in found.detail


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"NCCL_IB_HCA": "rocep1s0f1,roceP2p1s0f1"}, ""),
        ({"NCCL_IB_HCA": "roce"}, ""),
        ({"NCCL_IB_HCA": "=rocep1s0f1:1,roceP2p1s0f1:1"}, ""),
        ({"NCCL_IB_HCA": "^mlx5"}, ""),
        ({"NCCL_IB_HCA": "rocep1s0f1"}, "leaves out `roceP2p1s0f1`"),
        ({"NCCL_IB_HCA": "=roce"}, "names none of"),
        ({"NCCL_IB_HCA": "mlx5_0"}, "names none of"),
        ({"NCCL_IB_GID_INDEX": "1"}, ""),
        ({"NCCL_IB_GID_INDEX": "0"}, "NCCL_IB_GID_INDEX=`0` (environment) is no RoCE v2 IPv4 GID of"),
        ({"NCCL_SOCKET_IFNAME": "enp1s0f1np1"}, ""),
        ({"NCCL_SOCKET_IFNAME": "wlP9s9"}, "NCCL_SOCKET_IFNAME=`wlP9s9` (environment) is not on a ConnectX link"),
        ({"VLLM_HOST_IP": "10.0.0.1"}, ""),
        (
            {"VLLM_HOST_IP": "192.168.1.20"},
            "VLLM_HOST_IP=`192.168.1.20` (environment) is not on a ConnectX link: `10.0.0.1`",
        ),
    ],
)
def test_variables_against_the_links(pair, variables, word):
    found = pair.look("G10", variables)
    assert found.status == ("WARN" if word else "PASS"), found.detail
    assert word in found.detail


def test_variables_in_a_script(pair, config):
    found = pair.look("G10", configs=config("export NCCL_SOCKET_IFNAME=wlP9s9\n" + "ray start --head\n", "run.sh"))
    assert "run.sh, line 1) is not on a ConnectX link" in found.detail


def test_the_program_that_runs_is_read_too(pair):
    pair.process(4242, "vllm", ["serve", "m", "--tensor-parallel-size", "2"])
    found = pair.look("G10")
    assert (found.status, "(pid 4242: --tensor-parallel-size)" in found.detail) == ("FAIL", True)


def test_a_configuration_that_is_not_understood_is_named(spark, config):
    found = spark.look("G10", configs=config("a: *x\n"))
    assert (found.status, "was not understood" in found.detail) == ("WARN", True)
