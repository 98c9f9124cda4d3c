"""Options of the connection plugin, as inventories and the environment give them."""

from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from ansible.plugins.loader import connection_loader

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def seconds():
    connection_loader.add_directory(str(ROOT / "connection_plugins"))
    return connection_loader.get("srun", class_only=True)._specification.__globals__["seconds"]


@pytest.mark.parametrize(
    ("value", "number"), [(False, 0), ("no", 0), ("0", 0), (True, 60), ("yes", 60), (60, 60), ("2.5", 2.5)]
)
def test_how_long_a_step_is_kept(seconds, value, number):
    assert seconds(value) == number


@pytest.mark.parametrize("value", ["nan", "inf", -1, "-0.5", "", "1m", None])
def test_what_is_no_time_to_keep_a_step_is_refused(seconds, value):
    with pytest.raises(AnsibleError, match=f"srun_persist .* received: `{value}`"):
        seconds(value)
