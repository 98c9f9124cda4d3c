"""Folders to download and to unpack into; no waiting, no trust beyond the system's."""

import pytest
from ansible.module_utils.armstage.staging import transport


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF", 0.0)


@pytest.fixture
def untrusting(monkeypatch):
    for variable in transport.CERTIFICATE_VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


@pytest.fixture
def archive(tmp_path):
    def write(content, name="a.tar.gz"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "out" / "partial"
    path.mkdir(parents=True)
    return path
