"""What is documented is what there is: modules, plugins, roles, verbs, pages and changelog fragments."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (ROOT / "library").glob("*.py"))
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
PLUGINS = {
    "callback": ["armstage_summary"],
    "connection": ["srun"],
    "filter": sorted(path.stem for path in (ROOT / "filter_plugins").glob("*.yml")),
    "inventory": ["slurm"],
}
DOCUMENTED = ("type", "required", "default", "choices", "elements")
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "roles").glob("*/README.md"),
    ]
)
FRAGMENTS = sorted((ROOT / "changelogs" / "fragments").iterdir())
HEAD = """\
#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r\"""
"""


@pytest.mark.parametrize("name", MODULES)
def test_options_are_documented_as_they_are_declared(name):
    module = importlib.import_module(name)
    documentation = yaml.safe_load(module.DOCUMENTATION)
    assert documentation["module"] == name
    assert _spec(module.ARGUMENT_SPEC) == _documented(documentation["options"])


def _spec(options):
    return {
        name: {
            **{
                key: option[key]
                for key in DOCUMENTED
                if option.get(key) not in (None, False) or (key == "default" and key in option)
            },
            **({"options": _spec(nested)} if (nested := option.get("options") or option.get("suboptions")) else {}),
        }
        for name, option in options.items()
    }


def _documented(options):
    return _spec(
        {
            name: {key: value for key, value in option.items() if key != "description"}
            for name, option in options.items()
        }
    )


@pytest.mark.parametrize("name", MODULES)
def test_a_module_shows_examples_and_results(name):
    module = importlib.import_module(name)
    tasks = yaml.safe_load(module.EXAMPLES)
    assert all(name in task for task in tasks)
    declared = set(module.ARGUMENT_SPEC)
    assert all(set(task[name] or {}) <= declared for task in tasks)
    returned = yaml.safe_load(module.RETURN)
    assert returned
    assert all({"description", "returned", "type"} <= set(value) for value in returned.values())


@pytest.mark.parametrize("name", MODULES)
def test_a_module_begins_as_the_others_and_its_main_is_short(name):
    source = (ROOT / "library" / f"{name}.py").read_text()
    assert source.startswith(HEAD)
    body = source[source.index("def main()") : source.index('if __name__ == "__main__"')]
    assert len(body.strip().splitlines()) < 40


@pytest.mark.parametrize("name", ROLES)
def test_a_role_specifies_its_defaults(name):
    role = ROOT / "roles" / name
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
    for entry, spec in specs.items():
        assert spec["short_description"], entry
        assert {option: value.get("default") for option, value in spec["options"].items()} == defaults
        assert all(value["description"] and value["type"] for value in spec["options"].values())


@pytest.mark.parametrize("readme", sorted((ROOT / "roles").glob("*/README.md")), ids=lambda path: path.parent.name)
def test_the_table_of_a_role_s_readme_is_its_specification(readme):
    specs = yaml.safe_load((readme.parent / "meta/argument_specs.yml").read_text())["argument_specs"]
    expected = [
        (name, option["default"] or json.dumps(option["default"]), option["description"])
        for name, option in specs["main"]["options"].items()
    ]
    assert re.findall(r"^\| `(\w+)` \| `(.*?)` \| (.*) \|$", readme.read_text(), re.MULTILINE) == expected


@pytest.mark.parametrize("name", ROLES)
def test_a_role_keeps_to_its_prefixes(name):
    role = ROOT / "roles" / name
    assert all(option.startswith(f"{name}_") for option in yaml.safe_load((role / "defaults/main.yml").read_text()))
    private = role / "vars/main.yml"
    if private.exists():
        assert all(option.startswith(f"__{name}_") for option in yaml.safe_load(private.read_text()))


@pytest.mark.parametrize(("kind", "names"), [("module", MODULES), ("role", ROLES), *PLUGINS.items()])
def test_ansible_doc_renders_everything(kind, names):
    doc = [str(Path(sys.executable).with_name("ansible-doc")), "--json", "-t", kind, *names]
    shown = subprocess.run(doc, capture_output=True, text=True, cwd=ROOT, check=True)
    assert {name.rpartition(".")[2] for name in json.loads(shown.stdout)} == set(names), shown.stderr


def test_the_readme_has_the_verbs_that_there_are():
    usage = subprocess.run([ROOT / "armstage"], capture_output=True, text=True, check=True).stdout
    verbs = re.findall(r"^  ([a-z-]+)  ", usage, re.MULTILINE)
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(verbs) == sorted(re.findall(r"[a-z-]+", " ".join(rows)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        headings = re.findall(r"^#+ (.*)$", there.read_text(), re.MULTILINE) if anchor else []
        assert not anchor or anchor in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in headings]


def test_every_page_is_linked_from_another():
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    }
    assert [page for page in PAGES if page not in linked and page.parent not in linked] == [ROOT / "README.md"]


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_a_changelog_fragment_has_known_sections_and_says_of_what_each_line_is(fragment):
    config = yaml.safe_load((ROOT / "changelogs" / "config.yaml").read_text())
    content = yaml.safe_load(fragment.read_text())
    assert fragment.suffix == ".yml"
    assert content
    assert set(content) <= {name for name, _title in config["sections"]}
    for line in (line for lines in content.values() for line in lines):
        assert re.match(r"\S.* - \S", line), line
        assert line.endswith(".")
        assert "\n" not in line
