"""Make the clip that a staged environment decodes as its proof, and the facts to expect of it.

    python tests/lab/clip.py roles/job_env/files

Needs the PyPI packages `av` and `numpy`, here only: the clip and its facts are kept in the repository. The picture is a
function of the frame number alone, so that a decoder that repeats, drops or reorders frames gives another mean.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import av
import numpy as np

FRAMES, WIDTH, HEIGHT, RATE = 60, 320, 180, 30
KEYFRAME_EVERY = 20
CODEC_OPTIONS = {
    "profile": "main",
    "preset": "veryslow",
    "crf": "30",
    "g": str(KEYFRAME_EVERY),
    "keyint_min": str(KEYFRAME_EVERY),
    "sc_threshold": "0",
    "bf": "2",
    "threads": "1",
}
# The conversion from YUV to RGB rounds differently between FFmpeg's SIMD code paths.
TOLERANCE = 1.0


def picture(index: int) -> np.ndarray:
    """Frame `index` as height x width x 3 bytes: two gradients that move, and a blue level that rises."""
    columns = np.linspace(0, 255, WIDTH)
    rows = np.linspace(0, 255, HEIGHT)
    shift = 255 * index / FRAMES
    frame = np.empty((HEIGHT, WIDTH, 3), dtype=np.uint8)
    frame[..., 0] = np.abs((columns[None, :] + shift) % 510 - 255)
    frame[..., 1] = np.abs((rows[:, None] + shift) % 510 - 255)
    frame[..., 2] = 32 + 3 * index
    return frame


def encode(path: Path) -> None:
    with av.open(str(path), "w", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("h264", rate=RATE, options=CODEC_OPTIONS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for index in range(FRAMES):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(index), format="rgb24")))
        container.mux(stream.encode())


def facts(path: Path) -> dict[str, object]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        decoded = [(frame.key_frame, frame.to_ndarray(format="rgb24")) for frame in container.decode(stream)]
        profile = stream.codec_context.profile
    return {
        "codec": "h264",
        "profile": profile,
        "pixel_format": "yuv420p",
        "frames": len(decoded),
        "width": decoded[0][1].shape[1],
        "height": decoded[0][1].shape[0],
        "frames_per_second": RATE,
        "keyframes": [index for index, (key, _) in enumerate(decoded) if key],
        "mean_rgb": {str(index): round(float(decoded[index][1].mean()), 3) for index in (0, FRAMES - 1)},
        "tolerance": TOLERANCE,
        "decoded_by": f"FFmpeg {av.ffmpeg_version_info} on x86_64",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Make clip.mp4 and clip.json.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    clip = folder / "clip.mp4"
    encode(clip)
    (folder / "clip.json").write_text(json.dumps(facts(clip), indent=2) + "\n")


if __name__ == "__main__":
    main()
