"""Options that cannot be meant, and values as others write them."""

import pytest

from .looking import sha

BAD_OPTIONS = {
    "name": ({"name": "../uv"}, "`name`, but received: `../uv`"),
    "version": ({"version": "1.0/2"}, "`version`, but received: `1.0/2`"),
    "link outside": ({"link": "../uv"}, "stays inside, but received: `../uv`"),
    "absolute link": ({"link": "/usr/bin/uv"}, "stays inside, but received: `/usr/bin/uv`"),
    "link into the store": ({"link": "store/uv"}, "in a folder of it, but received: `store/uv`"),
    "link is the root": ({"link": "."}, "in a folder of it, but received: `.`"),
    "link too deep": ({"link": "a/b/uv"}, "in a folder of it, but received: `a/b/uv`"),
    "hidden link": ({"link": "bin/.uv"}, "in a folder of it, but received: `bin/.uv`"),
    "target outside": ({"link_target": "../../x"}, "stays inside, but received: `../../x`"),
    "keep": ({"keep": -1}, "`keep` to be at least 0"),
    "timeout": ({"timeout": 0}, "`timeout` to be at least 1"),
    "a machine of no file": ({"elf_machine": "arch64"}, "a machine in `elf_machine`, but received: `arch64`"),
    "no root": ({"dest": ""}, "a folder in `dest`, but received: ``"),
    "a blank root": ({"dest": " "}, "a folder in `dest`, but received: ` `"),
    "a root of nobody": ({"dest": "~nobody-of-this-name/x"}, "received: `~nobody-of-this-name/x`"),
    "a root of nothing": ({"dest": "$NOT_SET_ANYWHERE/x"}, "received: `$NOT_SET_ANYWHERE/x`"),
    "a target of a link that is a number": ({"links": {"bin/x": 5}}, "Expected a path, but received: `5`"),
    "a link without a target": ({"links": {"bin/x": None}}, "Expected a path, but received: `None`"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_options_that_cannot_be_meant(stage, source, program, case, server):
    options, message = BAD_OPTIONS[case]
    result = stage(source(program()), **options)
    assert message in result["msg"]
    assert server.requests == []


@pytest.mark.parametrize("change", [{"sha256": "abc"}, {"sha256": "g" * 64}, {"select": "../x"}, {"into": "/x"}])
def test_source_options_that_cannot_be_meant(stage, source, program, change):
    assert next(iter(change.values())) in stage({**source(program()), **change})["msg"]


@pytest.mark.parametrize("form", ["sha256:{}", " {}\n", "SHA256:{}"])
def test_a_digest_as_others_write_it(stage, source, program, form):
    given = source(program())
    assert stage({**given, "sha256": form.format(given["sha256"].upper())})["release"]["digest"] == given["sha256"]


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "file://localhost{}", " {} ", "~/{name}"])
def test_an_archive_of_this_host_as_others_write_it(stage, program, tmp_path, monkeypatch, form):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "uv.tar.gz").write_bytes(program())
    url = form.format(tmp_path / "uv.tar.gz", name="uv.tar.gz")
    given = {"url": url, "sha256": sha(program()), "strip_components": 1}
    assert stage(given)["changed"]
    assert not stage(given)["changed"]


@pytest.mark.parametrize("name", ["arm64", "AArch64"])
def test_a_machine_by_its_other_names(stage, source, program, name):
    assert stage(source(program()), elf_machine=name)["release"]["elf"] == {"aarch64": 2}
