"""When a release was staged and how long that took: on record once, and never touched again."""

import json

from ansible.module_utils.armstage.staging.record import read_manifest

from ..looking import snapshot


def test_only_staging_is_timed(stage, source, program, root):
    given = source(program())
    result = stage(given)
    (entry,) = read_manifest(root)["releases"]
    assert 0 <= entry["seconds"] <= result["release"]["seconds"]
    assert entry["created"].endswith("Z")
    before = snapshot(root)
    assert not stage(given)["changed"]
    assert snapshot(root) == before
    assert stage(given, links={"uv": "."})["changed"]
    assert read_manifest(root)["releases"] == [entry], "a link that moves is no staging"


def test_a_root_from_before_seconds_were_kept_is_right_as_it_is(stage, source, program, root):
    given = source(program())
    stage(given)
    (record,) = (root / "store").glob("*/.armstage.json")
    for file in (record, root / "manifest.json"):
        content = json.loads(file.read_text())
        for entry in content.get("releases", [content]):
            del entry["seconds"]
        file.write_text(json.dumps(content))
    before = snapshot(root)
    assert not stage(given)["changed"]
    assert snapshot(root) == before
