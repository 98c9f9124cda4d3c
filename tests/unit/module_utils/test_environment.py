"""What is asked of an environment, which build is right, what has to change: without uv and without a root."""

from pathlib import Path

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.staging.assemble import build_of, check_builds, compiler, cuda_major
from ansible.module_utils.armstage.staging.environment import Desired, Source, from_options
from ansible.module_utils.armstage.staging.provision import Observed, differences, make_plan, unused
from ansible.module_utils.armstage.staging.record import Release
from ansible.module_utils.armstage.staging.venv import Interpreter

OPTIONS = {
    "dest": "/work/tools",
    "tag": "cu130",
    "state": "present",
    "requirements": ["torch==2.11.0", "numpy"],
    "constraints": None,
    "lock": None,
    "index_url": None,
    "sources": None,
    "unreachable": None,
    "mirror": None,
    "find_links": None,
    "offline": False,
    "python": "/work/tools/python/cpython-3.12.12-linux-aarch64-gnu/bin/python3.12",
    "python_version": None,
    "python_platform": "aarch64-manylinux_2_28",
    "elf_machine": "aarch64",
    "uv": "uv",
    "cache_dir": None,
    "compile_python": "none",
    "keep": 1,
    "timeout": 3600,
    "expected_size": None,
    "run_id": None,
}
LOCK = f"torch==2.12.1 --hash=sha256:{'a' * 64}\nnumpy==2.5.5 --hash=sha256:{'b' * 64}\n"


def desired(**options):
    return from_options({**OPTIONS, **options})


def identity(**options):
    wanted = desired(**options)
    return wanted.identity(wanted.sources[0])


@pytest.mark.parametrize(
    "options",
    [
        {"tag": "cu128"},
        {"requirements": ["torch==2.11.1", "numpy"]},
        {"requirements": ["torch==2.11.0"]},
        {"constraints": "numpy==2.5.5\n"},
        {"lock": LOCK},
        {"index_url": "https://index.test/whl/cu130"},
        {"python": "/usr/bin/python3.12"},
        {"python": "/usr/bin/python3.13"},
        {"python_platform": "aarch64-manylinux_2_31"},
        {"elf_machine": "x86_64"},
        {"compile_python": "auto"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_another_input_makes_another_environment(options):
    assert identity(**options) != identity()


@pytest.mark.parametrize(
    "options",
    [
        {"requirements": ["numpy", "torch==2.11.0"]},
        {"requirements": ["torch==2.11.0 ", " numpy"]},
        {"mirror": "/srv/wheels"},
        {"find_links": ["/srv/wheels"]},
        {"offline": True},
        {"uv": "/opt/uv"},
        {"cache_dir": "/scratch/uv"},
        {"keep": 3},
        {"timeout": 5},
        {"dest": "/elsewhere"},
        {"run_id": "42"},
        {"unreachable": {"https://index.test": "down"}},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_does_not_change_the_outcome_makes_the_same_environment(options):
    assert identity(**options) == identity()


def test_a_password_is_no_part_of_what_an_environment_is_made_from():
    assert identity(index_url="https://u:one@index.test") == identity(index_url="https://u:two@index.test")


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ({}, "2.11.0"),
        ({"requirements": ["torch>=2.11", "numpy"]}, "py3.12"),
        ({"requirements": ["torch>=2.11"], "lock": LOCK}, "2.12.1"),
        ({"requirements": None, "lock": LOCK}, "2.12.1"),
    ],
)
def test_the_version_of_an_environment_is_that_of_torch(options, version):
    wanted = desired(**options)
    assert wanted.version(wanted.sources[0]) == version
    assert (wanted.name, wanted.link) == ("env-cu130", "envs/cu130")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tag": "../cu130"}, "Expected letters, digits, `.`, `_` and `-` in `tag`, but received: `../cu130`"),
        ({"tag": ""}, "Expected letters, digits, `.`, `_` and `-` in `tag`, but received: ``"),
        ({"requirements": []}, "Expected `requirements` or a `lock`, but received neither"),
        ({"python": None}, "`python` is missing"),
        ({"lock": "/no/such/lock.txt"}, "No file `/no/such/lock.txt`, which `lock` names"),
        ({"constraints": "/no/such.txt"}, "No file `/no/such.txt`, which `constraints` names"),
        *(
            ({"requirements": [text]}, f"Expected a requirement such as torch==2.11.0, but received: `{text}`")
            for text in (
                "-r requirements.txt",
                "--index-url https://index.test",
                "-e .",
                "./torch",
                "/srv/torch.whl",
                "https://files.test/torch.whl",
                "torch @ https://files.test/torch.whl",
                "torch=2.11.0",
                "torch 2.11.0",
                "torch==2.11.0 --hash=sha256:" + "a" * 64,
                "",
            )
        ),
    ],
)
def test_an_option_that_can_not_be_meant_is_refused(options, words):
    with pytest.raises(ArmstageError) as failure:
        desired(**options)
    assert failure.value.message == words
    assert failure.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "torch",
        "torch==2.11.0",
        "nvidia-npp>=13.0,<13.1",
        "a~=1.0",
        "a!=1",
        "jinja2[i18n]>=3; python_version > '3'",
        "a (>=1)",
    ],
)
def test_requirements_of_every_form_are_taken(text):
    assert desired(requirements=[text]).requirements == (text,)


def test_a_lock_is_given_as_text_or_as_a_file(tmp_path):
    (tmp_path / "lock.txt").write_text(LOCK)
    assert identity(lock=str(tmp_path / "lock.txt")) == identity(lock=LOCK)


def test_nothing_but_the_root_and_the_tag_is_needed_to_remove_an_environment():
    wanted = desired(state="absent", python=None, requirements=None)
    assert (wanted.present, wanted.link) == (False, "envs/cu130")


SOURCES = [
    {"kind": "mirror", "index_url": "https://mirror.test/whl/cu130"},
    {
        "kind": "upstream",
        "index_url": "https://index.test/whl/cu130",
        "reachable": False,
        "reason": "no answer within 5 s",
    },
    {"kind": "pypi", "lock": LOCK},
]


def test_sources_keep_their_order_and_the_reason_why_one_can_not_be_used():
    wanted = desired(
        requirements=None,
        sources=SOURCES,
        lock=LOCK,
        unreachable={"https://mirror.test/whl/cu130": "connection refused"},
    )
    assert [(source.kind, source.unusable) for source in wanted.sources] == [
        ("mirror", "connection refused"),
        ("upstream", "no answer within 5 s"),
        ("pypi", ""),
    ]


@pytest.mark.parametrize("options", [{"mirror": "/srv/wheels"}, {"offline": True}], ids=["mirror", "offline"])
def test_what_is_not_asked_can_not_be_out_of_reach(options):
    wanted = desired(sources=SOURCES, **options)
    assert [source.unusable for source in wanted.sources] == ["", "", ""]


def release(source, wanted):
    return Release(
        wanted.name, "1", wanted.identity(source), {}, "2026-11-30T00:00:00Z", path=Path("/work/tools/store/e")
    )


def test_the_first_source_that_can_be_used_is_planned():
    wanted = desired(sources=SOURCES, unreachable={SOURCES[0]["index_url"]: "down"})
    observed = Observed(finals=tuple(release(source, wanted) for source in wanted.sources))
    plan = make_plan(wanted, observed)
    assert plan.source is wanted.sources[2]
    assert plan.target == "../store/e"
    assert plan.relink
    assert unused(wanted, plan) == wanted.sources[:2]


def test_no_source_at_all_is_an_error_that_says_why_for_each():
    wanted = desired(sources=SOURCES[:2], unreachable={SOURCES[0]["index_url"]: "connection refused"})
    with pytest.raises(ArmstageError) as failure:
        make_plan(wanted, Observed(finals=tuple(release(source, wanted) for source in wanted.sources)))
    assert failure.value.message == (
        "No source of the environment `cu130` can be used: mirror `https://mirror.test/whl/cu130`: connection refused; "
        "upstream `https://index.test/whl/cu130`: no answer within 5 s"
    )


def test_an_environment_that_is_right_needs_no_source():
    wanted = desired(sources=SOURCES[1:2])
    current = release(wanted.sources[0], wanted)
    plan = make_plan(wanted, Observed(target="../store/e", current=current))
    assert not plan.changes
    assert make_plan(wanted, Observed(target=None, current=current)).relink
    assert make_plan(wanted, Observed(target="../store/e", current=current, listed=False)).manifest


def test_differences_are_told_by_project():
    assert differences({"torch": "2.11.0", "numpy": "2"}, {"torch": "2.10.0", "tqdm": "4"}) == (
        "numpy was 2 and is absent; torch was 2.11.0 and is 2.10.0; tqdm was absent and is 4"
    )
    assert differences({"torch": "2.11.0"}, {"torch": "2.11.0"}) == ""


VERSIONS = {"torch": "2.11.0", "torchvision": "0.26.0", "torchcodec": "0.11.1"}


@pytest.mark.parametrize(
    ("tag", "builds"),
    [
        ("cu130", {"torch": "cu130", "torchvision": "cu130", "torchcodec": "cu130"}),
        ("cu130", {"torch": "cu130", "torchvision": "", "torchcodec": "cu130"}),
        ("cu132", {"torch": "cu132", "torchvision": "cu132", "torchcodec": "cu130"}),
        ("cpu", {"torch": "cpu", "torchvision": "cpu", "torchcodec": "cpu"}),
        ("cu130", {"torch": ""}),
        ("cu130", {}),
        ("default", {"torch": "cu128"}),
        ("nightly-cu130", {"torch": "cu130"}),
    ],
)
def test_builds_that_belong_together_are_accepted(tag, builds):
    check_builds(tag, VERSIONS, builds)


@pytest.mark.parametrize(
    ("tag", "builds", "words"),
    [
        ("cu130", {"torch": "cpu"}, "Wrong wheel: +cpu: torch 2.11.0 is built for `cpu`, expected `cu130`"),
        ("cu130", {"torch": "cu128"}, "Wrong wheel: +cu128: torch 2.11.0 is built for `cu128`, expected `cu130`"),
        ("cpu", {"torch": "cu130"}, "Wrong wheel: +cu130: torch 2.11.0 is built for `cu130`, expected `cpu`"),
        (
            "cu130",
            {"torch": "cu130", "torchvision": "cu129"},
            "Wrong wheels: torch is built for `cu130`, but torchvision 0.26.0 for `cu129`",
        ),
        (
            "cu132",
            {"torch": "cu132", "torchvision": "cu130"},
            "Wrong wheels: torch is built for `cu132`, but torchvision 0.26.0 for `cu130`",
        ),
        (
            "cu128",
            {"torch": "cu128", "torchvision": "cu128", "torchcodec": "cu130"},
            "Wrong wheels: torch is built for `cu128`, but torchcodec 0.11.1 for `cu130`",
        ),
        (
            "cu130",
            {"torch": "cu130", "torchcodec": "cpu"},
            "Wrong wheels: torch is built for `cu130`, but torchcodec 0.11.1 for `cpu`",
        ),
        (
            "default",
            {"torch": "cu130", "torchvision": "cpu"},
            "Wrong wheels: torch is built for `cu130`, but torchvision 0.26.0 for `cpu`",
        ),
    ],
)
def test_builds_that_do_not_belong_together_are_refused(tag, builds, words):
    with pytest.raises(ArmstageError) as failure:
        check_builds(tag, VERSIONS, builds)
    assert failure.value.message == words


@pytest.mark.parametrize(
    ("version", "build"),
    [
        ({"__version__": "2.11.0+cu130", "cuda": "13.0"}, "cu130"),
        ({"__version__": "2.10.0+cpu", "cuda": None}, "cpu"),
        ({"__version__": "2.10.0", "cuda": None}, "cpu"),
        ({"__version__": "2.10.0a0+b558c98", "cuda": "13.1"}, "cu131"),
        ({"__version__": "2.10.0a0+gitabc"}, ""),
        ({"__version__": "0.26.0+cu130", "git_version": "336d36e"}, "cu130"),
        ({"__version__": "0.29.2"}, ""),
        ({"__version__": "2.9.0+rocm6.4", "cuda": None}, "rocm6.4"),
        ({}, ""),
    ],
)
def test_a_build_is_read_from_version_py(version, build):
    assert build_of(version) == build


@pytest.mark.parametrize("version", ["0.0.0", "0.0.0.dev0", "0.0.0dev"])
def test_the_placeholder_of_torchcodec_is_refused(version):
    with pytest.raises(ArmstageError, match="is an empty placeholder"):
        check_builds("cu130", {**VERSIONS, "torchcodec": version}, {"torch": "cu130"})


@pytest.mark.parametrize(
    ("build", "major"),
    [("cu130", "13"), ("cu128", "12"), ("cu118", "11"), ("cu92", "9"), ("cpu", ""), ("rocm6.4", ""), ("", "")],
)
def test_the_cuda_major_of_a_build(build, major):
    assert cuda_major(build) == major


def test_bytecode_is_compiled_by_the_same_version_only(tmp_path):
    assert compiler("none", "3.13") == ""
    assert compiler("auto", "3.99") == ""
    with pytest.raises(ArmstageError, match="can't be run"):
        compiler(str(tmp_path / "python3.13"), "3.13")


def test_defaults_of_the_model_are_those_of_the_module():
    import python_env

    wanted = Desired(Path("/r"), "cu130", Interpreter("/usr/bin/python3.13", "3.13"), sources=(Source(),))
    spec = {name: option.get("default") for name, option in python_env.ARGUMENT_SPEC.items()}
    assert (wanted.platform, wanted.machine, wanted.uv) == (spec["python_platform"], spec["elf_machine"], spec["uv"])
    assert (wanted.keep, wanted.timeout, wanted.compile_python) == (
        spec["keep"],
        spec["timeout"],
        spec["compile_python"],
    )
