"""Rules on shell scripts: how uv and Python are called in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..facts import FAMILY, index_tag
from ..model import ERROR, WARNING, Found, Project, Rule
from ..pep508 import normalize
from ..readers.shell_tree import Assignment
from ..scripts import Call, ShellScript

_STARTS_PYTHON = ("uv", "uvx", "python", "python3", "torchrun", "accelerate", "deepspeed", "pip", "pip3")
_HAND_OVER = ("env.sh", "sbatch-prologue.sh")
_CONDA = ("conda", "mamba", "micromamba")
_MODULE = ("module", "ml")
_CONDA_MODULE = re.compile(r"(?i)(?:.*/)?(?:(?:ana|mini)?conda|miniforge|mambaforge|micromamba)[\w.-]*(?:/.*)?")
_VIRTUALENV = re.compile(r"(?:^|/)\.?v?env[^/]*/bin/[^/]+$")
_FIX_OWN = (
    "Leave conda out of this job, or source `ROOT/env.sh` behind it, which clears it; or run everything with conda's "
    "own python"
)
_TARGETS = ("--python", "-p", "--system", "--target", "-t", "--prefix", "--user")
_NAMING = {"UV_PYTHON", "UV_SYSTEM_PYTHON", "VIRTUAL_ENV"}
_HOME = re.compile(r"(?:\$HOME|\$\{HOME\}|~|/home/(?:\$USER|\$\{USER\}|[\w.-]+))/(?P<below>.+)")
_PROGRAMS = re.compile(
    r"(?:^|/)(?:bin|sbin|\.local/bin|\.cargo|\.pyenv|\.conda|(?:mini|ana)conda\d?|miniforge\d?|mambaforge|micromamba|\.?v?env[^/]*)(?:/|$)"
)
_PER_ARCHITECTURE = re.compile(r"aarch64|arm64|uname -m|\$\{?(?:ARCH|MACHINE|ARMSTAGE)\w*", re.IGNORECASE)


def conda_leak(project: Project) -> Iterator[Found]:
    for script in project.scripts:
        for calls, inherits in _jobs(script):
            yield from _leak(script, calls, inherits)


def _leak(script: ShellScript, calls: list[Call], inherits: bool) -> Iterator[Found]:
    """The first leak of a job, from the login node where it ``inherits``, or from a conda of its own."""
    conda: Call | None = None
    conda_is_meant = any("CONDA_PREFIX" in given.value.text for call in calls for given in _environment_of_uv(call))
    for call in calls:
        if _activates_conda(call):
            conda, inherits = call, inherits and call.program in _MODULE  # a module leaves CONDA_PREFIX as it is
        elif _clears(call) or _activates(call):
            conda, inherits = None, False
        elif conda and _deactivates(call, conda):
            conda = None
        elif call.in_container or _cleared(call):
            continue
        elif conda and _beside_conda(call) and not conda_is_meant:
            why = (
                f"It puts a conda environment in front, of which `{_shown(call)}` in line {call.line} is no part: "
                "CONDA_PREFIX and PATH lead it, and what it starts, to conda's Python and libraries"
            )
            yield Found(script.source, conda.line, why, _FIX_OWN, conda.first_line, conda.last_line)
            return
        elif inherits and call.program in _STARTS_PYTHON and _by_name(call):
            yield Found(script.source, call.line, first_line=call.first_line, last_line=call.last_line)
            return


def _jobs(script: ShellScript) -> Iterator[tuple[list[Call], bool]]:
    """The commands of each job, and whether it gets the login node's environment: the script's own, or those that
    it hands to sbatch."""
    if script.is_job:
        yield (
            list(script.calls),
            not any(re.search(r"--export[= ]NONE\b", text) for _line, text in script.directives),
        )
        return
    submitted: dict[Call, list[Call]] = {}
    for call in script.calls:
        for wrapper in call.wrappers:
            if wrapper.program == "sbatch":
                submitted.setdefault(wrapper, []).append(call)
    for wrapper, calls in submitted.items():
        yield calls, not wrapper.has("--export=NONE")


def _clears(call: Call) -> bool:
    """Whether the login node's conda is out of the environment from here on."""
    if call.program == "unset":
        return "CONDA_PREFIX" in call.texts
    if call.program in (".", "source"):
        return any(text.strip("\"'").rsplit("/", 1)[-1] in _HAND_OVER for text in call.texts)
    cleared = [
        assignment
        for assignment in call.assignments
        if assignment.name == "CONDA_PREFIX" and not assignment.value.parts
    ]
    return bool(cleared) and call.program in ("", "export")


def _activates(call: Call) -> bool:
    """Whether the script puts a virtualenv, or a conda environment, of its own in front."""
    return _activates_conda(call) or _sources(call, r".*activate")


def _activates_conda(call: Call) -> bool:
    """`conda activate`, `source activate`, `source /opt/miniconda3/bin/activate`, `module load anaconda3`."""
    if call.program in _CONDA:
        return "activate" in call.texts[:2]  # `conda shell.bash activate x` too
    if call.program in _MODULE:
        loads = call.program == "ml" or call.texts[:1] in (["load"], ["add"])
        return loads and any(_CONDA_MODULE.fullmatch(text) for text in call.texts)
    return _sources(call, r"activate|.*(?:conda|miniforge|mambaforge|micromamba)[^/]*/.*activate")


def _deactivates(call: Call, conda: Call) -> bool:
    if conda.program in _MODULE:
        return call.program in _MODULE and call.texts[:1] in (["purge"], ["unload"], ["rm"], ["reset"])
    return (call.program in _CONDA and "deactivate" in call.texts[:2]) or _sources(call, r".*deactivate")


def _sources(call: Call, path: str) -> bool:
    return call.program in (".", "source") and any(
        re.fullmatch(path, text.replace('"', "").replace("'", "")) for text in call.texts[:1]
    )


def _beside_conda(call: Call) -> bool:
    """Whether it brings another environment than the active conda's: `uv pip` changes that one, and a program found
    on PATH is its own."""
    if any("CONDA_PREFIX" in word.text for word in call.arguments):
        return False
    if call.program in ("uv", "uvx"):
        return call.subcommand().split(" ")[0] != "pip"
    return call.program in _STARTS_PYTHON and call.word is not None and bool(_VIRTUALENV.search(call.word.text))


def _environment_of_uv(call: Call) -> Iterator[Assignment]:
    return (assignment for assignment in call.assignments if assignment.name == "UV_PROJECT_ENVIRONMENT")


def _shown(call: Call) -> str:
    """The command's beginning, for a message."""
    subcommand = call.subcommand().split(" ")[0] if call.program == "uv" else ""
    return " ".join(filter(None, [call.word.text.replace('"', "") if call.word else call.program, subcommand]))


def _by_name(call: Call) -> bool:
    """Whether the program is looked for on PATH."""
    return call.word is not None and "/" not in call.word.text


def _cleared(call: Call) -> bool:
    environments = [wrapper for wrapper in call.wrappers if wrapper.program == "env"]
    return any("-i" in wrapper.texts or "CONDA_PREFIX" in wrapper.texts for wrapper in environments) or any(
        wrapper.program == "srun" and wrapper.has("--export=NONE") for wrapper in call.wrappers
    )


def uv_pip_without_python(project: Project) -> Iterator[Found]:
    for script in project.scripts:
        # A function may be called from anywhere: what is chosen anywhere counts in it.
        anywhere = any(map(_chooses, script.calls))
        chosen = False
        for call in script.calls:
            chosen |= _chooses(call)
            names = {assignment.name for assignment in call.assignments}
            installs = call.program == "uv" and call.subcommand() in ("pip install", "pip sync", "pip uninstall")
            named = call.has(*_TARGETS) or bool(names & _NAMING) or (anywhere if call.seen.function else chosen)
            if installs and not named:
                yield Found(
                    script.source,
                    call.line,
                    f"`uv {call.subcommand()}` takes the environment of VIRTUAL_ENV or CONDA_PREFIX, or `.venv`, and "
                    "does not read UV_PROJECT_ENVIRONMENT: where both architectures share the folder, that is the "
                    "login node's",
                    first_line=call.first_line,
                    last_line=call.last_line,
                )


def _chooses(call: Call) -> bool:
    """Whether the script settles, from here on, which environment `uv pip` changes."""
    assigned = {assignment.name for assignment in call.assignments} if call.program in ("", "export") else set()
    return _activates(call) or bool(assigned & _NAMING)


def uv_run_undoes_override(project: Project) -> Iterator[Found]:
    overriding = [script for script in project.scripts if any(map(_overrides, script.calls))]
    for script in project.scripts if overriding else ():
        before: list[Call] = []
        no_sync = False
        for call in script.calls:
            if call.program in ("", "export"):
                no_sync |= any(assignment.name == "UV_NO_SYNC" for assignment in call.assignments)
            earlier = any(other.seen.function == call.seen.function for other in before)
            elsewhere = script not in overriding or bool(call.seen.function)
            if not no_sync and (earlier or elsewhere) and _syncs(call, after_override=earlier):
                yield Found(
                    script.source,
                    call.line,
                    f"`uv {call.subcommand().split(' ')[0]}` puts the lock's torch back in place of the one that "
                    f"`uv pip install` in {(script if earlier else overriding[0]).source.path} put there",
                    first_line=call.first_line,
                    last_line=call.last_line,
                )
            if _overrides(call):
                before.append(call)


def _overrides(call: Call) -> bool:
    """Whether it puts another torch into an environment than the lock's."""
    if call.program != "uv" or call.subcommand() != "pip install":
        return False
    packages = {
        normalize(re.split(r"[=<>!~\[;@ ]", text)[0]) for text in call.texts[2:] if not text.startswith("-") and text
    }
    backend = call.has("--torch-backend") or any(
        assignment.name == "UV_TORCH_BACKEND" for assignment in call.assignments
    )
    return bool(packages & set(FAMILY)) or backend or any(index_tag(text) for text in call.texts)


def _syncs(call: Call, after_override: bool) -> bool:
    if call.program != "uv" or any(assignment.name == "UV_NO_SYNC" for assignment in call.assignments):
        return False
    subcommand = call.subcommand().split(" ")[0]
    if subcommand == "run":
        return not call.has("--no-sync", "--no-project", "--isolated", "--script")
    return subcommand == "sync" and after_override


def x86_path_from_home(project: Project) -> Iterator[Found]:
    for script in project.scripts:
        if not script.is_job:
            continue
        reported = set()
        for call in script.calls:
            for line, path in _paths(call):
                match = _HOME.fullmatch(path)
                if (
                    match
                    and _PROGRAMS.search(match["below"])
                    and not _PER_ARCHITECTURE.search(path)
                    and line not in reported
                ):
                    reported.add(line)
                    yield Found(
                        script.source,
                        line,
                        why=f"`{path}` is the login node's: its programs are x86_64 and end with `Exec "
                        "format error` on an aarch64 node",
                        first_line=call.first_line,
                        last_line=call.last_line,
                    )


def _paths(call: Call) -> Iterator[tuple[int, str]]:
    """Line and text of each path that a program, or a folder of programs, is taken from."""
    if call.in_container:
        return
    if call.word is not None and "/" in call.word.text:
        yield call.word.line, call.word.text.replace('"', "")
    if call.program in (".", "source"):
        yield from ((word.line, word.text.replace('"', "")) for word in call.arguments[:1])
    for assignment in call.assignments:
        if assignment.name in ("PATH", "UV", "PYTHON", "UV_PYTHON", "VENV", "CONDA_EXE"):
            for element in assignment.value.text.replace('"', "").split(":"):
                yield assignment.line, element


RULES = (
    Rule(
        "conda-leak",
        "A job runs uv or Python with a conda or virtualenv in the environment that is not theirs",
        WARNING,
        "sbatch carries the login node's environment over: CONDA_PREFIX or VIRTUAL_ENV leads uv and python "
        "on an aarch64 node to an x86_64 "
        "interpreter (`Exec format error`); a conda that the job activates leads uv away from its own",
        "Begin the job with `. ROOT/sbatch-prologue.sh`, or with `unset CONDA_PREFIX CONDA_DEFAULT_ENV "
        "CONDA_EXE VIRTUAL_ENV PYTHONHOME PYTHONPATH`",
        bad={"train.sbatch": "#!/bin/bash\n#SBATCH --gres=gpu:1\nuv run --no-sync python train.py\n"},
        good={
            "train.sbatch": "#!/bin/bash\n#SBATCH --gres=gpu:1\nunset CONDA_PREFIX VIRTUAL_ENV\nuv run "
            "--no-sync python train.py\n"
        },
        check=conda_leak,
    ),
    Rule(
        "uv-pip-without-python",
        "uv pip changes an environment that is not named",
        WARNING,
        "`uv pip install` does not read UV_PROJECT_ENVIRONMENT: it takes VIRTUAL_ENV, CONDA_PREFIX or "
        "`.venv`, which is the login node's",
        "Name the environment: `uv pip install --python .venv-aarch64/bin/python ...`",
        bad={"setup.sh": "uv pip install torch==2.11.0\n"},
        good={"setup.sh": "uv pip install --python .venv-aarch64/bin/python torch==2.11.0\n"},
        check=uv_pip_without_python,
    ),
    Rule(
        "uv-run-undoes-override",
        "uv run or uv sync undoes an override of torch",
        ERROR,
        "`uv run` syncs the environment with the lock first: the torch that was put there after the sync is "
        "replaced by the lock's",
        "`uv run --no-sync ...`, or `export UV_NO_SYNC=1` once",
        bad={
            "job.sh": "uv sync --locked\nuv pip install --python .venv/bin/python torch==2.11.0\nuv run "
            "python train.py\n"
        },
        good={
            "job.sh": "uv sync --locked\nuv pip install --python .venv/bin/python torch==2.11.0\nuv run "
            "--no-sync python train.py\n"
        },
        check=uv_run_undoes_override,
    ),
    Rule(
        "x86-path-from-home",
        "A job takes programs from the home folder, which the x86_64 login node shares",
        WARNING,
        "The home folder is the same on both architectures, and what is installed in it is for the login node's",
        "Take programs from a folder per architecture: source `ROOT/env.sh`, or use `ROOT/bin/uv-aarch64`",
        bad={"train.sbatch": '#!/bin/bash\n#SBATCH -N 1\nunset CONDA_PREFIX\nexport PATH="$HOME/.local/bin:$PATH"\n'},
        good={"train.sbatch": "#!/bin/bash\n#SBATCH -N 1\n. /work/$USER/.local/env.sh\n"},
        check=x86_path_from_home,
    ),
)
