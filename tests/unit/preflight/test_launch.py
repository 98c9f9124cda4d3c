"""G10: whether a launch asks for more than one Spark, and whether something starts the other."""

import pytest


@pytest.fixture
def ask(spark, tmp_path):
    """G10 of a Spark whose links are up, for one file."""
    spark.roce("rocep1s0f1", "enp1s0f1np1").roce("roceP2p1s0f1", "enP2p1s0f1np1")

    def call(text, name="run.sh", environ=None):
        (tmp_path / name).write_text(text)
        return spark.look("G10", environ, configs=(str(tmp_path / name),))

    return call


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m -dp 2",
        "vllm serve m -tp 2 --distributed-executor-backend mp",
        "vllm serve m -tp 2 --distributed-executor-backend=uni",
        "vllm serve m -tp 2 --nnodes 1 --node-rank 0",
        "vllm serve m -dp 2 --data-parallel-address 127.0.0.1",
        "vllm serve m -tp 1 --prefill-context-parallel-size 2",
        "python3 -m sglang.launch_server --tp 2 --dist-init-addr 127.0.0.1:5000",
        "python3 -m sglang.launch_server --dp-size 2",
        "text-generation-launcher --model-id m --num-shard 2",
        "torchtitan --parallelism.tensor_parallel_degree=2",
        "python3 -m verl.trainer.main_ppo rollout.tensor_model_parallel_size=2 trainer.nnodes=1",
        "srun -N1 -n1 vllm serve m -tp 2",
        "#SBATCH --nodes=1\nsrun vllm serve m -tp 2",
        "pip install ray\nvllm serve m -tp 2",
        "mpirun -np 2 -H localhost:2 trtllm-serve m --tp_size 2",
        "./launch-cluster.sh --solo exec vllm serve m -tp 2",
    ],
)
def test_what_stays_on_one_node(ask, text):
    found = ask(text)
    assert (found.status, "nothing there starts a second node" in found.detail) == ("FAIL", True), found.detail


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m -tp 2 --nnodes 2 --node-rank 0",
        "vllm serve m -tp 2 --distributed-executor-backend mp --nnodes $NNODES --node-rank 0",
        "vllm serve m -tp 2 --nnodes $NNODES",
        "vllm serve m -dp 2 --data-parallel-size-local 1 --data-parallel-address 10.0.0.1",
        "vllm serve m -dp 2 --data-parallel-backend=ray",
        "python3 -m sglang.launch_server --tp 2 --dp 2 --enable-dp-attention --nnodes 2 --node-rank 1",
        "#SBATCH --nodes=2\nsrun vllm serve m -tp 2 --nnodes 2 --node-rank $SLURM_NODEID",
        "mpirun -np 2 -H 10.0.0.1:1,10.0.0.2:1 trtllm-serve m --tp_size 2",
        "./launch-cluster.sh --no-ray exec vllm serve m -tp 2",
        "sparkrun run recipe --tp 2 --hosts 10.0.0.1,10.0.0.2",
        "ray symmetric-run --min-nodes 2 -- vllm serve m -tp 2",
        "bash multi-node-serving.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE); vllm serve m -tp 2",
        "ssh b 'vllm serve m -tp 2 --nnodes 2 --node-rank 1 --headless' &\nvllm serve m -tp 2 --nnodes 2 --node-rank 0",
    ],
)
def test_what_starts_the_other_node(ask, text):
    found = ask(text)
    assert (found.status, "over two Sparks" in found.detail) == ("PASS", True), found.detail


def test_more_gpus_than_both_nodes_have(ask):
    found = ask("vllm serve m -tp 4 --nnodes 2 --node-rank 0")
    assert (found.status, "asks for 4 GPUs, and 2 Sparks have 2" in found.detail) == ("FAIL", True)


def test_two_ways_to_launch_in_one_script_are_not_multiplied(ask):
    ways = "vllm serve m -{} 2 --nnodes 2 --node-rank 0\n"
    assert ask(f"if a; then\n{ways.format('tp')}else\n{ways.format('pp')}fi").status == "PASS"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("vllm serve m --tensor-parallel-size $TP", "run.sh"),
        ("vllm serve m -tp $(nvidia-smi -L | wc -l)", "run.sh"),
        ("tensor_parallel_size: ${TP}", "a.yaml"),
        ('tensor_parallel_size: "{{ tp }}"', "a.yaml"),
    ],
)
def test_a_size_that_nobody_knows_here_is_not_passed(ask, text, name):
    found = ask(text, name)
    assert (found.status, "whose value is not known here" in found.detail) == ("SKIP", True), found.detail
    assert found.hint


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("docker run -dp 8080:80 img", "run.sh"),
        ("docker run --rm -dp 80 img", "run.sh"),
        ("ssh -tp 22 host htop\nnetstat -tp 5", "run.sh"),
        ("x --tensor-parallel-size " + "9" * 5000, "run.sh"),
        ("dataset:\n  num_processes: 8", "a.yaml"),
        ("use_cpu: true\nnum_machines: 1\nnum_processes: 4", "a.yaml"),
        ("services:\n  a:\n    ports:\n    - {target: 80, host_ip: 127.0.0.1}", "compose.yaml"),
    ],
)
def test_what_asks_for_no_gpu(ask, text, name):
    found = ask(text, name)
    assert (found.status, "nothing asks for a second Spark" in found.detail) == ("PASS", True), found.detail


RAY = "\nray start --head\nvllm serve m -tp 2 --distributed-executor-backend ray"


@pytest.mark.parametrize(
    "variable",
    [
        "VLLM_HOST_IP=$(hostname -I)",
        "NCCL_SOCKET_IFNAME=$IFACE",
        "NCCL_SOCKET_IFNAME=enp1s0f1",
        "NCCL_SOCKET_IFNAME=^lo,docker0",
        "NCCL_SOCKET_IFNAME==enp1s0f1np1",
        "UCX_NET_DEVICES=rocep1s0f1:1,roceP2p1s0f1:1",
        "UCX_NET_DEVICES=enp1s0f1np1",
        "UCX_NET_DEVICES=all",
        "VLLM_HOST_IP=10.0.0.2",
        "NCCL_IB_HCA=$HCA",
        "NCCL_IB_HCA=",
        "NCCL_IB_DISABLE=0",
        "NCCL_NET=IB",
    ],
)
def test_a_variable_that_is_on_the_link_or_unknown(ask, variable):
    found = ask(f"export {variable}{RAY}")
    assert found.status == "PASS", found.detail


@pytest.mark.parametrize(
    "variable",
    [
        "NCCL_SOCKET_IFNAME=^enp1s0f1np1,enP2p1s0f1np1",
        "GLOO_SOCKET_IFNAME=enp1s0f1",
        "UCX_NET_DEVICES=mlx5_0:1",
        "SGLANG_HOST_IP=192.168.1.4",
        "VLLM_HOST_IP=10.0.1.2",
    ],
)
def test_a_variable_that_is_off_the_link(ask, variable):
    found = ask(f"export {variable}{RAY}")
    assert (found.status, "is not on a ConnectX link" in found.detail) == ("WARN", True), found.detail


@pytest.mark.parametrize("variable", ["NCCL_IB_DISABLE=1", "NCCL_NET=Socket"])
def test_a_variable_that_keeps_nccl_from_using_the_link(ask, variable):
    found = ask(f"export {variable}{RAY}")
    assert (found.status, "keeps NCCL from using RoCE" in found.detail) == ("WARN", True), found.detail
    assert ask(RAY, environ=dict([variable.split("=")])).status == "WARN"


def test_halves_of_a_port_are_known_by_their_interfaces_too(spark):
    spark.roce("mlx5_0", "enp1s0f0np0").roce("mlx5_1", "enP2p1s0f0np0", up=False)
    found = spark.look("G10")
    assert (found.status, "only mlx5_0 of its port is up, mlx5_1 is down" in found.detail) == ("WARN", True)


def test_the_address_of_this_node_is_its_own(ask):
    assert ask(RAY, environ={"VLLM_HOST_IP": "10.0.0.2"}).status == "WARN"
