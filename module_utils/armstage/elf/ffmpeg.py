"""FFmpeg's libraries by name: which soname belongs to which major version."""

from __future__ import annotations

import re

_LIBRARIES = ("avutil", "avcodec", "avformat", "avdevice", "avfilter", "swscale", "swresample")

MAJORS = {
    4: (56, 58, 58, 58, 7, 5, 3),
    5: (57, 59, 59, 59, 8, 6, 4),
    6: (58, 60, 60, 60, 9, 7, 4),
    7: (59, 61, 61, 61, 10, 8, 5),
    8: (60, 62, 62, 62, 11, 9, 6),
    9: (61, 63, 63, 63, 12, 10, 7),
}
"""FFmpeg major: the numbers of its sonames, in the order of ``_LIBRARIES``.

It only names what is found; what torchcodec needs is read from its files. Source: DT_NEEDED of
torchcodec 0.11.0 to 0.17.0 and its ``ffmpeg_versions.cmake`` (2026-09-30).
"""

_SONAMES: dict[str, set[int]] = {}
for _major, _numbers in MAJORS.items():
    for _library, _number in zip(_LIBRARIES, _numbers):
        _SONAMES.setdefault(f"lib{_library}.so.{_number}", set()).add(_major)

_NAME = re.compile(
    r"lib(?P<library>avcodec|avdevice|avfilter|avformat|avresample|avutil|postproc|swresample|swscale)"
    r"(?P<private>-[0-9a-f]{8})?\.so(\.(?P<number>\d+)(\.\d+)*)?"
)

PRIVATE = re.compile(r"-[0-9a-f]{8}(\.so|\.[\d.]+\.so)")
"""What auditwheel puts into the name of a library that it takes into a wheel."""

SYMBOL = re.compile(r"(av|avpriv|avcodec|avdevice|avfilter|avformat|avio|avsubtitle|avutil|swr|sws)_\w+")
"""A symbol of FFmpeg's own."""


def is_ffmpeg(name: str) -> bool:
    """Whether a file name or soname is that of an FFmpeg library, a wheel's private copy included."""
    return _NAME.fullmatch(name) is not None


def is_private(name: str) -> bool:
    """Whether it is a wheel's private copy, as ``libavutil-2a27f4d8.so.59.39.100``.

    Its name satisfies nobody but the libraries that came with it.
    """
    match = _NAME.fullmatch(name)
    return match is not None and match["private"] is not None


def plain_soname(name: str) -> str | None:
    """The soname that a library's file name stands for: ``libavutil.so.59`` for either form."""
    match = _NAME.fullmatch(name)
    if match is None or match["number"] is None:
        return None
    return f"lib{match['library']}.so.{match['number']}"


def major_of(soname: str) -> int | None:
    """The FFmpeg major that a soname belongs to; None where it is unknown or shared by two."""
    majors = _SONAMES.get(soname, set())
    return next(iter(majors)) if len(majors) == 1 else None


def is_telling(soname: str) -> bool:
    """Whether finding a soname says which major is there: ``libswresample.so.4`` is in 5 and in 6."""
    return len(_SONAMES.get(soname, ())) < 2
