"""The audit as SARIF 2.1.0: the shape that the standard asks for, for every rule and every kind of file name.

``SHAPE`` is the part of the standard that is used: a property that it does not name is a mistake of ours.
"""

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
from ansible.module_utils.armstage.audit import project, sarif
from ansible.module_utils.armstage.audit.facts import Facts, node_facts, read_compatibility
from ansible.module_utils.armstage.audit.ignore import RULE as IGNORE
from ansible.module_utils.armstage.audit.rules import CATALOGUE

ROOT = Path(__file__).resolve().parents[3]
RULES = (*CATALOGUE, IGNORE)
PROJECTS = sorted(path for path in (ROOT / "tests/fixtures/projects").iterdir() if path.is_dir())


def closed(required, **properties):
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


def several(items, **limits):
    return {"type": "array", "items": items, **limits}


TEXT = {"type": "string", "minLength": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
MESSAGE = closed(["text"], text=TEXT)
REGION = closed(["startLine"], startLine={"type": "integer", "minimum": 1}, snippet=closed(["text"], text=TEXT))
ARTIFACT = closed(["uri"], uri=TEXT, uriBaseId={"const": "PROJECT"})
LOCATION = closed(
    ["physicalLocation"], physicalLocation=closed(["artifactLocation"], artifactLocation=ARTIFACT, region=REGION)
)
RULE = closed(
    ["id"],
    id=TEXT,
    **dict.fromkeys(("shortDescription", "fullDescription", "help"), MESSAGE),
    defaultConfiguration=closed([], level=LEVEL),
)
RESULT = closed(
    ["message"],
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=MESSAGE,
    locations=several(LOCATION),
)
INVOCATION = closed(
    ["executionSuccessful"],
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications=several(closed(["message"], level=LEVEL, message=MESSAGE, locations=several(LOCATION))),
)
RUN = closed(
    ["tool"],
    tool=closed(["driver"], driver=closed(["name"], name=TEXT, rules=several(RULE, uniqueItems=True))),
    originalUriBaseIds={"type": "object", "additionalProperties": closed([], description=MESSAGE)},
    results=several(RESULT),
    invocations=several(INVOCATION),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
)
SHAPE = closed(
    ["version", "runs"],
    **{"$schema": {"type": "string", "pattern": r"/sarif-schema-2\.1\.0\.json$"}},
    version={"const": "2.1.0"},
    runs=several(RUN),
)
VALID = jsonschema.Draft202012Validator(SHAPE)


def checked(audit):
    """The document of an audit, as a reader gets it, once it is as the standard wants it."""
    document = json.loads(json.dumps(sarif.document(audit)))
    assert [f"{error.json_path}: {error.message}" for error in VALID.iter_errors(document)] == []
    (ran,) = document["runs"]
    rules = ran["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in ran["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    for place in places(ran):
        assert place["artifactLocation"]["uriBaseId"] in ran["originalUriBaseIds"]
        parts = urlsplit(place["artifactLocation"]["uri"])
        assert parts.geturl() == parts.path, "relative, and nothing of it is a query or a fragment"
        assert not parts.path.startswith("/")
        assert parts.path.isascii()
        assert not set(parts.path) & set(' "<>\\^`{|}[]')
    return ran


def places(ran):
    said = [*ran["results"], *ran["invocations"][0]["toolExecutionNotifications"]]
    return [location["physicalLocation"] for each in said for location in each["locations"]]


def files(ran):
    return [unquote(place["artifactLocation"]["uri"]) for place in places(ran)]


def facts(cuda="13.0"):
    return Facts(read_compatibility(), node_facts({}, cuda))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule(rule):
    ran = checked(project.audit_texts(rule.bad, facts(rule.cuda)))
    assert rule.id in {result["ruleId"] for result in ran["results"]}


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.name)
def test_every_project(path):
    audit = project.audit(str(path), facts())
    ran = checked(audit)
    assert files(ran) == [each.file for each in (*audit.findings, *audit.unread)]


NAMES = (
    "a b.sh",
    "100%.sh",
    "a%20b.sh",
    "x#y?z.sh",
    "c:d.sh",
    "[1]{2}.sh",
    "größe/火.sh",
    "a&b='1'.sh",
    "x\\y.sh",
    "^|`<>.sh",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["pip install torch --index-url https://download.pytorch.org/whl/cpu\n", "if true\n"])
def test_every_name_of_a_file_comes_back_as_it_was(tmp_path, name, text):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert set(files(checked(project.audit(str(tmp_path), facts())))) == {name}


def test_a_project_without_findings():
    ran = checked(project.audit_texts({}, facts()))
    assert ran["results"] == []


def test_a_file_that_was_not_read_at_all_has_a_line(tmp_path):
    (tmp_path / "requirements.txt").write_bytes(b"#" * (project.LARGEST + 1))
    (place,) = places(checked(project.audit(str(tmp_path), facts())))
    assert place["region"] == {"startLine": 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda ran: ran["results"][0].pop("message"),
        lambda ran: ran["results"][0].update(level="fatal"),
        lambda ran: ran["results"][0].update(line=1),
        lambda ran: places(ran)[0]["region"].update(startLine=0),
        lambda ran: ran["tool"]["driver"].pop("name"),
        lambda ran: ran.update(columnKind="bytes"),
    ],
)
def test_what_is_wrong_is_seen(change):
    document = sarif.document(project.audit_texts(RULES[0].bad, facts(RULES[0].cuda)))
    assert VALID.is_valid(document)
    change(document["runs"][0])
    assert not VALID.is_valid(document)
