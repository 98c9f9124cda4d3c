import pytest

from .planted import Root


@pytest.fixture
def root(tmp_path):
    """A root as armstage stages it, without an FFmpeg."""
    return Root(tmp_path)
