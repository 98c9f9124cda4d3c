"""What the checks judge by, each value with the day it was true and where it was read.

Equal to ``preflight`` in vars/compatibility.yml (a test compares them): nodes get Python files only.
"""

from __future__ import annotations

from typing import Any

WHEEL_ARCHITECTURES: dict[str, dict[str, Any]] = {
    "cu132": {"architectures": ["8.0", "9.0", "10.0", "11.0", "12.0"], "ptx": "12.0"},
    "cu130": {"architectures": ["8.0", "9.0", "10.0", "11.0", "12.0"], "ptx": "12.0"},
    "cu129": {"architectures": ["8.0", "9.0", "10.0", "12.0"], "ptx": None},
    "cu128": {"architectures": ["8.0", "9.0", "10.0", "12.0"], "ptx": None},
    "cu126": {"architectures": ["8.0", "9.0"], "ptx": None},
}
"""GPU architectures of the aarch64 wheels, by the tag of the index: ``indexes`` of vars/compatibility.yml."""

THRESHOLDS: dict[str, dict[str, Any]] = {
    "headroom_floor": {
        "available_gib": 4,
        "date": "2026-09-19",
        "source": (
            "between 7 GiB, with which a Spark served on (MiaAI-Lab/Qwen3.8-Flash-Next-Single-DGX-Spark#54), and 0, at"
            " which two hung (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#193, NVIDIA/open-gpu-kernel-modules#1358)"
        ),
    },
    "droppable": {
        "share": 0.25,
        "date": "2026-09-10",
        "source": "unslothai/unsloth#10704: 60 of 121.7 GiB of page cache took CUDA's free memory from 103 to 42 GiB",
    },
    "fragmentation": {
        "order": 10,
        "zone": "Normal",
        "date": "2026-09-17",
        "source": "MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#23: 0 free blocks of 4 MiB before a wedge, 24 after a boot",
    },
    "sonames": {
        "cuda": {
            "libcufft.so.11": "12",
            "libcufft.so.12": "13",
            "libcufftw.so.11": "12",
            "libcufftw.so.12": "13",
            "libcusolver.so.11": "12",
            "libcusolver.so.12": "13",
            "libcusolverMg.so.11": "12",
            "libcusolverMg.so.12": "13",
            "libnvToolsExt.so.1": "12",
        },
        "date": "2026-12-01",
        "source": (
            "nvidia-cufft-cu12 11.3, nvidia-cufft 12.0, nvidia-cusolver-cu12 11.7, nvidia-cusolver 12.0; NVTX 3 is"
            " headers alone in CUDA 13"
        ),
    },
    "thermal_slowdown": {
        "seconds": 1,
        "date": "2026-08-18",
        "source": "ollama/ollama#13552: 173 s of slowdown since load while every reason reads Not Active",
    },
    "load": {
        "utilisation_percent": 50,
        "least_samples": 5,
        "date": "2026-11-30",
        "source": "from where on a sample counts as taken under load",
    },
    "clock_floor": {
        "spark_mhz": 1500,
        "usual_mhz": [2171, 2489],
        "date": "2026-09-11",
        "source": (
            "forums.developer.nvidia.com 361296, 376039 and Blackwellboy/model-serving-minefield#55: stuck at 481 to"
            " 858 MHz under load with no reason shown, healthy from 2171 MHz on"
        ),
    },
    "power_floor": {
        "spark_watts": 30,
        "usual_watts": [45, 63],
        "date": "2026-09-11",
        "source": (
            "eugr/spark-vllm-docker#260: 96 % utilisation at 22 W is a deadlock; forums.developer.nvidia.com 361296:"
            " about 5 to 16 W with the clock stuck"
        ),
    },
    "bandwidth": {
        "spark": {"read": [231, 234], "copy": [180, 192], "specified": 273},
        "share": 0.9,
        "date": "2026-08-18",
        "source": "antirez/ds4#773 (a read kernel), wshobson/dgx-spark-ops G5 (a copy)",
    },
    "other_processes": {
        "small_share": 0.3,
        "large_share": 0.5,
        "date": "2026-11-30",
        "source": "shares of the GPU's memory; sglang::scheduler was seen with 96073 of a Spark's 124610 MiB",
    },
    "playbook_images": {
        "images": [
            {
                "image": "nvcr.io/nvidia/pytorch",
                "before": "25.11",
                "why": "25.09 does not see the GPU of a Spark, 25.11 does",
                "source": "unslothai/unsloth#3733, #3553",
            },
        ],
        "commits": [
            {
                "before": "2026-08-24",
                "why": "the vLLM playbook described a container without Ray until then",
                "source": "NVIDIA/dgx-spark-playbooks#109",
            },
        ],
        "date": "2026-11-30",
        "source": "NVIDIA/dgx-spark-playbooks#34, #68, #109; unslothai/unsloth#3733",
    },
    "two_sparks": {
        "mtu": 9000,
        "mtu_source": "NVIDIA/dgx-spark-playbooks#25 (2025-11-19): 18.94 GB/s of busbw with the default of 1500",
        "halves_source": (
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#35 (2026-08-20): 98 Gb/s with one"
            " half of the port, 161 Gb/s with both"
        ),
        "gid_source": (
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#40 (2026-08-21): the index moves"
            " with interface events; left unset, NCCL finds it"
        ),
        "tensor_parallel": [
            {"what": "tensor-parallel inference", "measured": "2.09x", "source": "unslothai/unsloth#10280, 2026-09-04"},
            {
                "what": "tensor-parallel decode",
                "measured": "1.14x, prefill slower",
                "source": "antirez/ds4#754, 2026-08-16",
            },
            {"what": "layer-split training", "measured": "1.96x", "source": "unslothai/unsloth#10280, 2026-09-04"},
        ],
        "date": "2026-09-04",
        "source": "NVIDIA/dgx-spark-playbooks (vllm, trt-llm) run TP=2 over two Sparks; what was measured differs",
    },
}
