"""report.json by its schema, what is to be done first, the lines on a terminal, and the page's markup."""

import html.parser
import io
import json
import re
from pathlib import Path

import jsonschema
import pytest
from ansible.module_utils.armstage.preflight.report import build, plot, terminal
from ansible.module_utils.armstage.preflight.report import html as page_of
from ansible.module_utils.armstage.preflight.report import node as node_of
from ansible.module_utils.armstage.preflight.report.markup import Markup, element, escape, prose

from . import reports

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "docs/report.schema.json").read_text())
VALID = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


RELEASE = {
    "name": "env-cu130",
    "version": "2.11.0",
    "source": {"kind": "pypi"},
    "digest": "ab" * 32,
    "size": 4791221245,
    "files": 9,
    "created": "2026-10-01T00:00:00Z",
    "elf": {"aarch64": 3},
}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    return reports.three(tmp_path_factory.mktemp("three"))


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return reports.two_hundred(tmp_path_factory.mktemp("many"))


class TestJson:
    def test_every_report_is_valid(self, three, many):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        for results in (three, many, {"one": three["spark-1"]}, {"none": three["spark-3"]}):
            report = json.loads(json.dumps(build.report(results)))
            assert [error.message for error in VALID.iter_errors(report)] == []

    def test_the_schema_refuses_what_is_none(self, three):
        report = build.report(three)
        for change in ({"schema": 2}, {"verdict": "fine"}, {"extra": 1}, {"generated": "today"}):
            assert list(VALID.iter_errors({**report, **change})), change

    def test_the_hosts_in_most_need_come_first(self, three):
        report = build.report({"b": three["spark-2"], "c": three["spark-3"], "a": three["spark-1"]})
        assert [host["name"] for host in report["hosts"]] == ["a", "c", "b"]
        assert report["counts"] == {"blocked": 1, "unknown": 1, "ready-with-warnings": 0, "ready": 1}
        assert report["verdict"] == "blocked"

    def test_a_host_without_an_answer_is_never_ready(self, three):
        report = build.report({"good": three["spark-2"], "lost": three["spark-3"]})
        assert report["verdict"] == "unknown"
        assert report["actions"][0]["name"] == "no answer"

    def test_a_host_that_was_not_to_be_asked_is_no_failure(self, three):
        busy = {"msg": "busy", "hint": "Ask again", "asked": False}
        report = build.report({"good": three["spark-2"], "lost": {"msg": "gone", "hint": "Look"}, "busy": busy})
        assert [error.message for error in VALID.iter_errors(report)] == []
        assert [(each["status"], each["name"], each["hint"], each["hosts"]) for each in report["actions"]] == [
            ("FAIL", "no answer", "Look", ["lost"]),
            ("WARN", "not asked", "Ask again", ["busy"]),
        ]
        assert "not asked" in page_of.page(report)

    def test_what_was_staged_has_its_size_and_its_time(self, three):
        result = json.loads(json.dumps(three["spark-2"]))
        new = {**RELEASE, "created": "2026-11-30T12:00:00Z", "seconds": 191.4}
        result["host"]["staged"] = {"root": "/r", "index": "cu130", "releases": [new, {**RELEASE, "seconds": None}]}
        report = build.report({"one": result})
        assert [error.message for error in VALID.iter_errors(report)] == []
        assert [each["seconds"] for each in report["hosts"][0]["host"]["staged"]["releases"]] == [191.4, None]
        page = page_of.page(report)
        assert page.count("3 min 11 s") == 1
        assert "2026-11-30 12:00" in page
        new["seconds"] = -1
        assert [error.message for error in VALID.iter_errors(report)] == ["-1 is less than the minimum of 0"]

    def test_what_an_older_program_says_is_shown(self, three):
        result = json.loads(json.dumps(three["spark-2"]))
        result["host"]["staged"] = {"root": "/r", "index": "cu130", "releases": [RELEASE]}
        report = build.report({"one": result})
        assert [error.message for error in VALID.iter_errors(report)] == []
        assert "4.79 GB" in page_of.page(report)

    def test_names_are_ordered_as_people_do(self, three):
        report = build.report({f"node{number}": three["spark-2"] for number in (10, 9, 1)})
        assert [host["name"] for host in report["hosts"]] == ["node1", "node9", "node10"]

    def test_the_same_thing_to_do_on_many_hosts_is_one(self, many):
        first, second, third = build.report(many)["actions"]
        assert (first["id"], first["status"], len(first["hosts"])) == ("G1", "FAIL", 5)
        assert (second["name"], second["hosts"]) == ("no answer", ["rack4-node77"])
        assert (third["id"], third["status"], len(third["hosts"])) == ("A2", "WARN", 20)

    def test_nothing_to_do(self, three):
        report = build.report({"good": three["spark-2"]})
        assert (report["actions"], report["verdict"]) == ([], "ready")


class TestTerminal:
    def texts(self, results):
        return [line.text for line in terminal.lines(results)]

    def test_one_host(self, three):
        texts = self.texts({"spark-1": three["spark-1"]})
        assert all(re.match(r"[AG]\d+ (PASS|FAIL|WARN|SKIP|INFO): .", text) for text in texts[:15])
        assert texts[15:17] == ["", "verdict: blocked"]
        assert texts[17].startswith("1. G4 thermal and power: Shut down and take the AC power off")

    def test_three_hosts(self, three):
        texts = self.texts(three)
        assert texts[1] == "spark-1: blocked"
        assert "spark-3: no answer" in texts
        assert "ssh: connect to host spark-3 port 22: Connection timed out" in texts
        assert "verdict: blocked (3 hosts: 1 blocked, 1 no answer, 1 ready)" in texts
        assert texts[-3].startswith("1. G4 thermal and power on spark-1: ")

    def test_of_many_hosts_only_those_that_ask_for_something(self, many):
        texts = self.texts(many)
        assert sum("PASS" in text for text in texts) == 0
        assert len(texts) < 120
        assert "2. no answer on rack4-node77: Reach the node, and run again" in texts
        assert texts[-1].startswith("3. A2 environment leakage on ")
        assert "and 17 more" in texts[-1]

    def test_no_more_than_three_things_to_do(self, three):
        result = {
            **three["spark-1"],
            "checks": [{**check, "status": "WARN", "hint": check["id"]} for check in three["spark-1"]["checks"]],
        }
        texts = [line.text for line in terminal.closing({"x": result})]
        assert [text[:2] for text in texts if re.match(r"\d\.", text)] == ["1.", "2.", "3."]
        assert texts[-1] == "and 12 more"

    @pytest.mark.parametrize(
        ("tty", "environ", "painted"),
        [
            (True, {}, True),
            (False, {}, False),
            (True, {"NO_COLOR": "1"}, False),
            (True, {"NO_COLOR": ""}, True),
            (True, {"TERM": "dumb"}, False),
        ],
    )
    def test_colour_only_on_a_terminal_that_wants_it(self, tty, environ, painted):
        stream = io.StringIO()
        stream.isatty = lambda: tty
        style = terminal.style(stream, environ)
        assert style("x", "FAIL") == ("\033[31mx\033[0m" if painted else "x")
        assert style("x", "") == "x"


class Reader(html.parser.HTMLParser):
    """Elements in order, and whether they close as they opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.seen if name == tag]


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;`<b>`"


class TestPage:
    def test_it_is_well_formed_and_loads_nothing(self, three):
        text = page_of.page(build.report(three))
        read = Reader(text)
        assert len(read.all("script")) == len(read.all("style")) == 1
        assert not any(
            name in attributes for _tag, attributes in read.seen for name in ("src", "srcset", "action", "onclick")
        )
        assert {attributes["href"] for _tag, attributes in read.seen if "href" in attributes} == {"#nodes", "data:,"}
        assert "url(" not in page_of.asset("page.css")
        assert "@import" not in page_of.asset("page.css")

    def test_the_policy_names_the_one_script(self, three):
        import base64
        import hashlib

        text = page_of.page(build.report(three))
        script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert "default-src &#x27;none&#x27;" in text
        assert f"script-src &#x27;sha256-{digest}&#x27;" in text

    @pytest.mark.parametrize("field", ["name", "detail", "hint", "source", "fact", "gpu", "error", "version"])
    def test_what_nodes_say_is_text(self, three, field):
        result = json.loads(json.dumps(three["spark-1"]))
        check, name = result["checks"][0], "node"
        if field == "name":
            name = HOSTILE
        elif field in ("detail", "hint", "source"):
            check.update({"status": "FAIL", "hint": "x", field: HOSTILE})
        elif field == "fact":
            check["facts"] = [{"name": HOSTILE, "value": HOSTILE, "source": HOSTILE}]
        elif field == "gpu":
            result["host"]["cuda"]["gpus"] = [{"name": HOSTILE}]
        elif field == "error":
            result = {"msg": HOSTILE}
        else:
            release = {
                "name": HOSTILE,
                "version": HOSTILE,
                "source": {"kind": HOSTILE},
                "digest": HOSTILE,
                "size": 1,
                "created": HOSTILE,
            }
            result["host"]["staged"] = {"root": HOSTILE, "index": "", "releases": [release]}
        read = Reader(page_of.page(build.report({name: result})))
        assert len(read.all("script")) == 1
        assert not read.all("img")
        assert any("<script>alert(1)" in text for text in read.text)

    def test_every_row_and_column_is_there(self, three):
        read = Reader(page_of.page(build.report(three)))
        assert [each["data-check"] for each in read.all("button") if "data-check" in each] == [
            check["id"] for check in build.report(three)["checks"]
        ]
        nodes = [each for each in read.all("details") if each.get("class", "").startswith("node ")]
        assert [node["data-verdict"] for node in nodes] == ["fail", "lost", "pass"]
        cells = [each for each in read.all("span") if each.get("class", "").startswith("cell ") and "data-go" in each]
        assert len(cells) == 3 * 15
        ids = [attributes["id"] for _tag, attributes in read.seen if "id" in attributes]
        assert len(ids) == len(set(ids))

    def test_ready_nodes_of_many_are_folded(self, many, three):
        assert 'class="fold"' in page_of.page(build.report(many))
        assert 'class="fold"' not in page_of.page(build.report(three))

    def test_what_is_drawn(self, three):
        text = page_of.page(build.report({"spark-1": three["spark-1"]}))
        assert text.count("<svg") == 3
        assert "before dropping the page cache" in text
        assert "floor 1500 MHz" in text
        assert "spark-1 is blocked" in text

    def test_headlines(self, three):
        good, bad = three["spark-2"], three["spark-1"]
        for results, expected in (
            ({"a": good, "b": good}, "all of 2 nodes are ready"),
            ({"a": good, "b": bad}, "1 of 2 nodes is ready"),
            ({"a": bad, "b": bad}, "none of 2 nodes are ready"),
            ({"a": good}, "a is ready"),
        ):
            assert page_of.headline(build.report(results)) == expected


class TestMarkup:
    def test_escaping(self):
        assert escape("<&\"'>") == "&lt;&amp;&quot;&#x27;&gt;"
        assert escape([1, None, Markup("<b>"), "<"]) == "1<b>&lt;"
        assert element("a", "x", href='"', class_="c", aria_label="l", hidden=True, title=None) == (
            '<a href="&quot;" class="c" aria-label="l" hidden>x</a>'
        )
        assert element("br") == "<br>"
        assert prose("run `a < b`; ok") == "run <code>a &lt; b</code>; ok"
        with pytest.raises(TypeError):
            escape(object())


class TestFigures:
    def test_memory_adds_up(self, three):
        for reading in (three["spark-1"]["page_cache"]["before"], three["spark-1"]["page_cache"]["after"]):
            sizes = plot.parts(reading)
            assert sum(sizes.values()) == pytest.approx(reading["MemTotal"], rel=0.02)
            assert min(sizes.values()) >= 0

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [(None, ""), (0, "0.0 s"), (6.12, "6.1 s"), (59.94, "59.9 s"), (119.9, "2 min 0 s"), (3700.2, "61 min 40 s")],
    )
    def test_durations(self, seconds, shown):
        assert node_of.duration(seconds) == shown

    def test_a_line_is_broken_where_a_value_is_missing(self):
        series = {
            "gpu": 0,
            "at": [0, 1, 2, 3],
            "celsius": [40, None, 42, 43],
            "watts": [None] * 4,
            "sm_mhz": [1] * 4,
            "utilisation": [None] * 4,
        }
        drawn = plot.samples([series], {})
        assert drawn.count("<polyline") == 3
        assert "Power" not in drawn
