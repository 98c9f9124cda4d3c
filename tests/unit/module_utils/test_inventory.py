"""The inventories that a command line names."""

import pytest
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.inventory import check, sources


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["-i", "a", "-v", "-ib", "--inventory", "c", "--inventory=d", "--inventory-file", "e"], list("abcde")),
        (["-e", "x=1", "--limit", "a", "-C", "--list-hosts", "--invent", "y"], []),
        (["-i", "gb01,gb02", "-K", "playbook"], ["gb01,gb02"]),
        (["--check", "-i"], []),
    ],
)
def test_all_ways_to_name_one(arguments, named):
    assert sources(arguments) == named


def test_what_is_there_and_lists_of_hosts_pass(tmp_path, monkeypatch):
    (tmp_path / "hosts.yml").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WHERE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    check(["hosts.yml", str(tmp_path), "~/hosts.yml", "$WHERE/hosts.yml", "gb01,", "gb01,gb02"], tmp_path)


def test_of_a_wrong_name_it_says_what_there_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("spark", "slurm"):
        (tmp_path / "inventory" / name).mkdir(parents=True)
    with pytest.raises(ArmstageError) as error:
        check(["inventory/spark", "inventory/spak"], tmp_path / "inventory")
    assert error.value.message == "There is no inventory `inventory/spak`"
    assert "inventory/slurm, inventory/spark, or hosts" in error.value.hint
