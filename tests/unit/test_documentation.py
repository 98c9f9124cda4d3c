"""What is documented is what there is: modules, plugins and roles against their own documentation."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (ROOT / "library").glob("*.py"))
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
DOCUMENTED = ("type", "required", "default", "choices", "elements")


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
def test_main_is_short(name):
    source = (ROOT / "library" / f"{name}.py").read_text()
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


@pytest.mark.parametrize("name", ROLES)
def test_a_role_keeps_to_its_prefixes(name):
    role = ROOT / "roles" / name
    assert all(option.startswith(f"{name}_") for option in yaml.safe_load((role / "defaults/main.yml").read_text()))
    private = role / "vars/main.yml"
    if private.exists():
        assert all(option.startswith(f"__{name}_") for option in yaml.safe_load(private.read_text()))


def test_ansible_doc_renders_every_module_and_role():
    doc = [str(Path(sys.executable).with_name("ansible-doc")), "--json"]
    for kind, names in (("module", MODULES), ("role", ROLES)):
        shown = subprocess.run([*doc, "-t", kind, *names], capture_output=True, text=True, cwd=ROOT, check=True)
        assert {name.rpartition(".")[2] for name in json.loads(shown.stdout)} == set(names), shown.stderr
