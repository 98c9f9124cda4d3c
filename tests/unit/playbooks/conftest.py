"""OpenSSH's client, from the system's packages; installed where this is root on Debian or Ubuntu."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "module_utils")]

from lab import prerequisites  # noqa: E402
from lab.host import read_host  # noqa: E402

from armstage.errors import ArmstageError  # noqa: E402


@pytest.fixture(scope="session")
def ssh():
    try:
        prerequisites.install(read_host(), [prerequisites.Need(("ssh",), "openssh-client")])
    except ArmstageError as error:
        pytest.skip(error.text)
