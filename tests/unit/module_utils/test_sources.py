"""Lists of sources: mirrors in front, addresses to probe."""

import pytest
from ansible.module_utils.armstage import sources

UPSTREAM = {"kind": "upstream", "url": "https://github.com/a/b/c%2Bd.tar.gz", "sha256_url": "https://github.com/a/sums"}
PYPI = {"kind": "pypi", "url": "pypi:uv/0.10.0/uv-0.10.0.whl", "sha256": "00"}


def test_without_a_mirror_nothing_is_added():
    assert sources.mirrored([UPSTREAM, PYPI]) == [UPSTREAM, PYPI]


@pytest.mark.parametrize("mirror", ["https://mirror/x", "https://mirror/x/", "file:///srv/mirror/x", "/srv/x"])
def test_a_mirror_holds_files_under_the_upstreams_host_and_path(mirror):
    first, *rest = sources.mirrored([UPSTREAM, PYPI], mirror)
    base = mirror.rstrip("/")
    assert first == {
        "kind": "mirror",
        "url": f"{base}/github.com/a/b/c%2Bd.tar.gz",
        "sha256_url": f"{base}/github.com/a/sums",
    }
    assert rest == [UPSTREAM, PYPI]


def test_a_prefix_can_be_replaced_as_uv_does():
    first, *_rest = sources.mirrored([UPSTREAM], replacements={"https://github.com/a": "https://python.mirror/builds"})
    assert first["url"] == "https://python.mirror/builds/b/c%2Bd.tar.gz"


def test_an_unset_replacement_adds_nothing():
    assert sources.mirrored([UPSTREAM], replacements={"https://github.com/a": ""}) == [UPSTREAM]


def test_a_mirrors_copy_of_an_index_is_probed_too():
    found = sources.of_indexes({"indexes": {"cu130": {"url": "https://up/whl/cu130"}}}, "http://mirror")
    assert sources.addresses(found) == ["http://mirror/up/whl/cu130/torch/", "https://up/whl/cu130/torch/"]


def test_each_address_is_probed_once():
    index = {"kind": "upstream", "index_url": "https://index/cu130"}
    assert sources.addresses([UPSTREAM, PYPI, UPSTREAM, index]) == [
        UPSTREAM["url"],
        PYPI["url"],
        "https://index/cu130/torch/",
    ]


def test_what_can_not_be_reached_has_a_reason():
    probed = {
        "https://a": {"reachable": True, "reason": ""},
        "https://b": {"reachable": False, "reason": "HTTP 404"},
        "https://index/cu130/torch/": {"reachable": False, "reason": "no route"},
    }
    assert sources.unreachable(probed) == {"https://b": "HTTP 404", "https://index/cu130": "no route"}
