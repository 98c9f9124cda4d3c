"""staged_release through its main(): what is published, predicted, refused, repaired, kept and left alone."""

import hashlib
import json
import os
import shutil

import pytest
import staged_release
from ansible.module_utils.armstage.staging import fetch as fetching
from ansible.module_utils.armstage.staging.progress import Reporter
from ansible.module_utils.armstage.staging.publish import Store, manifest, read_manifest

UNCHANGED = {"actions": [], "changed": False, "skipped_sources": []}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(fetching, "BACKOFF", 0.0)


def sha(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def program(tar, elf):
    """An archive of a release: ``program("1.0")``."""

    def make(version="1.0", machine="aarch64"):
        return tar(
            {
                "uv-dist/uv": elf(machine, version.encode()),
                "uv-dist/lib/libx.so.1": elf(machine),
                "uv-dist/README": b"x",
            }
        )

    return make


@pytest.fixture
def source(server):
    """Serve an archive; the source that names it."""

    def make(content, path="/uv.tar.gz", **options):
        return {"url": server.put(path, content), "sha256": sha(content), "strip_components": 1, **options}

    return make


@pytest.fixture
def root(tmp_path):
    return tmp_path / "work" / "root"


@pytest.fixture
def stage(run_module, root):
    def call(*sources, check=False, **options):
        given = {
            "name": "uv",
            "version": "1.0",
            "dest": str(root),
            "link": "bin/uv-aarch64",
            "link_target": "uv",
            **options,
        }
        return run_module(staged_release, check=check, diff=True, sources=list(sources), **given)

    return call


def snapshot(folder):
    """Every path with its kind, time and content: equal when nothing was touched."""
    paths = [folder, *folder.rglob("*")] if folder.exists() else []
    return {
        str(path): (
            path.lstat().st_mtime_ns,
            os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes(),
        )
        for path in paths
    }


def store(root):
    return sorted(entry.name for entry in (root / "store").iterdir()) if (root / "store").exists() else []


def same(predicted, done):
    return all(predicted[key] == done[key] for key in ("changed", "actions", "diff", "skipped_sources", "available"))


# Staging, and its prediction.


def test_a_release_is_staged(stage, source, program, root):
    content = program()
    given = source(content, kind="mirror")
    result = stage(given, run_id="run-9", links={"uv-aarch64": "."})
    folder = f"uv-1.0-{sha(content)[:12]}"
    assert result["changed"]
    assert result["available"]
    release = result["release"]
    assert release.pop("seconds") >= 0
    assert release == {
        "name": "uv",
        "version": "1.0",
        "path": f"{root}/store/{folder}",
        "digest": sha(content),
        "source": {"kind": "mirror", "url": given["url"], "sha256": sha(content)},
        "size": 132,
        "files": 3,
        "elf": {"aarch64": 2},
        "link": f"{root}/bin/uv-aarch64",
    }
    assert result["diff"]["before"] == ""
    assert result["diff"]["after"] == (
        f"bin/uv-aarch64 -> ../store/{folder}/uv\nstore/{folder}\nuv-aarch64 -> store/{folder}\n"
    )
    assert result["actions"] == [
        f"publish store/{folder} from mirror `{given['url']}`",
        f"point bin/uv-aarch64 to ../store/{folder}/uv",
        f"point uv-aarch64 to store/{folder}",
    ]
    assert store(root) == [folder]
    assert os.readlink(root / "bin/uv-aarch64") == f"../store/{folder}/uv"
    assert (root / "bin/uv-aarch64").read_bytes().startswith(b"\x7fELF")
    assert sorted(path.name for path in (root / "cache").iterdir()) == [sha(content)]
    assert read_manifest(root) == manifest(root)
    assert read_manifest(root)["releases"][0]["run"] == "run-9"
    assert (
        json.loads((root / "store" / folder / ".armstage.json").read_text())["extra"]["recipe"]["strip_components"] == 1
    )


def test_check_mode_on_an_empty_host_predicts_it_and_writes_nothing(stage, source, program, root, server):
    gone = {"url": f"{server.base}/gone", "sha256": "0" * 64}
    sources = [gone, source(program())]
    predicted = stage(*sources, check=True)
    assert not root.parent.exists()
    assert server.asked("GET") == []
    assert same(predicted, stage(*sources))
    assert predicted["changed"]
    assert [skipped["reason"] for skipped in predicted["skipped_sources"]] == ["HTTP 404 Not Found"]


def test_the_second_run_touches_nothing_and_asks_nobody(stage, source, program, root, server):
    given = source(program())
    stage(given)
    before = snapshot(root)
    server.requests.clear()
    for check in (True, False):
        result = stage(given, check=check)
        assert {key: result[key] for key in UNCHANGED} == UNCHANGED
        assert result["diff"]["before"] == result["diff"]["after"]
        assert result["release"]["elf"] == {"aarch64": 2}
    assert snapshot(root) == before
    assert server.requests == []


def test_a_release_from_any_of_the_sources_will_do(stage, source, program, root):
    first, second = source(program("a"), "/a.tar.gz"), source(program("b"), "/b.tar.gz", kind="pypi")
    stage(second)
    before = snapshot(root)
    result = stage(first, second)
    assert not result["changed"]
    assert result["release"]["source"]["kind"] == "pypi"
    assert snapshot(root) == before


def test_where_both_are_there_the_linked_one_is_used(stage, source, program):
    first, second = source(program("a"), "/a.tar.gz"), source(program("b"), "/b.tar.gz")
    stage(second, keep=9)
    stage(first, keep=9)
    assert not stage(first, second, keep=9)["changed"]
    assert stage(second, first, keep=9)["release"]["digest"] == first["sha256"]


def test_a_relative_root_that_moves(stage, source, program, root, tmp_path):
    given = source(program())
    stage(given)
    root.rename(tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere/bin/uv-aarch64").exists()
    result = stage(given, dest=str(tmp_path / "elsewhere"))
    assert not result["changed"]


def test_a_root_below_a_link_and_a_bin_that_is_one(stage, source, program, root, tmp_path):
    (tmp_path / "disk" / "tools").mkdir(parents=True)
    root.parent.mkdir()
    root.symlink_to(tmp_path / "disk")
    (root / "bin").symlink_to("tools")
    given = source(program())
    stage(given)
    assert (root / "bin/uv-aarch64").exists()
    assert not stage(given)["changed"]


def test_check_mode_predicts_a_digest_from_a_checksum_file(stage, source, program, server):
    content = program()
    sums = server.put("/sums", f"{sha(content)}  uv.tar.gz\n".encode())
    given = {"url": source(content)["url"], "sha256_url": sums, "strip_components": 1}
    predicted = stage(given, check=True)
    assert predicted["release"]["digest"] == sha(content)
    assert same(predicted, stage(given))
    server.requests.clear()
    assert not stage(given)["changed"]
    assert server.requests == []


# Sources.


def test_the_first_source_that_answers(stage, source, program, server):
    busy = {"url": server.put("/busy", b"", status=503), "sha256": "1" * 64}
    down = {"url": "http://no-such-host.invalid/x", "sha256": "2" * 64, "kind": "mirror"}
    last = source(program("z"), "/z.tar.gz")
    result = stage(busy, down, source(program()), last)
    assert [skipped["kind"] for skipped in result["skipped_sources"]] == ["upstream", "mirror"]
    assert result["skipped_sources"][0] == {
        "url": busy["url"],
        "kind": "upstream",
        "reason": "HTTP 503 Service Unavailable",
    }
    assert "does not resolve" in result["skipped_sources"][1]["reason"]
    assert result["actions"][0] == f"skip upstream `{busy['url']}`: HTTP 503 Service Unavailable"
    assert "/z.tar.gz" not in server.asked()


def test_a_source_known_to_be_unreachable_is_not_asked(stage, source, program, server):
    known = source(program("a"), "/a.tar.gz")
    result = stage(known, source(program("b"), "/b.tar.gz"), unreachable={known["url"]: "no route to host"})
    assert result["skipped_sources"] == [{"url": known["url"], "kind": "upstream", "reason": "no route to host"}]
    assert not any(path == "/a.tar.gz" for _verb, path, _headers in server.requests)


def test_what_is_in_the_cache_needs_no_source(stage, source, program, root, server):
    given = source(program())
    stage(given)
    shutil.rmtree(root / "store")
    server.requests.clear()
    unreachable = {given["url"]: "offline"}
    predicted = stage(given, unreachable=unreachable, check=True)
    assert same(predicted, stage(given, unreachable=unreachable))
    assert server.requests == []
    assert store(root)


@pytest.mark.parametrize("check", [True, False])
def test_no_source_at_all(stage, server, root, check):
    sources = [{"url": f"{server.base}/{name}", "sha256": "0" * 64, "kind": name} for name in ("mirror", "pypi")]
    result = stage(*sources, check=check)
    assert result["failed"]
    assert result["msg"] == (
        f"No source of uv 1.0 can be used: mirror `{server.base}/mirror`: HTTP 404 Not Found; "
        f"pypi `{server.base}/pypi`: HTTP 404 Not Found"
    )
    assert "mirror" in result["hint"]
    assert not root.exists()


@pytest.mark.parametrize("check", [True, False])
def test_no_source_where_none_is_required(stage, server, root, check):
    result = stage({"url": f"{server.base}/x", "sha256": "0" * 64}, required=False, check=check)
    assert (result["changed"], result["available"], result["release"]["path"]) == (False, False, "")
    assert len(result["skipped_sources"]) == 1
    assert not root.exists()


def test_one_that_is_staged_is_available_whatever_the_sources_say(stage, source, program):
    given = source(program())
    stage(given, replace=[{"path": "README", "old": "x", "new": "y"}])
    result = stage(given, required=False, unreachable={given["url"]: "offline"}, check=True)
    assert result["available"]


# Refused: named, nothing published, nothing left.


@pytest.fixture
def refuse(stage, root):
    def call(given, *words, **options):
        before = store(root)
        result = stage(given, **options)
        assert result["failed"]
        for word in (given["url"], *words):
            assert word in result["msg"]
        assert result["hint"]
        assert store(root) == before
        assert not (root / "bin").exists()
        cache = root / "cache"
        assert not cache.exists() or [name for name in os.listdir(cache) if name.endswith(".part")] == []
        return result

    return call


def test_an_html_page_is_refused(refuse, source, program, server):
    given = source(program())
    server.put("/uv.tar.gz", b"<html><title>Sign in</title>", content_type="text/html")
    refuse(given, given["sha256"], "an HTML page titled `Sign in`")


def test_another_hash_is_refused(refuse, source, program, server):
    given = source(program())
    server.put("/uv.tar.gz", program("2.0"))
    refuse(given, given["sha256"], sha(program("2.0")))


def test_a_cut_archive_is_refused(refuse, source, program):
    refuse({**source(program()[:-40])}, "is damaged")


def test_a_member_that_leads_outside_is_refused(refuse, source, tar, root):
    refuse(source(tar({"d/ok": b"", "../../evil": b"x"})), "`../../evil`")
    assert not list(root.parent.parent.rglob("evil"))


def test_a_file_for_another_machine_is_refused(refuse, source, program):
    refuse(source(program(machine="x86_64")), "Expected aarch64", "`uv` is for x86_64")


def test_any_machine_where_none_is_asked_for(stage, source, program):
    assert stage(source(program(machine="x86_64")), elf_machine="")["release"]["elf"] == {"x86_64": 2}


def test_a_link_target_that_the_archive_does_not_hold(refuse, source, program):
    given = source(program())
    refuse(given, "Expected `bin/uv`", "found `README`, `lib`, `uv`", link_target="bin/uv")


def test_a_download_always_cut_is_no_source(stage, source, program, server, root):
    given = source(program())
    server.put("/uv.tar.gz", program(), cut=20, ranges=False)
    result = stage(given)
    assert "ended after 20 of" in result["msg"]
    assert store(root) == []


def test_what_stands_in_a_link_s_place_is_found_before_any_request(stage, source, program, root, server):
    (root / "bin").mkdir(parents=True)
    (root / "bin/uv-aarch64").write_text("somebody's")
    for check in (True, False):
        result = stage(source(program()), check=check)
        assert f"Expected a symbolic link or nothing at `{root}/bin/uv-aarch64`" in result["msg"]
        assert result["hint"].startswith("Move it away")
    assert server.requests == []
    assert store(root) == []


def test_a_pin_that_changed_for_the_same_version(stage, source, program, root):
    given = source(program())
    stage(given)
    before = snapshot(root)
    for check in (True, False):
        result = stage({**given, "sha256": "1" * 64}, check=check)
        assert f"Expected sha256 `{given['sha256']}` for uv 1.0" in result["msg"]
        assert "1" * 64 in result["msg"]
        assert "state=absent" in result["hint"]
    assert snapshot(root) == before


def test_a_checksum_file_that_changed_for_the_same_version(stage, source, program, server, root):
    first, second = program("a"), program("b")
    sums = server.put("/sums", f"{sha(first)}  uv.tar.gz\n".encode())
    given = {"url": source(first)["url"], "sha256_url": sums, "strip_components": 1}
    stage(given)
    (root / "store" / f"uv-1.0-{sha(first)[:12]}" / "README").unlink()
    server.put("/sums", f"{sha(second)}  uv.tar.gz\n".encode())
    source(second)
    for check in (True, False):
        result = stage(given, check=check)
        assert f"Expected sha256 `{sha(first)}` for uv 1.0" in result["msg"]
        assert sha(second) in result["msg"]
    assert store(root) == [f"uv-1.0-{sha(first)[:12]}"]


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


# Repaired.


@pytest.fixture
def staged(stage, source, program, root):
    given = source(program())
    stage(given)
    return given, root / "store" / f"uv-1.0-{given['sha256'][:12]}"


def test_a_release_with_a_file_missing_is_staged_again(stage, staged, root):
    given, folder = staged
    (folder / "lib/libx.so.1").unlink()
    predicted = stage(given, check=True)
    assert not (folder / "lib/libx.so.1").exists()
    assert predicted["diff"]["before"] == f"bin/uv-aarch64 -> ../store/{folder.name}/uv\nstore/{folder.name} (unfit)\n"
    assert predicted["diff"]["after"] == f"bin/uv-aarch64 -> ../store/{folder.name}/uv\nstore/{folder.name}\n"
    assert "held 3 files" in predicted["actions"][0]
    assert same(predicted, stage(given))
    assert (folder / "lib/libx.so.1").exists()
    assert store(root) == [folder.name]
    assert not stage(given)["changed"]


def test_a_folder_without_a_record_is_replaced(stage, staged, root):
    given, folder = staged
    shutil.rmtree(folder)
    (folder / "lib").mkdir(parents=True)
    assert stage(given)["changed"]
    assert (folder / "uv").exists()
    assert store(root) == [folder.name]


@pytest.mark.parametrize("kind", ["file", "link", "link to a folder", "dangling link"])
def test_what_is_no_folder_in_a_release_s_place_is_replaced(stage, staged, root, kind, tmp_path):
    given, release = staged
    shutil.rmtree(release)
    (tmp_path / "elsewhere").mkdir()
    targets = {"link": "/etc/passwd", "link to a folder": tmp_path / "elsewhere", "dangling link": "/no/such"}
    release.write_text("x") if kind == "file" else release.symlink_to(targets[kind])
    assert stage(given)["changed"]
    assert (root / "bin/uv-aarch64").read_bytes().startswith(b"\x7fELF")
    assert not stage(given)["changed"]
    assert store(root) == [release.name]
    assert (tmp_path / "elsewhere").is_dir()


@pytest.mark.parametrize("change", [{"source": None}, {"extra": []}, {"elf": "x"}, {"size": "1"}, {"version": 1}])
def test_a_record_edited_into_something_else_is_none(stage, staged, change):
    given, release = staged
    record = release / ".armstage.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}))
    assert "publish" in stage(given)["actions"][0]
    assert not stage(given)["changed"]


def test_a_damaged_release_is_replaced_from_another_source(stage, staged, source, program, root):
    given, folder = staged
    (folder / "uv").unlink()
    (root / "cache" / given["sha256"]).unlink()
    other = source(program("b"), "/b.tar.gz", kind="pypi")
    unreachable = {given["url"]: "offline"}
    predicted = stage(given, other, unreachable=unreachable, check=True)
    done = stage(given, other, unreachable=unreachable)
    assert same(predicted, done)
    assert store(root) == [f"uv-1.0-{other['sha256'][:12]}"]
    assert not stage(given, other)["changed"]


@pytest.mark.parametrize("change", ["link turned", "link gone", "link to nowhere"])
def test_links_are_put_right_without_any_source(stage, staged, root, server, change):
    given, folder = staged
    link = root / "bin/uv-aarch64"
    link.unlink()
    if change != "link gone":
        link.symlink_to("/bin/sh" if change == "link turned" else "nowhere")
    server.requests.clear()
    predicted = stage(given, check=True)
    assert predicted["actions"] == [f"point bin/uv-aarch64 to ../store/{folder.name}/uv"]
    assert same(predicted, stage(given))
    assert link.exists()
    assert server.requests == []
    assert read_manifest(root) == manifest(root)


@pytest.mark.parametrize(
    "content", [None, "{", '{"schema": 1, "releases": [], "links": {}}', '{"releases": null}', '{"links": []}']
)
def test_the_manifest_is_brought_up_to_date(stage, staged, root, content):
    given, _folder = staged
    (root / "manifest.json").unlink()
    if content is not None:
        (root / "manifest.json").write_text(content)
    predicted = stage(given, check=True)
    assert predicted["actions"] == ["bring manifest.json up to date"]
    assert same(predicted, stage(given))
    assert read_manifest(root) == manifest(root)
    assert not stage(given)["changed"]


@pytest.mark.parametrize("leftover", [".partial-uv-login1-77-ab12cd34", ".removed-uv-0.9-00aa"])
def test_what_an_interrupted_run_left_is_removed(stage, staged, root, leftover):
    given, _folder = staged
    (root / "store" / leftover / "half").mkdir(parents=True)
    predicted = stage(given, check=True)
    assert predicted["actions"] == [f"remove store/{leftover}, left by a run that was interrupted"]
    assert f"store/{leftover}\n" in predicted["diff"]["before"]
    assert f"store/{leftover}\n" not in predicted["diff"]["after"]
    assert same(predicted, stage(given))
    assert not (root / "store" / leftover).exists()
    assert not stage(given)["changed"]


def test_what_another_run_is_making_is_left_alone(stage, staged, root):
    given, _folder = staged
    with Store(root).lock():
        (root / "store" / ".partial-env-vm-1-ab12cd34").mkdir()
        assert not stage(given)["changed"]
    assert (root / "store" / ".partial-env-vm-1-ab12cd34").exists()


def test_other_options_make_another_release_of_the_same_archive(stage, staged, root):
    given, folder = staged
    changed = {**given, "into": "opt"}
    predicted = stage(changed, link_target="opt/uv", check=True)
    assert "was made with other options" in predicted["actions"][0]
    assert same(predicted, stage(changed, link_target="opt/uv"))
    assert (folder / "opt/uv").exists()
    assert store(root) == [folder.name]
    assert not stage(changed, link_target="opt/uv")["changed"]


# Versions.


def test_upgrades_move_the_link_and_keep_what_was_asked_for(stage, source, program, root):
    sources = {version: source(program(version), f"/{version}.tar.gz") for version in ("1.0", "2.0", "3.0")}
    for version, given in sources.items():
        predicted = stage(given, version=version, check=True)
        done = stage(given, version=version)
        assert same(predicted, done)
        assert done["release"]["version"] == version
        assert sources[version]["sha256"][:12] in os.readlink(root / "bin/uv-aarch64")
    assert done["actions"][-1] == f"remove store/uv-1.0-{sources['1.0']['sha256'][:12]}"
    assert [name.split("-")[1] for name in store(root)] == ["2.0", "3.0"]
    back = stage(sources["2.0"], version="2.0")
    assert back["actions"] == [f"point bin/uv-aarch64 to ../store/uv-2.0-{sources['2.0']['sha256'][:12]}/uv"]
    assert not stage(sources["2.0"], version="2.0")["changed"]


def test_a_version_with_its_own_link_is_never_pruned(stage, source, program, root):
    for version in ("3.11", "3.12", "3.13"):
        given = source(program(version), f"/{version}.tar.gz")
        stage(given, name="cpython", version=version, link=f"python/cpython-{version}", link_target=".", keep=0)
    assert len(store(root)) == 3


def test_components_do_not_touch_each_other(stage, source, program, root):
    for name in ("uv", "uv-extras"):
        for version in ("1.0", "2.0"):
            given = source(program(name + version), f"/{name}{version}.tar.gz")
            stage(given, name=name, version=version, link=f"bin/{name}", keep=0)
    assert [name.rsplit("-", 1)[0] for name in store(root)] == ["uv-2.0", "uv-extras-2.0"]


# Removed.


def test_a_version_is_removed_with_its_links(stage, staged, root):
    _given, folder = staged
    predicted = stage(state="absent", check=True)
    assert predicted["actions"] == ["remove the link bin/uv-aarch64", f"remove store/{folder.name}"]
    assert predicted["diff"]["after"] == ""
    assert folder.exists()
    assert same(predicted, stage(state="absent"))
    assert store(root) == []
    assert not (root / "bin/uv-aarch64").is_symlink()
    assert read_manifest(root)["releases"] == []
    assert not stage(state="absent")["changed"]


def test_removing_what_was_never_there(stage, root):
    assert not stage(state="absent")["changed"]
    assert not root.exists()


@pytest.mark.usefixtures("staged")
def test_another_version_keeps_its_link(stage, source, program, root):
    stage(source(program("2.0"), "/2.tar.gz"), version="2.0")
    assert stage(state="absent")["changed"]
    assert (root / "bin/uv-aarch64").exists()


@pytest.mark.parametrize("where", ["bin/other", "envs/cu130"])
def test_a_version_that_another_link_names_is_not_removed(stage, staged, root, where):
    _given, folder = staged
    (root / where).parent.mkdir(exist_ok=True)
    (root / where).symlink_to(f"../store/{folder.name}")
    result = stage(state="absent")
    assert f"the link `{root}/{where}` names it" in result["msg"]
    assert folder.exists()


def test_a_version_that_is_open_is_not_removed(stage, staged):
    _given, folder = staged
    with (folder / "README").open():
        result = stage(state="absent")
    assert "has files of it open" in result["msg"]
    assert folder.exists()
    assert stage(state="absent")["changed"]


# What is done to the content.


def test_texts_are_edited_before_publishing(stage, source, tar, root):
    given = source(tar({"d/lib/a.pc": b"prefix=/install"}))
    edits = [{"path": "lib/*.pc", "old": "/install", "new": "{link}"}]
    assert stage(given, link="python/x", link_target=".", replace=edits)["changed"]
    assert (root / "python/x/lib/a.pc").read_text() == f"prefix={root}/python/x"
    assert not stage(given, link="python/x", link_target=".", replace=edits)["changed"]


def test_libraries_get_their_plain_names(stage, source, wheel, elf, root):
    content = wheel({"av.libs/libavutil-2a27f4d8.so.59.39.100": elf()})
    given = source(content, "/av.whl", select="av.libs", into="lib", plain_sonames=True, strip_components=0)
    assert stage(given, link="ffmpeg", link_target=".")["release"]["files"] == 2
    assert os.readlink(root / "ffmpeg/lib/libavutil.so.59") == "libavutil-2a27f4d8.so.59.39.100"


# Progress.


def test_progress_is_told_and_taken_away(stage, source, program, tmp_path, monkeypatch):
    lines = []
    write = Reporter._write
    monkeypatch.setattr(
        Reporter, "_write", lambda self, text: (write(self, text), lines.append((tmp_path / "p").read_text()))
    )
    stage(source(program(), kind="pypi"), progress=str(tmp_path / "p"))
    assert lines == ["0 - uv, from pypi\n", "0 - uv, unpacking\n"]
    assert not (tmp_path / "p").exists()
    assert not list(tmp_path.glob("p.*"))


def test_progress_that_cannot_be_written_stops_nothing(stage, source, program):
    assert stage(source(program()), progress="/proc/no/such/place")["changed"]
