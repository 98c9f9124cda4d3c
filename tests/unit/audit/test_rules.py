"""Forms of each fault that people write, and the forms beside them that are none."""

import pytest
from ansible.module_utils.armstage.audit.facts import Facts, read_compatibility
from ansible.module_utils.armstage.audit.project import audit_texts

FACTS = Facts(read_compatibility())


def rules(**texts):
    named = {name.replace("__", "/").replace("_", ".", 1): text for name, text in texts.items()}
    return [f"{finding.line} {finding.rule}" for finding in audit_texts(named, FACTS).findings]


def shell(text, name="run.sh"):
    found = audit_texts({name: text}, FACTS)
    assert not found.unread
    return [f"{finding.line} {finding.rule}" for finding in found.findings]


def python(text):
    found = audit_texts({"a.py": text}, FACTS)
    assert not found.unread
    return [f"{finding.line} {finding.rule}" for finding in found.findings]


LIBRARY_PATHS = [
    ("LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH", True),
    ("LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/a", True),
    ('export LD_LIBRARY_PATH="/a:${LD_LIBRARY_PATH}"', True),
    ("LD_LIBRARY_PATH=/a:${LD_LIBRARY_PATH:-}", True),
    ("LD_LIBRARY_PATH=/a:${LD_LIBRARY_PATH-}", True),
    ("LD_LIBRARY_PATH=/a:", True),
    ("LD_LIBRARY_PATH=:/a", True),
    ("LD_LIBRARY_PATH=/a::/b", True),
    ("LD_LIBRARY_PATH+=:/a", True),
    ("env LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH python x.py", True),
    ("LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH python x.py", True),
    ("LD_LIBRARY_PATH=/a${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}", False),
    ("LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/a", False),
    ("LD_LIBRARY_PATH=/a${LD_LIBRARY_PATH+:$LD_LIBRARY_PATH}", True),  # set, and empty
    ("LD_LIBRARY_PATH=/a:${LD_LIBRARY_PATH:-/usr/lib}", False),
    ("LD_LIBRARY_PATH=/a:$EXTRA", False),
    ("LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$PWD/lib", False),
    ("LD_LIBRARY_PATH=/a\nLD_LIBRARY_PATH=/b:$LD_LIBRARY_PATH", False),
    ("LD_LIBRARY_PATH=/a; LD_LIBRARY_PATH+=:/b", False),
    ("LD_LIBRARY_PATH=", False),
    ("LIBRARIES=/a:$LD_LIBRARY_PATH", False),
    ("echo LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH", False),
    ("PATH=/a:$PATH", False),
]


@pytest.mark.parametrize(("text", "fault"), LIBRARY_PATHS)
def test_an_empty_element(text, fault):
    assert [line for line in shell(text) if "library-path" in line] == (
        ["1 library-path-empty-element"] if fault else []
    )


DOWNLOADS = [
    ("curl -o x https://example.org/x", True),
    ("curl -fsSLo x https://example.org/x", True),
    ("curl --output=x https://example.org/x", True),
    ("curl -O https://example.org/x", True),
    ("curl --remote-name https://example.org/x", True),
    ("curl https://example.org/x > x", True),
    ("curl https://example.org/x.tar.gz | tar xz", True),
    ("wget https://example.org/x", True),
    ("wget -qO x $URL", True),
    ("curl -o x https://example.org/x && sha256sum -c x.sha256", False),
    ('wget https://example.org/x\necho "$SUM  x" | shasum -a 256 -c', False),
    ("wget https://example.org/x\ngpg --verify x.sig x", False),
    ("sha256sum -c old\nwget https://example.org/x", True),
    ("curl https://example.org/x", False),
    ("curl -s https://example.org/x | jq .", False),
    ("curl -s -o /dev/null -w '%{http_code}' https://example.org/x", False),
    ("curl -o out.json http://localhost:8000/v1/models", False),
    ("wget --spider https://example.org/x", False),
    ("wget -O - https://example.org/x", False),
    ("wget --help", False),
]


@pytest.mark.parametrize(("text", "fault"), DOWNLOADS)
def test_a_download_without_a_check(text, fault):
    assert [line for line in shell(text) if "download" in line] == (
        [f"{1 + text.startswith('sha')} download-unchecked"] if fault else []
    )


TEMPORARY = [
    ("mkdir /tmp/x", True),
    ("cd /tmp/x/y", True),
    ("python a.py --cache=/tmp/x", True),
    ("export TMPDIR=/tmp/x", True),
    ("echo a >/tmp/x.log", True),
    ('cp a "/tmp/x/$USER"', True),
    ("srun mkdir /tmp/x", True),
    ('mkdir "/tmp/x-$USER"', False),
    ("mkdir /tmp/x.$$", False),
    ("mkdir /tmp/$SLURM_JOB_ID/x", False),
    ("mktemp -d /tmp/x.XXXX", False),
    ("cd /tmp", False),
    ("ls /tmp/x", False),
    ("echo /tmp/x", False),
    ("rm /tmp/*.log", False),
    ("docker run -v /tmp/.X11-unix:/tmp/.X11-unix x", False),
    ("a='see /tmp/x'", False),
]


@pytest.mark.parametrize(("text", "fault"), TEMPORARY)
def test_a_name_that_all_users_share(text, fault):
    assert [line for line in shell(text) if "tmp" in line] == (["1 shared-tmp-name"] if fault else [])


UV_PIP = [
    ("uv pip install x", True),
    ("uv pip sync requirements.txt", True),
    ("uv --quiet pip install x", True),
    ("srun uv pip install x", True),
    ("uv pip install -p .venv x", False),
    ("uv pip install --python=.venv/bin/python x", False),
    ("uv pip install --system x", False),
    ("uv pip install --target lib x", False),
    ("UV_PYTHON=.venv/bin/python uv pip install x", False),
    ("export VIRTUAL_ENV=/x\nuv pip install x", False),
    ("source .venv/bin/activate\nuv pip install x", False),
    (". .venv/bin/activate; uv pip install x", False),
    ("conda activate x && uv pip install y", False),
    ("f() { uv pip install x; }\n. .venv/bin/activate\nf", False),
    ("uv pip list", False),
    ("pip install x", False),
    ("uv add x", False),
]


@pytest.mark.parametrize(("text", "fault"), UV_PIP)
def test_uv_pip_without_its_environment(text, fault):
    assert [line for line in shell(text) if "uv-pip" in line] == (["1 uv-pip-without-python"] if fault else [])


OVERRIDES = [
    ("uv run x", True),
    ("srun uv run python x.py", True),
    ("bash -c 'uv run x'", True),
    ("uv sync --locked", True),
    ("uv run --no-sync x", False),
    ("UV_NO_SYNC=1 uv run x", False),
    ("export UV_NO_SYNC=1; uv run x", False),
    ("uv run --no-project x", False),
    (".venv/bin/python x", False),
]


@pytest.mark.parametrize(("text", "fault"), OVERRIDES)
@pytest.mark.parametrize(
    "override",
    [
        "uv pip install --python .venv torch==2.11.0",
        "uv pip install --python .venv --torch-backend=auto -r x.txt",
        "uv pip install --python .venv --index https://download.pytorch.org/whl/cu130 x",
    ],
)
def test_what_undoes_an_override(override, text, fault):
    expected = ["2 uv-run-undoes-override"] if fault else []
    assert [line for line in shell(f"{override}\n{text}") if "undoes" in line] == expected


def test_an_override_of_another_package_is_none():
    assert shell("uv pip install --python .venv ninja\nuv run x") == []
    assert [line for line in shell("uv run x\nuv pip install --python .venv torch") if "undoes" in line] == []


def test_an_override_in_one_script_is_undone_in_another():
    texts = {"setup.sh": "uv pip install --python .venv torch\n", "train.sh": "uv run x\n"}
    assert [(found.file, found.rule) for found in audit_texts(texts, FACTS).findings] == [
        ("train.sh", "uv-run-undoes-override")
    ]


JOBS = [
    ("uv run --no-sync x", ["2 conda-leak"]),
    ("srun python x.py", ["2 conda-leak"]),
    ("unset CONDA_PREFIX\nsrun python x.py", []),
    ("export CONDA_PREFIX=\npython x.py", []),
    (". /work/me/.local/env.sh\npython x.py", []),
    ("source ROOT/sbatch-prologue.sh || exit 1\nuv run x", []),
    ("source .venv/bin/activate\npython x.py", []),
    ("env -u CONDA_PREFIX python x.py", []),
    ("env -i python x.py", []),
    ("srun --export=NONE python x.py", []),
    ("srun --container-image=x python x.py", []),
    ("/opt/python/bin/python x.py", []),
    ("echo python x.py", []),
    ("unset VIRTUAL_ENV\npython x.py", ["3 conda-leak"]),
    ("$HOME/.local/bin/uv sync", ["2 x86-path-from-home"]),
    ("~/miniconda3/bin/python x.py", ["2 x86-path-from-home"]),
    ("source /home/me/venv/bin/activate", ["2 x86-path-from-home"]),
    ('eval "$(${HOME}/miniforge3/bin/conda shell.bash hook)"', ["2 x86-path-from-home"]),
    ("PATH=/opt/bin:$HOME/bin:$PATH", ["2 x86-path-from-home"]),
    ("PATH=$HOME/$(uname -m)/bin:$PATH", []),
    ("$HOME/.local/bin-aarch64/uv sync", []),
    ("cd $HOME/project", []),
    ("export HF_HOME=$HOME/.cache/huggingface", []),
]


@pytest.mark.parametrize(("text", "expected"), JOBS)
def test_a_job_and_the_login_node(text, expected):
    assert shell(f"#SBATCH -N1\n{text}") == expected


CONDA = [
    ("conda activate x\nuv run y", True),
    ("mamba activate x && srun uv run y", True),
    ('eval "$(conda shell.bash activate x)"\nuv sync', True),
    ("source activate x\nuv run y", True),
    ("source /opt/miniconda3/bin/activate x\nuv run y", True),
    ("module load anaconda3\nuv run y", True),
    ("ml Miniforge3/24.11\nuvx ruff", True),
    ("conda activate x\n.venv/bin/python y", True),
    ("conda activate x\nsrun .venv-aarch64/bin/torchrun y", True),
    (". /work/me/.local/env.sh\nconda activate x\nuv run y", True),
    ("conda activate x\npython y", False),  # conda's own, as meant
    ("conda activate x\nsrun torchrun y", False),
    ("conda activate x\nuv pip install y", False),
    ("conda activate x\nuv run --python $CONDA_PREFIX/bin/python y", False),
    ("export UV_PROJECT_ENVIRONMENT=$CONDA_PREFIX\nconda activate x\nuv run y", False),
    ("conda activate x\n. /work/me/.local/env.sh\nuv run y", False),
    ("conda activate x\nunset CONDA_PREFIX\nuv run y", False),
    ("conda activate x\nenv -u CONDA_PREFIX uv run y", False),
    ("conda activate x\nconda deactivate\nuv run y", False),
    ("conda activate x\n. .venv/bin/activate\nuv run y", False),
    ("conda activate x\nsrun --container-image=z uv run y", False),
    ("unset CONDA_PREFIX\nmodule load anaconda3\nmodule purge\nuv run y", False),
    ("unset CONDA_PREFIX\nmodule load cuda\nuv run y", False),
]


@pytest.mark.parametrize(("text", "fault"), CONDA)
@pytest.mark.parametrize("directive", ["-N1", "--export=NONE"])
def test_a_conda_that_the_job_activates(directive, text, fault):
    line = 3 if text.startswith(". ") else 2
    assert [found for found in shell(f"#SBATCH {directive}\n{text}") if "leak" in found] == (
        [f"{line} conda-leak"] if fault else []
    )


def test_a_module_leaves_what_the_login_node_left():
    assert shell("#SBATCH -N1\nmodule load anaconda3\npython x.py") == ["3 conda-leak"]


def test_a_conda_that_is_activated_outside_of_jobs():
    assert shell("conda activate x\nuv run y") == []


SEARCH_PATHS = [
    ("LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu", True),
    ("export LD_LIBRARY_PATH=/a:/usr/local/cuda/targets/x86_64-linux/lib", True),
    ('export PATH="/opt/tool-linux-amd64/bin:$PATH"', True),
    ("PATH=/opt/micromamba/linux-64/bin:$PATH python x", True),
    ("export LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", True),
    ("# not on aarch64\nexport LIBRARY_PATH=/opt/x86-64/lib", True),
    ("PATH=/opt/$(uname -m)/bin:$PATH", False),
    ("if [ $(uname -m) = x86_64 ]; then PATH=/opt/x86_64/bin:$PATH; fi", False),
    ("case $(arch) in x86_64) LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu ;; esac", False),
    ("LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu:/usr/lib/x86_64-linux-gnu", False),
    ("PATH=/opt/myx86_64y/bin:$PATH", False),
    ("DATA=/data/x86_64", False),
    ("echo PATH=/opt/x86_64/bin", False),
    ("srun --container-image=x env PATH=/opt/x86_64/bin y", False),
]


@pytest.mark.parametrize(("text", "fault"), SEARCH_PATHS)
def test_a_search_path_of_another_architecture(text, fault):
    line = 2 if text.startswith("#") else 1
    assert [found for found in shell(text) if "x86-search" in found] == ([f"{line} x86-search-path"] if fault else [])


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


@pytest.mark.parametrize("text", ["uv run x", "PATH=$HOME/bin:$PATH", "~/miniconda3/bin/python x"])
def test_a_script_that_no_job_runs_is_the_login_nodes_own(text):
    assert shell(text) == []


def test_a_job_without_the_environment_of_the_login_node():
    assert shell("#SBATCH --export=NONE\npython x.py") == []


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


PYTHON = [
    ("import torchvision\ntorchvision.io.VideoReader", ["2 removed-video-call"]),
    ("import torchvision.io\ntorchvision.io.VideoReader", ["2 removed-video-call"]),
    ("import torchvision as tv\ntv.io.read_video('x')", ["2 removed-video-call"]),
    (
        "from torchvision.io import (\n  read_image,\n  VideoReader as V,\n)\nV('x')",
        ["3 removed-video-call", "5 removed-video-call"],
    ),
    ("from torchvision.io.video import read_video", ["1 removed-video-call"]),
    ("def f():\n  from torchvision import io\n  return io.write_video", ["3 removed-video-call"]),
    ("def f():\n  return io.write_video\nfrom torchvision import io", ["2 removed-video-call"]),
    ("from torchvision import io\nclass A(io.VideoReader): pass", ["2 removed-video-call"]),
    ("import torchvision\ngetattr(torchvision.io, 'VideoReader')", ["2 removed-video-call"]),
    ("import torchvision\ntorchvision.set_video_backend('pyav')", ["2 ignored-video-backend"]),
    ("import torchaudio\ntorchaudio.set_audio_backend('sox')", ["2 removed-audio-call"]),
    ("import torchaudio.io", ["1 removed-audio-call"]),
    ("from torchaudio.io import StreamReader", ["1 removed-audio-call"]),
    ("import torchvision\ntorchvision.io.read_image", []),
    ("from torchcodec.decoders import VideoDecoder as VideoReader\nVideoReader('torchvision')", []),
    ("# torchvision.io.VideoReader\n'''torchvision.io.VideoReader'''\nx = 'torchvision.io.VideoReader'", []),
    ("from .torchvision.io import VideoReader", []),
    ("from . import torchvision\ntorchvision.io.VideoReader", []),
    ("torchvision = object()\ntorchvision.io.VideoReader", []),
    ("try:\n  from torchvision.io import VideoReader\nexcept ImportError:\n  VideoReader = None\nVideoReader", []),
    ("try:\n  from torchvision.io import VideoReader\nexcept (ImportError, RuntimeError):\n  VideoReader = None", []),
    ("try:\n  from torchvision.io import VideoReader\nexcept OSError:\n  pass", ["2 removed-video-call"]),
    ("import torchaudio\ntorchaudio.load('x')\ntorchaudio.information", []),
]


@pytest.mark.parametrize(("text", "expected"), PYTHON)
def test_calls_that_are_gone(text, expected):
    assert python(text) == expected


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


CONFIGURATIONS = [
    ("nnodes: 2\ngpus_per_node: 1\ntensor_parallel_size: 2", ["3 tensor-parallel-over-nodes"]),
    ("hosts: [spark-1, spark-2]\ntensor-parallel-size: 2", ["2 tensor-parallel-over-nodes"]),
    ("gpu: GB10\nengine: {tp: 2}", ["2 tensor-parallel-over-nodes"]),
    ("node: dgx-spark\ncommand: [vllm, serve, --tensor-parallel-size, '2']", ["2 tensor-parallel-over-nodes"]),
    ("node: dgx-spark\nargs: --tp=2", ["2 tensor-parallel-over-nodes"]),
    ("node: dgx-spark\nnotes: use --tp=2", []),
    ("node: dgx-spark\ntensor_parallel_size: 1", []),
    ("tensor_parallel_size: 8", []),
    ("nnodes: 2\ngpus_per_node: 4\ntensor_parallel_size: 8", []),
    ("master: spark://x:7077\ntp: 2", []),
    ("tensor_parallel_size: ${size}\nnode: spark-1", []),
    ("env:\n  NCCL_SOCKET_IFNAME: wlan0", ["2 wrong-interface"]),
    ("env:\n  - GLOO_SOCKET_IFNAME=docker0", ["2 wrong-interface"]),
    ("env: {NCCL_SOCKET_IFNAME: '^lo,docker0'}", []),
    ("env: {NCCL_SOCKET_IFNAME: '=wlP9s9'}", ["1 wrong-interface"]),
    ("env: {NCCL_SOCKET_IFNAME: enp1s0f0np0}", []),
    ("nnodes: 2\nmaster_addr: localhost", ["2 wrong-interface"]),
    ("nnodes: 2\nrdzv_endpoint: 127.0.0.1:29500", ["2 wrong-interface"]),
    ("nnodes: 1\nmaster_addr: localhost", []),
    ("nnodes: 2\nGLOO_SOCKET_IFNAME: lo", ["2 wrong-interface"]),
    ("MASTER_ADDR: 192.168.100.1\nVLLM_HOST_IP: 192.168.1.7", ["2 wrong-interface"]),
    ("MASTER_ADDR: 192.168.100.1\nVLLM_HOST_IP: 192.168.100.2", []),
    ("MASTER_ADDR: head\nVLLM_HOST_IP: 192.168.100.2", []),
]


@pytest.mark.parametrize(("text", "expected"), CONFIGURATIONS)
def test_configurations(text, expected):
    found = audit_texts({"train.yaml": text}, FACTS)
    assert not found.unread
    assert [f"{finding.line} {finding.rule}" for finding in found.findings] == expected


def test_on_a_spark_every_tensor_parallel_size_spans_boxes():
    spark = Facts(
        read_compatibility(),
        {"status": "ok", "arch": "aarch64", "platform": "spark", "cuda_version": "13.0", "gpus": []},
    )
    found = audit_texts({"serve.sh": "vllm serve x -tp 2\n"}, spark)
    assert [finding.rule for finding in found.findings] == ["tensor-parallel-over-nodes"]
    assert audit_texts({"serve.sh": "vllm serve x -tp 2\n"}, FACTS).findings == ()
