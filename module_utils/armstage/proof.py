"""What came of running the staged proof (roles/job_env/files/prove.py) on a node."""

from __future__ import annotations

import json
import shlex
from typing import Any

from .run import Completed, run

SCRIPT = "share/armstage/prove.py"

BYTECODE = 'PYTHONPYCACHEPREFIX="${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/armstage/bytecode"'


def command(root: str, cuda_version: str = "") -> list[str]:
    """The argv that sources env.sh and runs the proof, as a job script would.

    Byte-code goes to the user's own cache: the root is only read, and the next proof starts faster.
    """
    assume = f"export ARMSTAGE_CUDA_VERSION={shlex.quote(cuda_version)}; " if cuda_version else ""
    return ["sh", "-c", f'{assume}. "$0/env.sh" && {BYTECODE} exec python "$0/{SCRIPT}"', root]


def prove(root: str, cuda_version: str = "", timeout: float = 600.0) -> dict[str, Any]:
    """Run the proof: see ``judge`` for the result."""
    return judge(run(command(root, cuda_version), timeout), timeout)


def judge(completed: Completed, timeout: float) -> dict[str, Any]:
    """``{ok, message, hint, proof}``: the proof's own values, or why there are none."""
    proof = _last_json(completed.out)
    if completed.timed_out:
        return _failed(
            f"The proof did not end within {timeout:.0f} s"
            + (" and could not be killed" if completed.abandoned else ""),
            "A wedged driver hangs every CUDA program: look at nvidia-smi and the kernel log on the node",
        )
    if proof.get("ok"):
        return {"ok": True, "message": sentence(proof), "hint": "", "proof": proof}
    if proof and proof["torch_cuda"] is None:
        return _failed(
            f"torch {proof['torch']} is a CPU build: torch.version.cuda is None",
            "Stage again: ./armstage stage; something has replaced the wheel since",
            proof,
        )
    if proof:
        return _failed("; ".join(proof["wrong"]), "The clip or the decoder is damaged: stage again", proof)
    lines = [line for line in completed.err.splitlines() if line.strip()]
    said = next((line for line in lines if line.startswith("armstage: ")), lines[-1] if lines else "nothing")
    return _failed(
        f"The proof ended with status {completed.rc} and said: {said.strip()}",
        f"Run it by hand on the node: {shlex.join(completed.argv)}",
    )


def sentence(proof: dict[str, Any]) -> str:
    """One line for people: what ran, and what it showed."""
    height, width = proof["shape"][1:]
    kernel = f", a kernel ran on {proof['gpu']}" if proof["gpu"] else ", no GPU seen: decoded on the CPU"
    return (
        f"torch {proof['torch']} (CUDA {proof['torch_cuda']}) and torchcodec {proof['torchcodec']} with FFmpeg "
        f"{proof['ffmpeg_major']} decoded {proof['frames']} frames of {width}x{height}{kernel}"
    )


def _failed(message: str, hint: str, proof: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"ok": False, "message": message, "hint": hint, "proof": proof or {}}


def _last_json(text: str) -> dict[str, Any]:
    """The last line that is a JSON object: libraries may print before it."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}
