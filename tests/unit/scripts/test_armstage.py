"""`./armstage` itself: the environment in which the verbs run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif(not shutil.which("locale"), reason="needs locale(1)")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"LANG": "C"},
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LC_ALL": "xx_XX.UTF-8"},
        {"LANG": "de_DE.ISO-8859-1"},
        {"LC_ALL": "C.UTF-8"},
    ],
)
def test_the_locale_is_one_that_is_there_and_utf_8(given):
    """An ssh session brings its own along, and Ansible does not start in one that is not there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    done = subprocess.run(
        [ROOT / "armstage", "exec", "locale", "charmap"],
        env={**environment, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "UTF-8"
