"""Proves a staged environment on the node that will run it: imports torch, decodes a clip, prints one JSON line.

    python prove.py [CLIP]       with env.sh sourced; the clip's expected values lie beside it as .json

Exit status 0 when the decoded frames are what they must be, 1 otherwise. With an NVIDIA GPU a small
kernel runs too: an environment may import and still hold no kernels for the GPU.
"""

import json
import os
import sys
import time


def main() -> int:
    clip = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "clip.mp4")
    with open(os.path.splitext(clip)[0] + ".json", encoding="utf-8") as file:
        expected = json.load(file)
    started = time.monotonic()
    import torch

    proof = {
        "python": sys.version.split()[0],
        "machine": os.uname().machine,
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "import_seconds": round(time.monotonic() - started, 2),
        "gpu": run_a_kernel(torch),
    }
    proof.update(decode(clip, expected))
    proof["ok"] = not proof["wrong"] and proof["torch_cuda"] is not None
    print(json.dumps(proof))
    return 0 if proof["ok"] else 1


def run_a_kernel(torch):
    """The GPU's name once a sum on it came out right; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    total = torch.arange(1000, device="cuda").sum().item()
    return torch.cuda.get_device_name(0) if total == 499500 else f"sum of 0..999 came out as {total}"


def decode(clip, expected):
    """Decode the whole clip by torchcodec: frames are [channels=3, height, width] bytes of RGB."""
    import torchcodec
    from torchcodec.decoders import VideoDecoder

    started = time.monotonic()
    decoder = VideoDecoder(clip)
    count = len(decoder)
    shapes = {tuple(frame.shape) for frame in decoder}
    means = {index: round(decoder[int(index)].double().mean().item(), 3) for index in expected["mean_rgb"]}
    wanted = (3, expected["height"], expected["width"])
    wrong = []
    if count != expected["frames"]:
        wrong.append(f"expected {expected['frames']} frames, but decoded {count}")
    if shapes != {wanted}:
        wrong.append(f"expected frames of shape {wanted}, but decoded {sorted(shapes)}")
    for index, mean in means.items():
        if abs(mean - expected["mean_rgb"][index]) > expected["tolerance"]:
            wrong.append(f"expected a mean of {expected['mean_rgb'][index]} in frame {index}, but decoded {mean}")
    return {
        "torchcodec": torchcodec.__version__,
        "ffmpeg_major": torchcodec.ffmpeg_major_version,
        "frames": count,
        "shape": list(wanted),
        "means": means,
        "decode_seconds": round(time.monotonic() - started, 2),
        "wrong": wrong,
    }


if __name__ == "__main__":
    sys.exit(main())
