"""What a lock installs on aarch64: forks, extras, groups and markers."""

import pytest
from ansible.module_utils.armstage.audit import locks
from ansible.module_utils.armstage.audit.source import Source
from ansible.module_utils.armstage.readers import toml


def read(text, python="3.12"):
    return locks.read(Source("uv.lock", "uv.lock", text, toml.read(text)[0]), python)


def package(name, version="1.0", *, dependencies=(), more="", source='{ registry = "https://example.org/simple" }'):
    items = "".join(f"    {dependency},\n" for dependency in dependencies)
    return (
        f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {source}\ndependencies = [\n{items}]\n{more}\n'
    )


def names(packages):
    return [f"{found.name} {found.version}" for found in packages]


def root(*dependencies, more=""):
    return package("root", dependencies=dependencies, more=more, source='{ editable = "." }')


def test_markers_lead_to_the_packages_of_aarch64():
    lock = read(
        root(
            '{ name = "a", marker = "platform_machine == \'x86_64\'" }',
            '{ name = "b" }',
            '{ name = "c", marker = "sys_platform == \'win32\'" }',
        )
        + package("a", dependencies=['{ name = "d" }'])
        + package("b", dependencies=['{ name = "e", marker = "platform_machine == \'aarch64\'" }'])
        + package("c")
        + package("d")
        + package("e")
        + package("unused")
    )
    assert names(lock.selected) == ["root 1.0", "b 1.0", "e 1.0"]


def test_of_forks_only_the_one_of_aarch64_counts():
    fork = "resolution-markers = [\"platform_machine %s 'aarch64'\"]"
    lock = read(
        root(
            '{ name = "torch", version = "2.7.0", marker = "platform_machine != \'aarch64\'" }',
            '{ name = "torch", version = "2.11.0" }',
            '{ name = "numpy" }',
        )
        + package("torch", "2.7.0", more=fork % "!=")
        + package("torch", "2.11.0", more=fork % "==")
        + package("numpy", "1.0", more=fork % "!=")
        + package("numpy", "2.0", more=fork % "==")
    )
    assert names(lock.selected) == ["root 1.0", "torch 2.11.0", "numpy 2.0"]


def test_one_version_from_two_indexes():
    cpu, cuda = (
        '{ registry = "https://download.pytorch.org/whl/cpu" }',
        '{ registry = "https://download.pytorch.org/whl/cu130" }',
    )
    lock = read(
        root(f'{{ name = "torch", version = "2.11.0", source = {cuda} }}')
        + package("torch", "2.11.0", source=cpu)
        + package("torch", "2.11.0", source=cuda)
    )
    (torch,) = lock.selected[1:]
    assert torch.tag == "cu130"


def test_extras_of_a_dependency_are_required_and_those_of_the_project_are_not():
    optional = '[package.optional-dependencies]\ngpu = [{ name = "%s" }]\n'
    optional += '[package.dev-dependencies]\ndev = [{ name = "tool" }]\n'
    lock = read(
        root('{ name = "a", extra = ["gpu"] }', '{ name = "b" }', more=optional % "flash")
        + package("a", more=optional % "kernel")
        + package("b", more=optional % "other")
        + "".join(package(name) for name in ("flash", "kernel", "other", "tool"))
    )
    assert names(lock.required) == ["root 1.0", "a 1.0", "b 1.0", "kernel 1.0"]
    assert names(lock.selected) == ["root 1.0", "a 1.0", "b 1.0", "flash 1.0", "kernel 1.0", "tool 1.0"]


def test_a_circle_ends():
    assert (
        len(
            read(
                root('{ name = "a" }')
                + package("a", dependencies=['{ name = "b" }'])
                + package("b", dependencies=['{ name = "a" }'])
            ).selected
        )
        == 3
    )


@pytest.mark.parametrize(
    ("requires", "expected"),
    [(">=3.12", ["root 1.0", "new 1.0"]), (">=3.13", ["root 1.0", "old 1.0", "new 1.0"]), (None, None)],
)
def test_the_python_of_the_node_decides_where_the_lock_is_for_it(requires, expected):
    text = (
        root('{ name = "old", marker = "python_full_version < \'3.12\'" }', '{ name = "new" }')
        + package("old")
        + package("new")
    )
    head = f'requires-python = "{requires}"\n\n' if requires else ""
    assert names(read(head + text).selected) == (expected or ["root 1.0", "old 1.0", "new 1.0"])


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("a-1-cp312-cp312-manylinux_2_28_aarch64.whl", True),
        ("a-1-cp312-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", True),
        ("a-1-py3-none-linux_aarch64.whl", True),
        ("a-1-py3-none-any.whl", True),
        ("a-1-py2.py3-none-any.whl", True),
        ("a-1-cp312-cp312-musllinux_1_2_aarch64.whl", True),
        ("a-1-cp312-cp312-manylinux_2_28_x86_64.whl", False),
        ("a-1-cp312-cp312-macosx_11_0_arm64.whl", False),
        ("a-1-cp312-cp312-win_arm64.whl", False),
    ],
)
def test_the_wheels_that_install_on_aarch64(name, fits):
    for place in (f'url = "https://example.org/{name}"', f'path = "wheels/{name}"', f'filename = "{name}"'):
        (_root, found) = read(root('{ name = "a" }') + package("a", more=f"wheels = [{{ {place} }}]")).selected
        assert bool(found.aarch64_wheels()) is fits


@pytest.mark.parametrize(
    "text", ["", "package = 1\n", "[[package]]\n", '[[package]]\nname = "a"\ndependencies = ["x"]\n']
)
def test_a_lock_of_another_shape_holds_nothing_to_find(text):
    assert all(not found.wheels() for found in read(text).selected)
