"""Forms of each fault that people write, and the forms beside them that are none: shell scripts."""

import pytest
from ansible.module_utils.armstage.audit.project import audit_texts

from .findings import FACTS, shell

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


@pytest.mark.parametrize("text", ["uv run x", "PATH=$HOME/bin:$PATH", "~/miniconda3/bin/python x"])
def test_a_script_that_no_job_runs_is_the_login_nodes_own(text):
    assert shell(text) == []


def test_a_job_without_the_environment_of_the_login_node():
    assert shell("#SBATCH --export=NONE\npython x.py") == []


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
