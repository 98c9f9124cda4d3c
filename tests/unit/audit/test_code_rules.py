"""Forms of each fault that people write, and the forms beside them that are none: Python."""

import pytest

from .findings import python

PYTHON = [
    ("import torchvision\ntorchvision.io.VideoReader", ["2 removed-video-call"]),
    ("import torchvision.io\ntorchvision.io.VideoReader", ["2 removed-video-call"]),
    ("import torchvision as tv\ntv.io.read_video('x')", ["2 removed-video-call"]),
    (
        "from torchvision.io import (\n  read_image,\n  VideoReader as V,\n)\nV('x')",
        ["3 removed-video-call", "5 removed-video-call"],
    ),
    ("from torchvision.io.video import read_video", ["1 removed-video-call"]),
    ("def f():\n  from torchvision import io\n  return io.write_video", ["3 removed-video-call"]),
    ("def f():\n  return io.write_video\nfrom torchvision import io", ["2 removed-video-call"]),
    ("from torchvision import io\nclass A(io.VideoReader): pass", ["2 removed-video-call"]),
    ("import torchvision\ngetattr(torchvision.io, 'VideoReader')", ["2 removed-video-call"]),
    ("import torchvision\ntorchvision.set_video_backend('pyav')", ["2 ignored-video-backend"]),
    ("import torchaudio\ntorchaudio.set_audio_backend('sox')", ["2 removed-audio-call"]),
    ("import torchaudio.io", ["1 removed-audio-call"]),
    ("from torchaudio.io import StreamReader", ["1 removed-audio-call"]),
    ("import torchvision\ntorchvision.io.read_image", []),
    ("from torchcodec.decoders import VideoDecoder as VideoReader\nVideoReader('torchvision')", []),
    ("# torchvision.io.VideoReader\n'''torchvision.io.VideoReader'''\nx = 'torchvision.io.VideoReader'", []),
    ("from .torchvision.io import VideoReader", []),
    ("from . import torchvision\ntorchvision.io.VideoReader", []),
    ("torchvision = object()\ntorchvision.io.VideoReader", []),
    ("try:\n  from torchvision.io import VideoReader\nexcept ImportError:\n  VideoReader = None\nVideoReader", []),
    ("try:\n  from torchvision.io import VideoReader\nexcept (ImportError, RuntimeError):\n  VideoReader = None", []),
    ("try:\n  from torchvision.io import VideoReader\nexcept OSError:\n  pass", ["2 removed-video-call"]),
    ("import torchaudio\ntorchaudio.load('x')\ntorchaudio.information", []),
]


@pytest.mark.parametrize(("text", "expected"), PYTHON)
def test_calls_that_are_gone(text, expected):
    assert python(text) == expected
