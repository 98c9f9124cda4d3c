"""What a project gets on aarch64: its own bounds where they can be kept, what is staged where not."""

import pytest
from ansible.module_utils.armstage.audit.facts import read_compatibility
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.project.target import Wishes, decide, minor_range

DATA = read_compatibility()
STAGED = {"torch": "2.11.0", "torchvision": "0.26.0", "torchcodec": "0.11.1"}
AWAY = {str(index["url"]): "no route" for index in DATA["indexes"].values()}


def node(cuda, *capabilities):
    gpus = [{"compute_capability": capability} for capability in capabilities]
    return {"status": "ok", "arch": "aarch64", "cuda_version": cuda, "gpus": gpus}


def target(*dependencies, nodes=None, lock=None, **options):
    listed = "".join(f'    "{dependency}",\n' for dependency in dependencies)
    texts = {"pyproject.toml": f'[project]\nname = "demo"\nversion = "1"\ndependencies = [\n{listed}]\n'}
    if lock:
        texts["uv.lock"] = lock
    return decide(texts, Wishes(tuple(nodes or [node("13.0")]), STAGED, "3.12", **options), DATA)


def lock(*packages):
    wheel = 'wheels = [{ url = "https://example.org/a-1-py3-none-any.whl" }]'
    needs = ", ".join(f'{{ name = "{name}" }}' for name, _version in packages)
    text = 'version = 1\n\n[[package]]\nname = "demo"\nversion = "1"\nsource = { virtual = "." }\n'
    text += f"dependencies = [{needs}]\n"
    for name, version in packages:
        text += f'\n[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {{ registry = "x" }}\n{wheel}\n'
    return text


@pytest.mark.parametrize(
    ("dependencies", "versions", "widened"),
    [
        (["torch"], {"torch": "2.11.0"}, []),
        (["torch>=2.4", "torchvision"], {"torch": "2.11.0", "torchvision": "0.26.0"}, []),
        (["torch>=2.12"], {"torch": "2.15.0"}, []),
        (["torch>=2.12,<2.14", "torchvision"], {"torch": "2.13.0", "torchvision": "0.28.0"}, []),
        (["torch>=2.13", "torchcodec<0.17"], {"torch": "2.15.0", "torchcodec": "0.16.0"}, []),
        (["torch==2.9.1"], {"torch": "2.9.1"}, []),
        (["torch==2.9.1", "torchvision"], {"torch": "2.11.0", "torchvision": "0.26.0"}, ["torch"]),
        (["torch<2.8", "torchcodec==0.7"], {"torch": "2.11.0", "torchcodec": "0.11.1"}, ["torch", "torchcodec"]),
        (["torch<2.8; platform_machine != 'aarch64'"], {"torch": "2.11.0"}, []),
    ],
)
def test_versions(dependencies, versions, widened):
    found = target(*dependencies)
    assert found["versions"] == versions
    assert list(found["widened"]) == widened
    assert found["ranges"]["torch"] == minor_range(versions["torch"])


def test_what_torchcodec_links_comes_along():
    found = target("torch", "torchcodec")
    assert found["requirements"] == ["torch==2.11.0", "torchcodec==0.11.1", "nvidia-npp>=13.0,<13.1"]
    assert found["ranges"]["nvidia-npp"] == ">=13.0,<13.1"
    assert target("torch>=2.13", "torchcodec")["requirements"] == ["torch==2.15.0", "torchcodec==0.17.0"]
    assert target("torch")["requirements"] == ["torch==2.11.0"]


def test_packages_that_only_the_lock_names_count():
    found = target("lightning", lock=lock(("lightning", "2.0"), ("torch", "2.10.0"), ("torchvision", "0.25.0")))
    assert found["versions"] == {"torch": "2.11.0", "torchvision": "0.26.0"}
    assert found["locked"] == {"torch": "2.10.0", "torchvision": "0.25.0"}


@pytest.mark.parametrize(
    ("nodes", "tag"),
    [
        ([node("13.0")], "cu130"),
        ([node("13.4")], "cu130"),  # cu132 does not hold what is staged
        ([node("12.8", "10.0")], "cu128"),
        ([node("12.8"), node("13.0")], "cu128"),  # one environment for all of them
        ([node("12.6", "9.0")], "cu126"),
    ],
)
def test_the_index_serves_every_node(nodes, tag):
    found = target("torch", nodes=nodes)
    assert found["tag"] == tag
    assert found["index"] == {"name": f"pytorch-{tag}", "url": DATA["indexes"][tag]["url"]}


def test_pypi_stands_in_where_its_build_is_the_same():
    found = target("torch", unreachable=AWAY)
    assert (found["index"], found["tag"]) == ({}, "cu130")
    assert "can't be reached (no route)" in found["reason"]
    assert target("torch==2.9.1", unreachable=AWAY)["widened"] == {"torch": "==2.9.1"}  # PyPI's is a CPU build
    assert target("torch", index="pypi")["index"] == {}


def test_an_index_of_ones_own():
    found = target("torch", index="https://mirror.example.org/whl/cu130", unreachable=AWAY)
    assert found["index"] == {"name": "pytorch-cu130", "url": "https://mirror.example.org/whl/cu130"}
    assert target("torch", index="cu126", nodes=[node("13.0", "9.0")])["tag"] == "cu126"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": [node("12.8", "10.0")], "unreachable": AWAY}, "No index serves torch on every node"),
        ({"nodes": [node("12.4")]}, "No index serves torch on every node"),
        ({"index": "cu132"}, "`cu132` serves torch on none of the nodes"),
        ({"index": "cu126", "nodes": [node("13.0", "10.0")]}, "`cu126` serves torch on none of the nodes"),
    ],
)
def test_what_can_not_be_served_is_refused(options, message):
    with pytest.raises(ArmstageError, match=message) as error:
        target("torch", **options)
    assert error.value.hint


def test_a_project_without_torch_is_refused():
    with pytest.raises(ArmstageError, match="does not use torch"):
        target("numpy")


def test_a_broken_file_is_named():
    with pytest.raises(ArmstageError, match=r"Failed to read `pyproject\.toml`, line 1"):
        decide({"pyproject.toml": "x = \n"}, Wishes((node("13.0"),), STAGED, "3.12"), DATA)
