"""Driver branch -> the CUDA version its own libcuda reports, newest first.

Dated 2026-11-30. Sources: the "CUDA Toolkit and Corresponding Driver Versions" table of
https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html for the branches that came with a
toolkit; what nvidia-smi prints for the others, as noted.
"""

from __future__ import annotations

DATED = "2026-11-30"

DRIVER_CUDA = (
    ("615", "13.4"),  # 13.4.1, 2026-09-09; nvidia-smi of 615.71.09, 616 and 617 prints 13.4
    ("610", "13.3"),  # 13.3, 610.43.02
    ("595", "13.2"),  # 13.2.0, 595.45.04
    ("590", "13.1"),  # 13.1.0, 590.44.01
    ("580", "13.0"),  # 13.0.0, 580.65.06
    ("575", "12.9"),  # 12.9.0, 575.51.03
    ("570", "12.8"),  # 12.8.0, 570.26
    ("565", "12.7"),  # no toolkit 12.7; nvidia-smi of 565.57.01 prints 12.7
    ("560", "12.6"),  # 12.6.0, 560.28.03
    ("555", "12.5"),  # 12.5.0, 555.42.02
    ("550", "12.4"),  # 12.4.0, 550.54.14
    ("545", "12.3"),  # 12.3.0, 545.23.06
    ("535", "12.2"),  # 12.2.0, 535.54.03
    ("530", "12.1"),  # 12.1.0, 530.30.02
    ("525", "12.0"),  # 12.0.0, 525.60.13
    ("520", "11.8"),  # 11.8.0, 520.61.05
    ("515", "11.7"),  # 11.7.0, 515.43.04
    ("510", "11.6"),  # 11.6.0, 510.39.01
    ("495", "11.5"),  # 11.5.0, 495.29.05
    ("470", "11.4"),  # 11.4.0, 470.42.01
    ("465", "11.3"),  # 11.3.0, 465.19.01
    ("460", "11.2"),  # 11.2.0, 460.27.03
    ("455", "11.1"),  # 11.1.0, 455.23.05
    ("450", "11.0"),  # 11.0.1, 450.36.06
)


def cuda_of_driver(version: str) -> str | None:
    """The CUDA version of the newest branch that is not newer than this driver.

    A driver of a branch between two entries has at least the lower one's CUDA. None for a driver
    older than the table, and for text that starts with no number. Jetson drivers before JetPack 7
    (35.3.1, 540.4.0) are of another numbering: ask `cuda_of_branch` for those.
    """
    branch = version.split(".", 1)[0]
    if not (branch.isascii() and branch.isdigit()):
        return None
    return next((cuda for oldest, cuda in DRIVER_CUDA if int(branch) >= int(oldest)), None)


def cuda_of_branch(version: str) -> str | None:
    """The CUDA version of exactly this driver's branch, or None for a branch the table lacks."""
    return dict(DRIVER_CUDA).get(version.split(".", 1)[0])
