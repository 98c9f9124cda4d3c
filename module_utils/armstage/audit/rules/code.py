"""Rules on Python code: calls that the aarch64 builds no longer have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..model import ERROR, WARNING, Found, Project, Rule
from ..readers import python_code


@dataclass(frozen=True)
class Gone:
    """A name and everything below it: what became of it since which version, and what to use instead."""

    name: str
    since: str
    instead: str

    def covers(self, name: str) -> bool:
        return name == self.name or name.startswith(self.name + ".")


# Read in the wheels of torchvision 0.21 to 0.29.1 and torchaudio 2.8 to 2.11, 2026-11-30.
REMOVED_VIDEO = (
    Gone("torchvision.io.VideoReader", "torchvision 0.26", "torchcodec.decoders.VideoDecoder"),
    Gone("torchvision.io.read_video", "torchvision 0.26", "torchcodec.decoders.VideoDecoder"),
    Gone(
        "torchvision.io.read_video_timestamps",
        "torchvision 0.26",
        "torchcodec.decoders.VideoDecoder: `metadata` and `get_frames_played_in_range`",
    ),
    Gone("torchvision.io.write_video", "torchvision 0.26", "torchcodec.encoders.VideoEncoder"),
    Gone("torchvision.io.video", "torchvision 0.26", "torchcodec.decoders.VideoDecoder"),
    Gone("torchvision.io.video_reader", "torchvision 0.26", "torchcodec.decoders.VideoDecoder"),
)
IGNORED_VIDEO = (
    Gone("torchvision.set_video_backend", "torchvision 0.26", "nothing: torchcodec has one backend"),
    Gone("torchvision.get_video_backend", "torchvision 0.26", "nothing: torchcodec has one backend"),
)
REMOVED_AUDIO = (
    Gone("torchaudio.info", "torchaudio 2.9", "torchcodec.decoders.AudioDecoder: `metadata`"),
    Gone("torchaudio.AudioMetaData", "torchaudio 2.9", "torchcodec.decoders.AudioDecoder: `metadata`"),
    Gone("torchaudio.set_audio_backend", "torchaudio 2.9", "nothing: torchcodec has one backend"),
    Gone("torchaudio.get_audio_backend", "torchaudio 2.9", "nothing: torchcodec has one backend"),
    Gone("torchaudio.list_audio_backends", "torchaudio 2.9", "nothing: torchcodec has one backend"),
    Gone("torchaudio.io", "torchaudio 2.9", "torchcodec.decoders.AudioDecoder and torchcodec.encoders.AudioEncoder"),
    Gone("torchaudio.backend", "torchaudio 2.9", "torchaudio.load, or torchcodec.decoders.AudioDecoder"),
    Gone("torchaudio.sox_effects", "torchaudio 2.9", "torchaudio.functional"),
    Gone("torchaudio.kaldi_io", "torchaudio 2.9", "the package kaldi_io"),
    Gone("torchaudio.prototype", "torchaudio 2.9", "nothing"),
)


def removed_video_call(project: Project) -> Iterator[Found]:
    yield from _uses(project, REMOVED_VIDEO, "is gone since {since}, the first with a CUDA build for aarch64")


def ignored_video_backend(project: Project) -> Iterator[Found]:
    yield from _uses(project, IGNORED_VIDEO, "does nothing since {since}, the first with a CUDA build for aarch64")


def removed_audio_call(project: Project) -> Iterator[Found]:
    yield from _uses(
        project, REMOVED_AUDIO, "is gone since {since}, before the first with a CUDA build of torch on PyPI for aarch64"
    )


def _uses(project: Project, table: tuple[Gone, ...], said: str) -> Iterator[Found]:
    packages = {gone.name.split(".")[0] for gone in table}
    for source in project.of("python", "setup.py"):
        if not any(package in source.text for package in packages):
            continue
        for reference in python_code.references(source.document):
            gone = next((gone for gone in table if gone.covers(reference.name)), None)
            if gone:
                yield Found(
                    source,
                    reference.line,
                    why=f"`{gone.name}` {said.format(since=gone.since)}",
                    fix=f"Use {gone.instead}",
                    last_line=reference.last_line,
                )


RULES = (
    Rule(
        "removed-video-call",
        "A video call of torchvision that its aarch64 CUDA builds do not have",
        ERROR,
        "torchvision decodes and encodes video no longer since 0.26, the first with a CUDA build for aarch64",
        "Use torchcodec.decoders.VideoDecoder",
        bad={"data.py": "from torchvision import io as tvio\n\nframes = tvio.VideoReader('clip.mp4')\n"},
        good={
            "data.py": "from torchcodec.decoders import VideoDecoder\n\nframes = VideoDecoder('clip.mp4')  "
            "# was torchvision.io.VideoReader\n"
        },
        check=removed_video_call,
    ),
    Rule(
        "ignored-video-backend",
        "A choice of torchvision's video backend that changes nothing",
        WARNING,
        "torchvision has no video backends since 0.26, the first with a CUDA build for aarch64: the call is "
        "accepted and ignored",
        "Remove the call and decode with torchcodec",
        bad={"data.py": "import torchvision\n\ntorchvision.set_video_backend('pyav')\n"},
        good={"data.py": "import torchvision\n\ntorchvision.set_image_backend('PIL')\n"},
        check=ignored_video_backend,
    ),
    Rule(
        "removed-audio-call",
        "An audio call of torchaudio that is gone",
        ERROR,
        "torchaudio reads, writes and describes files through torchcodec only since 2.9; the rest is gone",
        "Use torchcodec.decoders.AudioDecoder",
        bad={"data.py": "import torchaudio\n\nrate = torchaudio.info('speech.wav').sample_rate\n"},
        good={"data.py": "import torchaudio\n\nwaveform, rate = torchaudio.load('speech.wav')\n"},
        check=removed_audio_call,
    ),
)
