"""Forms of each fault that people write, and the forms beside them that are none: torch's versions,
builds and indexes, in whatever names them."""

import pytest
from ansible.module_utils.armstage.audit.project import audit_texts

from .findings import FACTS, rules, shell

BUILDS = [
    ("torch==2.11.0+cpu", True),
    ("torchvision===0.26.0+CPU", True),
    ("torchaudio==2.11.0+cu124", True),
    ("torchcodec==0.11.1+cpu", True),
    ("torch==2.9.0+cu118", True),
    ("torch==2.11.0+cpu; platform_machine != 'aarch64'", False),
    ("torch==2.11.0+cpu; sys_platform == 'darwin'", False),
    ("torch==2.11.0+ours", False),
    ("numpy==2.0+cpu", False),
]
FORMS = {
    "pyproject.toml": '[project]\nname = "a"\ndependencies = ["{}"]\n',
    "requirements.txt": "\n\n{}\n",
    "constraints.txt": "\n\n{}\n",
    "environment.yml": 'dependencies:\n  - pip:\n    - "{}"\n',
    "install.sh": '\n\nuv pip install --python x "{}"\n',
}


@pytest.mark.parametrize(("text", "fault"), BUILDS)
@pytest.mark.parametrize("name", FORMS)
def test_a_pinned_build(name, text, fault):
    found = [line for line in rules(**{name.replace(".", "_"): FORMS[name].format(text)}) if "build" in line]
    assert found == (["3 torch-build"] if fault else [])


INSTALLS = [
    ("pip install torch==2.4.1", ["1 torch-bounds"]),
    ("python -m pip install 'torch<2.9'", ["1 torch-without-index"]),
    ("pip install torch", []),  # the newest, which PyPI builds with CUDA
    ("pip install torch==2.9.0 --index-url https://download.pytorch.org/whl/cu130", []),
    ("export PIP_INDEX_URL=https://download.pytorch.org/whl/cu130\npip install torch==2.9.0", []),
    ("pip install torch==2.9.0 --index-url https://download.pytorch.org/whl/cu118", ["1 index-fixed"]),
    ("uv pip install --python x --torch-backend=auto torch==2.9.0", []),
    ("uv add 'torchcodec<0.9'", ["1 torchcodec-floor"]),
    ("pip install flash-attn --no-build-isolation", ["1 flash-attn-build"]),
    ("pip install -r torch==2.4.1", []),
    ("pip install torch==$VERSION", []),
    ("pip download torch==2.4.1", []),
    ("echo pip install torch==2.4.1", []),
    ('if [ -n "$CPU" ]; then pip install --index-url https://download.pytorch.org/whl/cpu torch; fi', []),
    ("pip install --index-url https://download.pytorch.org/whl/cpu torch", ["1 index-fixed"]),
    ("uv pip install --python x --torch-backend cu121 torch", ["1 index-fixed"]),
    ("UV_TORCH_BACKEND=cu121 uv pip install --python x torch", ["1 index-fixed"]),
]


@pytest.mark.parametrize(("text", "expected"), INSTALLS)
def test_what_a_script_installs(text, expected):
    assert shell(text) == expected


BACKENDS = [
    ("uv sync --torch-backend=auto", ["1 uv-sync-torch-backend"]),
    ("uv lock --torch-backend auto", ["1 uv-sync-torch-backend"]),
    ("uv add --torch-backend=cu130 torch", ["1 uv-sync-torch-backend"]),
    ("uv run --torch-backend=auto x", ["1 uv-sync-torch-backend"]),
    ("uv run x --torch-backend=auto", []),
    ("uv tool install --torch-backend=auto x", []),
    ("UV_TORCH_BACKEND=auto uv sync", ["1 torch-backend-ignored"]),
    ("env UV_TORCH_BACKEND=auto uv run x", ["1 torch-backend-ignored"]),
    ("export UV_TORCH_BACKEND=auto\nuv sync", ["1 torch-backend-ignored"]),
    ("export UV_TORCH_BACKEND=auto\nuv sync\nuv pip install --python x torch", ["2 uv-x"]),
    ("UV_TORCH_BACKEND=auto pip install x", []),
]


@pytest.mark.parametrize(("text", "expected"), BACKENDS)
def test_torch_backends(text, expected):
    found = [line for line in shell(text) if "backend" in line]
    assert found == [line for line in expected if "backend" in line]


REQUIREMENTS = [
    ("torchcodec<0.11; platform_machine != 'aarch64'", ["1 marker-excludes-aarch64"]),
    ("torchvision; platform_machine == 'x86_64' and sys_platform == 'linux'", ["1 marker-excludes-aarch64"]),
    ("torch>=2.11; sys_platform == 'linux' and platform_machine in 'x86_64 amd64'", ["1 marker-excludes-aarch64"]),
    ("torchcodec<0.11; platform_machine != 'aarch64'\ntorchcodec>=0.11; platform_machine == 'aarch64'", []),
    ("torchcodec<0.11; sys_platform == 'darwin'", []),
    ("decord; platform_machine != 'aarch64'", []),
    ("torchcodec", ["1 torchcodec-floor"]),
    ("torchcodec>=0.10", ["1 torchcodec-floor"]),
    ("torchcodec==0.9.1", ["1 torchcodec-floor"]),
    ("torchcodec~=0.10.0", ["1 torchcodec-floor"]),
    ("torchcodec>=0.11", []),
    ("torchcodec>=0.11.0,<0.12", []),
    ("torchcodec>=0.99", []),
    ("torchcodec>=0.5\ntorchcodec>=0.11", []),
    ("torchcodec==0.0.0", ["1 torchcodec-stub"]),
    ("torchcodec===0.0.0.dev0", ["1 torchcodec-stub"]),
    ("torch<2.7", ["1 torch-bounds"]),
    ("torch==2.1.*", ["1 torch-bounds"]),
    ("torchvision~=0.20", []),
    ("torchvision~=0.20.0", ["1 torch-bounds"]),
    ("torch==2.10.0", ["1 torch-without-index"]),
    ("torch", ["1 torch-without-index"]),
    ("torch>=2.11", []),
    ("torch>=2.99", []),
    ("torch==2.11.0+cu130", []),
    ("torch @ https://example.org/torch-2.9.0-cp312-cp312-linux_aarch64.whl", []),
    ("torch @ https://example.org/torch-2.9.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl", ["1 x86-wheel-url"]),
    ("--index-url https://download.pytorch.org/whl/cu130\ntorch==2.9.0", []),
    ("--index-url https://download.pytorch.org/whl/cu130\ntorch==2.8.0", ["2 torch-bounds"]),
    ("-f https://download.pytorch.org/whl/cu118/torch_stable.html\ntorch>=2.11", ["1 index-fixed"]),
    ("-i https://download.pytorch.org/whl/nightly/cu132\ntorch>=2.15", []),
    ("--extra-index-url=https://mirror.example.org/pytorch-wheels/whl/cu124/\ntorch>=2.11", ["1 index-fixed"]),
    ("--index-url https://download.pytorch.org/whl/rocm6.3\ntorch>=2.11", ["1 index-fixed"]),
    ("--index-url https://packages.example.org/simple\ntorch>=2.11", []),
]


@pytest.mark.parametrize(("text", "expected"), REQUIREMENTS)
def test_requirements(text, expected):
    assert rules(requirements_txt=text) == expected


def test_an_index_given_where_the_file_is_installed_counts():
    texts = {
        "requirements.txt": "torch==2.9.0\n",
        "setup.sh": "pip install -r requirements.txt -i https://download.pytorch.org/whl/cu130\n",
    }
    assert audit_texts(texts, FACTS).findings == ()


SOURCES = """
[project]
dependencies = ["torch>=2.11", "triton; platform_machine == 'x86_64'"]
[[tool.uv.index]]
name = "x"
url = "https://download.pytorch.org/whl/%s"
explicit = true
[tool.uv.sources]
%s
"""


@pytest.mark.parametrize(
    ("tag", "source", "expected"),
    [
        ("cu121", "torch = { index = 'x' }", ["6 index-fixed", "9 source-without-marker"]),
        ("cu121", "torch = [{ index = 'x', marker = \"sys_platform == 'linux'\" }]", ["6 index-fixed"]),
        ("cu121", "torch = [{ index = 'x', marker = \"platform_machine == 'x86_64'\" }]", []),
        ("cu121", "triton = { index = 'x' }", ["9 source-without-marker"]),
        ("cu130", "torch = { index = 'x' }", []),
        ("cpu", "torch = [{ index = 'x', extra = 'cpu' }]", []),
        ("cpu", "torch = [{ index = 'x', marker = \"sys_platform == 'darwin'\" }]", []),
        ("cpu", "torch = [{ index = 'x', marker = \"sys_platform != 'darwin'\" }]", ["6 index-fixed"]),
    ],
)
def test_sources(tag, source, expected):
    found = audit_texts({"pyproject.toml": SOURCES % (tag, source)}, FACTS).findings
    assert [f"{finding.line} {finding.rule}" for finding in found] == expected
