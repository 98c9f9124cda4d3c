"""Room that is asked for before it is needed, and sizes as people write them."""

import errno
import os

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging.fetch import fetch
from ansible.module_utils.armstage.staging.space import full, human, require_space

from .downloads import BODY, SHA, held


def test_room_is_asked_for_before_the_first_byte(server, cache, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((4096, 4096, 9, 9, 9, 9, 9, 9, 0, 255)))
    with pytest.raises(ArmstageError, match=r"Not enough .*: 300.0 kB needed and 67.1 MB to spare, 36.9 kB free"):
        fetch(server.put("/a.tar.gz", BODY), cache, SHA)
    assert held(cache) == []


def test_room_for_more_than_there_is(tmp_path):
    require_space(tmp_path, 1, "for a test")
    with pytest.raises(ArmstageError, match=r"1152921504.6 GB needed"):
        require_space(tmp_path, 2**60, "for a test")


def test_full_disks_and_quotas_are_called_so(tmp_path):
    assert "disk was full" in full(OSError(errno.ENOSPC, "x"), tmp_path, "then").message
    assert "disk quota was full" in full(OSError(errno.EDQUOT, "x"), tmp_path, "then").message
    assert full(OSError(errno.EIO, "x"), tmp_path, "then") is None


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (4_600_000_000, "4.6 GB"),
        (36_864, "36.9 kB"),
        (5e12, "5000.0 GB"),
    ],
)
def test_sizes_as_people_write_them(size, text):
    assert human(size) == text
