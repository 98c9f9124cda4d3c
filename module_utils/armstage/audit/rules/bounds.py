"""Rules on requirements: markers and bounds that leave aarch64 without a wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..declarations import BUILD, INSTALL, PROJECT, Declared, is_below
from ..facts import CPU, FAMILY
from ..locks import Lock
from ..model import ERROR, WARNING, Found, Project, Rule
from ..pep440 import Specifier
from ..pep508 import AARCH64
from ..source import Source

_FLASH_ATTENTION = ("flash-attn", "flash-attn-3", "flash-attn-cute")


def marker_excludes_aarch64(project: Project) -> Iterator[Found]:
    for declared in project.declared.of(*FAMILY):
        if declared.purpose == BUILD or not declared.requirement.excludes_aarch64:
            continue
        same = (other for other in project.declared.of(declared.requirement.name) if other.source is declared.source)
        if not any(other.group == declared.group and other.requirement.applies_to(AARCH64) for other in same):
            name = declared.requirement.name
            minimum = project.facts.builds(name)[-1]
            yield found_in(
                declared,
                f"On aarch64 the marker leaves {name} out; aarch64 wheels with CUDA exist from {minimum} on",
                f"Keep the marked line for the others and add one: `{name}>={minimum}; platform_machine == 'aarch64'`",
            )


def torchcodec_floor(project: Project) -> Iterator[Found]:
    facts, minimum = project.facts, project.facts.minimum("torchcodec")
    for declared in _on_aarch64(project, "torchcodec"):
        specifier = declared.requirement.specifier
        if _admits_only_denied(project, specifier):
            continue
        if not facts.admitted(facts.builds("torchcodec"), specifier) and not facts.may_come(
            "torchcodec", specifier, facts.indexes
        ):
            why = f"No version that `{specifier}` admits has an aarch64 wheel: they begin at {minimum}"
            yield found_in(declared, why)
        elif declared.purpose == PROJECT and _older_admitted(project, declared, minimum):
            yield found_in(declared)


def torchcodec_stub(project: Project) -> Iterator[Found]:
    for declared in _on_aarch64(project, "torchcodec"):
        if _admits_only_denied(project, declared.requirement.specifier):
            yield found_in(declared)
    for lock in project.locks:
        package = lock.package("torchcodec")
        if package and project.facts.denied("torchcodec", package.version):
            yield Found(lock.source, package.line)


def torch_bounds(project: Project) -> Iterator[Found]:
    facts = project.facts
    for declared in _on_aarch64(project, *FAMILY):
        name, specifier = declared.requirement.name, declared.requirement.specifier
        index = project.declared.index_for(declared)
        named = [index.tag] if index and index.tag in facts.indexes else []
        if name == "torchcodec" and not named:
            continue  # torchcodec-floor says it
        tags = named or facts.served()
        if (
            specifier.clauses
            and not facts.admitted(facts.builds(name, tags), specifier)
            and not facts.may_come(name, specifier, tags)
        ):
            begin = facts.first_cuda_on_pypi() if name == "torch" else facts.builds(name)[-1]
            yield found_in(
                declared,
                _unmet(project, name, specifier, tags, bool(named)),
                f"Widen the bound for aarch64 only: add `{name}>={begin}; platform_machine == 'aarch64'`; give this "
                "line the opposite marker",
            )


def _unmet(project: Project, name: str, specifier: Specifier, tags: list[str], named: bool) -> str:
    facts = project.facts
    held = facts.builds(name, tags)
    if named:
        where = f"{tags[0]}, the index it comes from,"
    elif facts.driver_cuda:
        where = f"an index for the node's driver (CUDA {facts.driver_cuda})"
    else:
        where = "any PyTorch index"
    if not held:
        return f"No CUDA build of {name} for aarch64 is in {where.rstrip(',')}"
    return f"No CUDA build for aarch64 in {where} meets `{name}{specifier}`: there are {held[-1]} to {held[0]}"


def torch_build(project: Project) -> Iterator[Found]:
    for declared in _on_aarch64(project, *FAMILY, "torchaudio"):
        tag, name = pinned_build(declared), declared.requirement.name
        if not tag or (tag == CPU and _one_of_several(project, declared)):
            continue
        public = declared.requirement.specifier.public()
        if name in FAMILY and not project.facts.admitted(project.facts.builds(name), public):
            continue  # torch-bounds or torchcodec-floor says it
        objection = project.facts.objection(tag, public)
        if objection:
            why = f"The build it is pinned to is that of the index {tag}: {objection.reason}"
            # `project fix` fits torchaudio to nothing
            fix = "Pin the version without that part, the one of its torch" if name not in FAMILY else ""
            yield found_in(declared, why, fix, level=ERROR if objection.certain else WARNING)


def _one_of_several(project: Project, declared: Declared) -> bool:
    """Whether this CPU build is for hosts without a GPU: in a file of that name, or beside another build."""
    others = (other for other in project.declared.of(declared.requirement.name) if other.source is declared.source)
    return CPU in declared.source.path.rsplit("/", 1)[-1] or any(pinned_build(other) != CPU for other in others)


def pinned_build(declared: Declared) -> str:
    """`cpu` of `torch==2.11.0+cpu`, `cu130` of `==2.11.0+cu130`; empty where no build of PyTorch's is pinned."""
    exact = (version for operator, version in declared.requirement.specifier.clauses if operator in ("==", "==="))
    local = next((version.partition("+")[2].lower() for version in exact if "+" in version), "")
    return local if local == CPU or re.fullmatch(r"cu\d+", local) else ""


def torch_without_index(project: Project) -> Iterator[Found]:
    served_by_scripts = _installed_with_index(project)
    reported = set()
    for declared in _on_aarch64(project, "torch"):
        source = declared.source
        if declared.purpose not in (PROJECT, INSTALL) or (source in reported and not declared.call):
            continue
        reported.add(source)
        if pinned_build(declared) or project.declared.index_for(declared) or _bound_elsewhere(project, source):
            continue
        if source.path.rsplit("/", 1)[-1] in served_by_scripts or _locked(project, source, "torch"):
            continue
        why = _from_pypi(project, project.declared.bounds(declared), newest_only=declared.purpose == INSTALL)
        if why:
            yield found_in(declared, why)


def found_in(declared: Declared, why: str = "", fix: str = "", level: str = "") -> Found:
    call = declared.call
    return Found(
        declared.source,
        declared.line,
        why,
        fix,
        first_line=call.first_line if call else 0,
        last_line=call.last_line if call else 0,
        level=level,
    )


def _bound_elsewhere(project: Project, source: Source) -> bool:
    """Whether aarch64 gets torch from a URL, a path or git."""
    return any(binding.on_aarch64 and not binding.index for binding in project.declared.bound("torch", source))


def _from_pypi(project: Project, specifier: Specifier, newest_only: bool) -> str:
    """What is wrong with PyPI's aarch64 wheels of the versions admitted, or of the newest; empty where nothing is."""
    facts = project.facts
    admitted = facts.admitted(facts.known("torch"), specifier)[: 1 if newest_only else None]
    cpu = [version for version in admitted if facts.pypi_tag("torch", version) == CPU]
    if cpu and len(cpu) == len(admitted):
        return f"It comes from PyPI, whose aarch64 wheel of torch {cpu[0]} is a CPU build"
    if cpu:
        return (
            f"It comes from PyPI, whose aarch64 wheels up to torch {cpu[0]} are CPU builds, and those are admitted too"
        )
    newest = facts.pypi_tag("torch", admitted[0]) if admitted else None
    if newest and facts.driver_cuda and newest not in facts.served():
        return (
            f"It comes from PyPI, whose torch {admitted[0]} is built for {newest}; the node's driver "
            f"runs CUDA {facts.driver_cuda}"
        )
    return ""


def _installed_with_index(project: Project) -> set[str]:
    """Names of the files that a script installs from a PyTorch index."""
    return {
        text.rsplit("/", 1)[-1]
        for script in project.scripts
        for call in script.calls
        if "install" in call.texts and any("/whl/" in text for text in call.texts)
        for text in call.texts
    }


def flash_attention_build(project: Project) -> Iterator[Found]:
    for declared in _on_aarch64(project, *_FLASH_ATTENTION):
        bindings = project.declared.bound(declared.requirement.name, declared.source)
        if declared.purpose in (PROJECT, INSTALL) and not any(binding.on_aarch64 for binding in bindings):
            yield found_in(declared)


def x86_wheel_url(project: Project) -> Iterator[Found]:
    for declared in project.declared.requirements:
        if _is_x86_wheel(declared.requirement.url) and declared.requirement.applies_to(AARCH64):
            yield found_in(declared)
    for binding in project.declared.bindings:
        if _is_x86_wheel(binding.url) and binding.on_aarch64:
            yield Found(binding.source, binding.line)
    for script in project.scripts:
        for call in script.calls:
            if "install" in call.texts or "add" in call.texts[:1]:
                for word in call.arguments:
                    if _is_x86_wheel(word.text.strip("\"'")):
                        yield Found(script.source, word.line, first_line=call.first_line, last_line=call.last_line)


def _is_x86_wheel(url: str) -> bool:
    name = url.split("#")[0].split("?")[0].lower()
    return (
        name.endswith((".whl", ".whl.metadata"))
        and ("x86_64" in name or "amd64" in name)
        and "aarch64" not in name
        and "win_" not in name
    )


def environments_exclude_aarch64(project: Project) -> Iterator[Found]:
    from ..locks import applies

    for source in project.of("pyproject"):
        markers = source.document.items_of("tool", "uv", "environments")
        if markers and not any(applies(marker) for marker in markers):
            yield Found(source, markers.lines[0])


def _on_aarch64(project: Project, *packages: str) -> Iterator[Declared]:
    return (
        declared
        for declared in project.declared.of(*packages)
        if declared.purpose != BUILD and declared.requirement.applies_to(AARCH64) and not declared.requirement.url
    )


def _admits_only_denied(project: Project, specifier: Specifier) -> bool:
    exact = [
        version for operator, version in specifier.clauses if operator in ("==", "===") and not version.endswith(".*")
    ]
    return bool(exact) and bool(project.facts.denied("torchcodec", exact[0]))


def _older_admitted(project: Project, declared: Declared, minimum: str) -> bool:
    """Whether nothing, the lock included, keeps a minor version before the first that serves aarch64 out."""
    specifier = project.declared.bounds(declared)
    major, minor = (int(number) for number in minimum.split(".")[:2])
    older = (f"{major}.{number}.0" for number in range(minor))
    return any(map(specifier.admits, older)) and not _locked(project, declared.source, "torchcodec")


def _locked(project: Project, source: Source, package: str) -> bool:
    """Whether the lock of this project, or of its workspace, brings a CUDA build of the package to aarch64."""
    locks = (lock for lock in project.locks if source.kind == "pyproject" and is_below(source, lock.source))
    return any(serves_aarch64(project, lock, package) for lock in locks)


def serves_aarch64(project: Project, lock: Lock, name: str) -> bool:
    package = lock.package(name)
    if package is None or not package.aarch64_wheels():
        return False
    tag = package.tag or project.facts.pypi_tag(name, package.version)
    return tag not in (None, CPU)


RULES = (
    Rule(
        "marker-excludes-aarch64",
        "A marker leaves torch, torchvision or torchcodec out on aarch64",
        ERROR,
        "On aarch64 the package is not installed at all, though aarch64 wheels exist",
        "Keep the marked line for the others and add one for aarch64: `torchcodec>=0.11; platform_machine "
        "== 'aarch64'`",
        bad={
            "pyproject.toml": "[project]\ndependencies = [\n  \"torchcodec<0.11; platform_machine != 'aarch64'\",\n]\n"
        },
        good={
            "pyproject.toml": "[project]\ndependencies = [\n  \"torchcodec<0.11; platform_machine != 'aarch64'\",\n"
            "  \"torchcodec>=0.11; platform_machine == 'aarch64'\",\n]\n"
        },
        check=marker_excludes_aarch64,
        mended=True,
    ),
    Rule(
        "torchcodec-floor",
        "The bounds of torchcodec admit versions without an aarch64 wheel",
        ERROR,
        "Before 0.11.0 there is no aarch64 wheel; a resolver that can't take a newer one ends at the empty 0.0.0",
        "Ask for at least the first version with an aarch64 wheel: `torchcodec>=0.11`; for aarch64 only, if "
        "x86_64 must keep an older one",
        bad={"requirements.txt": "torch==2.11.0\ntorchcodec>=0.5\n"},
        good={"requirements.txt": "torch==2.11.0\ntorchcodec>=0.11\n"},
        check=torchcodec_floor,
        mended=True,
    ),
    Rule(
        "torchcodec-stub",
        "torchcodec is pinned to its empty placeholder",
        ERROR,
        "Version 0.0.0 holds no code: `import torchcodec` succeeds or fails later, and nothing decodes",
        "Ask for `torchcodec>=0.11` and lock again",
        bad={"requirements.txt": "torchcodec==0.0.0.dev0\n"},
        good={"requirements.txt": "torchcodec==0.11.1\n"},
        check=torchcodec_stub,
        mended=True,
    ),
    Rule(
        "torch-build",
        "torch is pinned to a build that does not serve the aarch64 nodes",
        ERROR,
        "The part behind the plus says what a wheel was built for: with `+cpu`, torch.version.cuda is None on the "
        "node; of others there is no aarch64 wheel",
        "Pin the version without that part, and bind torch to an index for the node's driver: `./armstage project fix "
        "PATH --lock own` does both",
        bad={"requirements.txt": "torch==2.11.0+cpu\n"},
        good={"requirements.txt": "--index-url https://download.pytorch.org/whl/cu130\ntorch==2.11.0+cu130\n"},
        check=torch_build,
        mended=True,
    ),
    Rule(
        "torch-bounds",
        "The bounds of torch or torchvision admit no CUDA build for aarch64",
        ERROR,
        "No index holds a CUDA build for aarch64 that meets them",
        "Widen the bound for aarch64 only: `torch>=2.11,<2.12; platform_machine == 'aarch64'` beside the "
        "old line with the opposite marker",
        bad={"requirements.txt": "torch==2.4.1\n"},
        good={
            "requirements.txt": "torch==2.4.1; platform_machine != 'aarch64'\ntorch==2.11.0; "
            "platform_machine == 'aarch64'\n"
        },
        check=torch_bounds,
        mended=True,
    ),
    Rule(
        "torch-without-index",
        "torch comes from PyPI, and not every version admitted is a CUDA build there",
        WARNING,
        "Without an index or a source torch comes from PyPI, whose older aarch64 wheels are CPU builds",
        "Bind torch to the index for the node's driver on aarch64, or ask for a version that PyPI builds "
        "with CUDA: `torch>=2.11`",
        bad={"pyproject.toml": '[project]\ndependencies = [\n  "torch>=2.4",\n]\n'},
        good={"pyproject.toml": '[project]\ndependencies = [\n  "torch>=2.11",\n]\n'},
        check=torch_without_index,
        mended=True,
    ),
    Rule(
        "flash-attn-build",
        "flash-attn has no aarch64 wheel of its own and is built from source",
        WARNING,
        "PyPI has only its source: on aarch64 it needs nvcc, torch at build time and an hour or more, and "
        "an x86_64 login node can't build it at all",
        "Leave it out on aarch64 and use torch's scaled_dot_product_attention, or name a wheel built for "
        "this very torch, CUDA and Python",
        bad={"requirements.txt": "torch==2.11.0\nflash-attn==2.8.3\n"},
        good={"requirements.txt": "torch==2.11.0\nflash-attn==2.8.3; platform_machine == 'x86_64'\n"},
        check=flash_attention_build,
    ),
    Rule(
        "x86-wheel-url",
        "A requirement names an x86_64 wheel by its URL",
        ERROR,
        "That file can't be installed on aarch64",
        "Mark it `; platform_machine == 'x86_64'` and name the aarch64 wheel, or the version, for aarch64",
        bad={"requirements.txt": "xformers @ https://example.org/xformers-0.0.30-cp312-cp312-linux_x86_64.whl\n"},
        good={
            "requirements.txt": "xformers @ https://example.org/xformers-0.0.30-cp312-cp312-linux_x86_64.whl "
            "; platform_machine == 'x86_64'\n"
        },
        check=x86_wheel_url,
    ),
    Rule(
        "environments-exclude-aarch64",
        "The lock is made for environments that do not include aarch64 Linux",
        ERROR,
        "uv resolves for the environments listed only: `uv sync` on an aarch64 node refuses the lock",
        "Add `\"sys_platform == 'linux' and platform_machine == 'aarch64'\"` to the list and lock again",
        bad={
            "pyproject.toml": "[tool.uv]\nenvironments = [\"sys_platform == 'linux' and platform_machine == "
            "'x86_64'\"]\n"
        },
        good={"pyproject.toml": "[tool.uv]\nenvironments = [\"sys_platform == 'linux'\"]\n"},
        check=environments_exclude_aarch64,
        mended=True,
    ),
)
