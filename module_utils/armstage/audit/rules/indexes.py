"""Rules on where torch comes from: indexes that are written down, and the sources bound to them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..declarations import Index
from ..facts import CPU, Objection, index_tag
from ..model import ERROR, WARNING, Found, Project, Rule
from ..pep508 import AARCH64
from ..scripts import Call

_URL = re.compile(r"https?://[^\s\"'`|;]+/whl/[^\s\"'`|;]+")
_TELLING = ("echo", "printf", "log", "die", "info", "warn")
_BACKEND = "--torch-backend"
_SYNCING = ("sync", "run", "lock", "add", "remove", "export")


def index_fixed(project: Project) -> Iterator[Found]:
    for index in project.declared.indexes:
        if index.tag and not index.call and _reaches_aarch64(project, index):
            objection = project.facts.objection(index.tag, project.declared.bounds_in(index.source))
            if objection:
                yield Found(index.source, index.line, _because(index.tag, objection), level=_level(objection))
    for script in project.scripts:
        for call in script.calls:
            for line, tag in _tags_in(call):
                objection = project.facts.objection(tag)
                if objection and not (tag == CPU and call.seen.conditional):  # a branch for hosts without a GPU
                    yield Found(
                        script.source,
                        line,
                        _because(tag, objection),
                        first_line=call.first_line,
                        last_line=call.last_line,
                        level=_level(objection),
                    )


def _because(tag: str, objection: Objection) -> str:
    return f"{tag} does not serve the aarch64 nodes: {objection.reason}"


def _level(objection: Objection) -> str:
    return ERROR if objection.certain else WARNING


def _reaches_aarch64(project: Project, index: Index) -> bool:
    """Whether anything on aarch64 may come from it."""
    for binding in project.declared.bindings:
        if binding.chosen and index.tag == CPU:
            continue  # an extra for hosts without a GPU
        if binding.source is index.source and index.name and binding.index == index.name and binding.on_aarch64:
            wanted = [declared.requirement for declared in project.declared.of(binding.package)]
            if not wanted or any(requirement.applies_to(AARCH64) for requirement in wanted):
                return True
    return not index.explicit


def _tags_in(call: Call) -> Iterator[tuple[int, str]]:
    """Line and tag of each PyTorch index that a command, or an assignment, names."""
    words = [*call.arguments, *(assignment.value for assignment in call.assignments)]
    for word in words if call.program not in _TELLING else []:
        for url in _URL.findall(word.text):
            tag = index_tag(url)
            if tag:
                yield word.line, tag
    if call.program == "uv":
        backend = call.value(_BACKEND)
        if backend and re.fullmatch(r"cu\d+|cpu", backend[1]):
            yield backend
    for assignment in call.assignments:
        if assignment.name == "UV_TORCH_BACKEND" and re.fullmatch(r"cu\d+|cpu", assignment.value.literal or ""):
            yield assignment.line, assignment.value.literal or ""


def source_without_marker(project: Project) -> Iterator[Found]:
    named = {(index.source, index.name): index for index in project.declared.indexes if index.name}
    backend = _backend_user(project)
    for binding in project.declared.bindings:
        index = named.get((binding.source, binding.index))
        if binding.marker is not None or index is None or not index.tag or (binding.chosen and index.tag == CPU):
            continue
        objection = project.facts.objection(index.tag, project.declared.bounds_in(binding.source))
        if objection:
            wins = f"; it also wins over the torch backend that {backend} asks for" if backend else ""
            why = f"{binding.package} comes from {index.tag} on aarch64 too: {objection.reason}{wins}"
            yield Found(binding.source, binding.line, why, level=_level(objection))


def _backend_user(project: Project) -> str:
    for script in project.scripts:
        for call in script.calls:
            if call.has(_BACKEND) or any(assignment.name == "UV_TORCH_BACKEND" for assignment in call.assignments):
                return script.source.path
    return ""


def uv_sync_torch_backend(project: Project) -> Iterator[Found]:
    for script in project.scripts:
        for call in script.calls:
            subcommand = call.subcommand().split(" ")[0] if call.program == "uv" else ""
            own = (
                call.texts[: call.texts.index(_command_of_run(call))]
                if subcommand == "run" and _command_of_run(call)
                else call.texts
            )
            option = next((text for text in own if text.split("=")[0] == _BACKEND), None)
            if subcommand in _SYNCING and option:
                line = call.arguments[call.texts.index(option)].line
                yield Found(
                    script.source,
                    line,
                    why=f"`uv {subcommand}` has no option `{_BACKEND}`: it ends with a usage error",
                    first_line=call.first_line,
                    last_line=call.last_line,
                )


def _command_of_run(call: Call) -> str:
    """The first word after `uv run` that is no option: the command it runs, as far as that can be told."""
    return next((text for text in call.texts[1:] if not text.startswith("-") and "=" not in text), "")


def torch_backend_ignored(project: Project) -> Iterator[Found]:
    for script in project.scripts:
        calls = [call for call in script.calls if call.program == "uv"]
        syncing = [call for call in calls if call.subcommand().split(" ")[0] in _SYNCING]
        installing = any(call.subcommand().startswith(("pip ", "tool ")) for call in calls)
        for assignment, only_for in script.assignments():
            if assignment.name != "UV_TORCH_BACKEND":
                continue
            if (only_for is None and syncing and not installing) or only_for in syncing:
                yield Found(
                    script.source,
                    assignment.line,
                    first_line=assignment.line,
                    last_line=only_for.last_line if only_for else 0,
                )
    for source in project.of("pyproject"):
        for table in (source.document.table("tool", "uv"), source.document.table("tool", "uv", "pip")):
            if "torch-backend" in table and any(
                lock.source.path.rpartition("/")[0] == source.path.rpartition("/")[0] for lock in project.locks
            ):
                yield Found(source, table.lines["torch-backend"])


RULES = (
    Rule(
        "index-fixed",
        "A PyTorch index is written down that does not serve the aarch64 nodes",
        WARNING,
        "The index is fixed, but which one an aarch64 node needs depends on its driver",
        "Bind aarch64 to the index that `./armstage project fix` chooses for the node, and mark this one for x86_64",
        bad={"requirements.txt": "--extra-index-url https://download.pytorch.org/whl/cu128\ntorch==2.11.0\n"},
        good={"requirements.txt": "--extra-index-url https://download.pytorch.org/whl/cu130\ntorch==2.11.0\n"},
        check=index_fixed,
        mended=True,
        cuda="13.0",
    ),
    Rule(
        "source-without-marker",
        "A source binds torch to an x86_64 index on every platform",
        ERROR,
        "The entry of [tool.uv.sources] has no marker, so aarch64 gets the same index; and it wins over "
        "--torch-backend",
        "Give the entry `marker = \"platform_machine != 'aarch64'\"` and add one for aarch64 with its own index",
        bad={
            "pyproject.toml": '[project]\ndependencies = ["torch>=2.11"]\n\n[tool.uv.sources]\ntorch = { '
            'index = "pytorch-cu126" }\n\n'
            '[[tool.uv.index]]\nname = "pytorch-cu126"\nurl = "https://download.pytorch.org/whl/cu126"\n'
            "explicit = true\n"
        },
        good={
            "pyproject.toml": '[project]\ndependencies = ["torch>=2.11"]\n\n[tool.uv.sources]\n'
            'torch = { index = "pytorch-cu126", marker = "platform_machine == \'x86_64\'" }\n\n'
            '[[tool.uv.index]]\nname = "pytorch-cu126"\nurl = "https://download.pytorch.org/whl/cu126"\n'
            "explicit = true\n"
        },
        check=source_without_marker,
        mended=True,
    ),
    Rule(
        "uv-sync-torch-backend",
        "--torch-backend is given to a uv command that has no such option",
        ERROR,
        "Only `uv pip` and `uv tool install` know --torch-backend; `uv sync`, `run`, `lock` and `add` end "
        "with a usage error",
        "Bind the index in [tool.uv.sources], or override after the sync: `uv pip install --python "
        ".venv-aarch64/bin/python --index ... torch`",
        bad={"setup.sh": "uv sync --torch-backend=auto\n"},
        good={"setup.sh": "uv sync --locked\n"},
        check=uv_sync_torch_backend,
    ),
    Rule(
        "torch-backend-ignored",
        "UV_TORCH_BACKEND is set for a command that does not read it",
        WARNING,
        "`uv sync`, `run` and `lock` take torch from the lock: the backend changes nothing, and a CPU torch stays one",
        "Bind the index in [tool.uv.sources] and lock again, or override after the sync with `uv pip "
        "install --python ...`",
        bad={"setup.sh": "UV_TORCH_BACKEND=auto uv sync\n"},
        good={"setup.sh": "UV_TORCH_BACKEND=auto uv pip install --python .venv-aarch64/bin/python torch\n"},
        check=torch_backend_ignored,
    ),
)
