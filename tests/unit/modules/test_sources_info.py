"""sources_info through its main()."""

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
