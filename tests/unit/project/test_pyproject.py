"""A pyproject.toml edited for aarch64: what it says for the others, its format and its comments stay."""

import difflib
import importlib.util
from pathlib import Path

import pytest
import tomlkit
from ansible.module_utils.armstage.audit.facts import Facts, read_compatibility
from ansible.module_utils.armstage.audit.project import audit_texts

ROOT = Path(__file__).resolve().parents[3]
INDEX = {"name": "pytorch-cu130", "url": "https://download.pytorch.org/whl/cu130"}


@pytest.fixture(scope="module")
def filters():
    spec = importlib.util.spec_from_file_location("project_filters", ROOT / "filter_plugins" / "project.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wanted(*names, index=INDEX, **ranges):
    every = {"torch": "2.11.0", "torchvision": "0.26.0", "torchcodec": "0.11.1"}
    versions = {name: every[name] for name in names or ("torch",)}
    minor = {"torch": "2.12", "torchvision": "0.27", "torchcodec": "0.12"}
    conditions = {name: f">={version},<{minor[name]}" for name, version in versions.items()}
    return {"versions": versions, "ranges": {**conditions, **ranges}, "index": index}


@pytest.fixture
def changed(filters):
    """The lines that an edit removes and adds; edited again, nothing changes."""

    def edit(text, target):
        after = filters.pyproject_for_aarch64(text, target)
        tomlkit.parse(after)
        assert filters.pyproject_for_aarch64(after, target) == after
        lines = difflib.ndiff(text.splitlines(), after.splitlines())
        return [line for line in lines if line[0] in "-+"]

    return edit


HERE = "; platform_machine == 'aarch64'"
ELSEWHERE = "; platform_machine != 'aarch64'"

GPU = "python_version < '3.13' or extra == 'x'"
LISTS = [
    (
        'dependencies = [\n    "a",  # one\n    "torch>=2.4",  # two\n\n    # three\n    "b"\n]',
        [
            '-     "torch>=2.4",  # two',
            f'+     "torch>=2.4{ELSEWHERE}",  # two',
            f'+     "torch>=2.11.0,<2.12{HERE}",',
        ],
    ),
    (
        "dependencies = ['torch']  # all",
        [
            "- dependencies = ['torch']  # all",
            f'+ dependencies = ["torch{ELSEWHERE}", "torch>=2.11.0,<2.12{HERE}"]  # all',
        ],
    ),
    (
        "dependencies = [\"torch>=2; python_version < '3.13' or extra == 'x'\"]",
        [
            "- dependencies = [\"torch>=2; python_version < '3.13' or extra == 'x'\"]",
            "+ dependencies = [\"torch>=2; (python_version < '3.13' or extra == 'x') and"
            " platform_machine != 'aarch64'\", "
            f'"torch>=2.11.0,<2.12{HERE}"]',
        ],
    ),
    ('dependencies = ["torch>=2.11,<2.12"]', []),
    ('dependencies = ["torch==2.11.0"]', []),
    ('dependencies = ["torch ~= 2.11.0"]', []),
    (
        'dependencies = ["torch[opt-einsum]"]',
        [
            '- dependencies = ["torch[opt-einsum]"]',
            f'+ dependencies = ["torch[opt-einsum]{ELSEWHERE}", "torch[opt-einsum]>=2.11.0,<2.12{HERE}"]',
        ],
    ),
    (
        f'dependencies = ["torch<2.8{ELSEWHERE}"]',
        [
            f'- dependencies = ["torch<2.8{ELSEWHERE}"]',
            f'+ dependencies = ["torch<2.8{ELSEWHERE}", "torch>=2.11.0,<2.12{HERE}"]',
        ],
    ),
    (
        'dependencies = ["lightning"]',
        ['- dependencies = ["lightning"]', f'+ dependencies = ["lightning", "torch>=2.11.0,<2.12{HERE}"]'],
    ),
]


@pytest.mark.parametrize(("text", "expected"), LISTS, ids=[text.replace("\n", " ")[:50] for text, _expected in LISTS])
def test_requirements(changed, text, expected):
    found = changed(f"# top\n[project]\n{text}\n\n[tool.x]\ny = 1\n", wanted(index={}))
    assert [line for line in found if line[0] in "-+"] == expected


def test_every_list_that_names_it(changed):
    text = (
        '[project]\ndependencies = ["a"]\n[project.optional-dependencies]\ngpu = ["torch>=2"]\n'
        '[dependency-groups]\ndev = ["Torch<2.8", {include-group = "x"}]\nx = ["b"]\n'
        '[tool.uv]\noverride-dependencies = ["torch==2.4"]\nconstraint-dependencies = ["a<2"]\n'
    )
    added = [line for line in changed(text, wanted(index={})) if line[0] == "+"]
    assert [line.split(" = ")[0] for line in added] == ["+ gpu", "+ dev", "+ override-dependencies"]
    assert all(f"torch>=2.11.0,<2.12{HERE}" in line for line in added)
    assert '{include-group = "x"}' in added[1]


def test_what_torchcodec_links_stands_beside_it(changed):
    text = (
        '[project]\ndependencies = ["torch==2.11.0"]\n[project.optional-dependencies]\nvideo = ["torchcodec==0.11.1"]\n'
    )
    target = wanted("torch", "torchcodec", index={}, **{"nvidia-npp": ">=13.0,<13.1"})
    assert changed(text, target) == [
        '- video = ["torchcodec==0.11.1"]',
        f'+ video = ["torchcodec==0.11.1", "nvidia-npp>=13.0,<13.1{HERE}"]',
    ]


SOURCES = [
    (
        "",
        ["+ [tool.uv.sources]", '+ torch = [{ index = "pytorch-cu130", marker = "platform_machine == \'aarch64\'" }]'],
    ),
    (
        "[tool.uv.sources]\n# mine\na = { path = 'a' }\n",
        ['+ torch = [{ index = "pytorch-cu130", marker = "platform_machine == \'aarch64\'" }]'],
    ),
    (
        "[tool.uv.sources]\ntorch = { index = 'x' }  # why\n",
        [
            "- torch = { index = 'x' }  # why",
            "+ torch = [",
            '+     { index = "x", marker = "platform_machine != \'aarch64\'" },',
            '+     { index = "pytorch-cu130", marker = "platform_machine == \'aarch64\'" },',
            "+ ]  # why",
        ],
    ),
    (
        "[tool.uv.sources]\ntorch = [\n  # first\n  { index = 'x', marker = \"sys_platform == 'linux'\" },  # x\n"
        "  { index = 'y', marker = \"sys_platform == 'darwin'\" },\n]\n",
        [
            "-   { index = 'x', marker = \"sys_platform == 'linux'\" },  # x",
            "+   { index = \"x\", marker = \"sys_platform == 'linux' and platform_machine != 'aarch64'\" },  # x",
            '+   { index = "pytorch-cu130", marker = "platform_machine == \'aarch64\'" },',
        ],
    ),
    (
        "[tool.uv]\nsources = { a = { path = 'a' } }\n",
        [
            "- sources = { a = { path = 'a' } }",
            "+ sources = { a = { path = 'a' }, "
            'torch = [{ index = "pytorch-cu130", marker = "platform_machine == \'aarch64\'" }]}',
        ],
    ),
]
BLOCK = ["+ [[tool.uv.index]]", '+ name = "pytorch-cu130"', f'+ url = "{INDEX["url"]}"', "+ explicit = true"]


@pytest.mark.parametrize(("text", "expected"), SOURCES, ids=["none", "others", "one", "several", "inline"])
def test_sources(changed, text, expected):
    found = changed(f'[project]\ndependencies = ["torch==2.11.0"]\n{text}', wanted())
    assert [line for line in found if line.strip("+ ")] == [*expected, *BLOCK]


def test_without_an_index_aarch64_is_left_to_the_default(changed):
    text = (
        "[project]\ndependencies = ['torch==2.11.0']\n[tool.uv.sources]\n"
        "torch = [\n    { index = 'x' },\n"
        "    { index = 'pytorch-cu130', marker = \"platform_machine == 'aarch64'\" },\n]\n"
        "other = { index = 'x' }\n"
    )
    assert sorted(changed(text, wanted(index={}))) == [
        '+     { index = "x", marker = "platform_machine != \'aarch64\'" },',
        "-     { index = 'pytorch-cu130', marker = \"platform_machine == 'aarch64'\" },",
        "-     { index = 'x' },",
    ]


INDEXES = [
    ('[[tool.uv.index]]\nname = "a"\nurl = "b"  # c\n\n[tool.x]\ny = 1\n', BLOCK),
    ('[[tool.uv.index]]\nname = "pytorch-cu130"\nurl = "mine"\nexplicit = true\n', []),
    (
        '[tool.uv]\nindex = [{ name = "a", url = "b" }]\n',
        [
            '- index = [{ name = "a", url = "b" }]',
            '+ index = [{ name = "a", url = "b" }, '
            f'{{ name = "pytorch-cu130", url = "{INDEX["url"]}", explicit = true }}]',
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), INDEXES, ids=["behind the others", "there", "inline"])
def test_the_index(changed, text, expected):
    bound = "[tool.uv.sources]\ntorch = [{ index = 'pytorch-cu130', marker = \"platform_machine == 'aarch64'\" }]\n"
    found = changed(f'[project]\ndependencies = ["torch==2.11.0"]\n\n{text}\n{bound}', wanted())
    assert [line for line in found if line.strip("+ ")] == expected


def test_a_lock_limited_to_environments_gets_aarch64(changed):
    text = "[project]\ndependencies = ['torch==2.11.0']\n[tool.uv]\n"
    text += "environments = [\n  \"platform_machine == 'x86_64'\", # ours\n]\n"
    assert changed(text, wanted(index={})) == ["+   \"sys_platform == 'linux' and platform_machine == 'aarch64'\","]
    assert changed(text.replace("platform_machine == 'x86_64'", "sys_platform == 'linux'"), wanted(index={})) == []


def test_a_table_of_its_own_is_not_rewritten(filters):
    text = "[project]\ndependencies = ['torch==2.11.0']\n[tool.uv.sources.torch]\nindex = 'x'\n"
    with pytest.raises(filters.AnsibleFilterError, match=r"tool\.uv\.sources\.torch[^\n]*\nhint: Write it as"):
        filters.FilterModule().filters()["pyproject_for_aarch64"](text, wanted())


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests/fixtures/projects").rglob("pyproject.toml")), ids=lambda path: path.parent.name
)
def test_the_projects_of_the_corpus(filters, changed, path):
    text = path.read_text()
    if "[project]" not in text:
        pytest.skip("not a uv project of its own")
    node = {"status": "ok", "arch": "aarch64", "cuda_version": "13.0", "gpus": []}
    staged = {"torch": "2.11.0", "torchvision": "0.26.0", "torchcodec": "0.11.1"}
    target = filters.project_target({"pyproject.toml": text}, [node], staged, "3.12", read_compatibility())
    if "refusal" in target:
        assert "does not use torch" in target["refusal"]
        return
    changed(text, target)
    after = filters.pyproject_for_aarch64(text, target)
    mended = {"torch-bounds", "torchcodec-floor", "marker-excludes-aarch64", "torch-without-index", "index-fixed"}
    mended |= {"source-without-marker", "environments-exclude-aarch64", "torch-build"}
    left = audit_texts({"pyproject.toml": after}, Facts(read_compatibility()))
    assert mended.isdisjoint(finding.rule for finding in left.findings)
