"""sources_info through its main()."""

import pytest
import sources_info


def test_each_address_with_its_reason(run_module, server, tmp_path):
    there = server.put("/a", b"x")
    result = run_module(sources_info, urls=[there, f"{server.base}/b", str(tmp_path / "c")], timeout=2)
    assert result["sources"] == {
        there: {"reachable": True, "reason": "answers"},
        f"{server.base}/b": {"reachable": False, "reason": "HTTP 404 Not Found"},
        str(tmp_path / "c"): {"reachable": False, "reason": f"No such file or directory: `{tmp_path}/c`"},
    }
    assert not result["changed"]


def test_check_mode_is_the_same(run_module, server):
    there = server.put("/a", b"x")
    assert run_module(sources_info, check=True, urls=[there])["sources"][there]["reachable"]


def test_the_index_that_is_given_is_asked(run_module, server):
    url = "pypi:uv/0.10.0/uv-0.10.0-py3-none-any.whl"
    result = run_module(sources_info, urls=[url], index_url=f"{server.base}/simple")
    assert server.asked() == ["/simple/uv/"]
    assert result["sources"][url] == {"reachable": False, "reason": "HTTP 404 Not Found"}


@pytest.mark.parametrize("timeout", [0, -1, "nan", "inf"])
def test_a_time_limit_that_is_none_is_refused(run_module, server, timeout):
    result = run_module(sources_info, urls=[server.put("/a", b"x")], timeout=timeout)
    assert "Expected `timeout` to be above 0" in result["msg"]
    assert server.requests == []


def test_a_time_limit_beyond_every_clock_is_one(run_module, server):
    there = server.put("/a", b"x")
    assert run_module(sources_info, urls=[there], timeout=1e300)["sources"][there]["reachable"]


def test_no_address_at_all_answers_nothing(run_module):
    found = run_module(sources_info, urls=["", " "])["sources"]
    assert [each["reachable"] for each in found.values()] == [False, False]


def test_an_address_without_a_host_does_not_speak_for_the_others(run_module, tmp_path):
    urls = ["http://", str(tmp_path), "https:///x", "http://[::1", str(tmp_path / "gone")]
    found = run_module(sources_info, urls=urls, timeout=2)["sources"]
    assert [found[url]["reachable"] for url in urls] == [False, True, False, False, False]
    assert "No such file" in found[urls[-1]]["reason"]
