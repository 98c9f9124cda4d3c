"""`./armstage rollback`: its own option, and the rest for ansible-playbook."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
command = runpy.run_path(str(ROOT / "scripts/rollback.py"))["command"]


@pytest.mark.parametrize(
    ("arguments", "to", "rest"),
    [
        (["--to", "previous"], "previous", []),
        (["-i", "hosts", "--to=cu128", "--check"], "cu128", ["-i", "hosts", "--check"]),
        (["--to", "{{ 1 }}"], "{{ 1 }}", []),
    ],
)
def test_the_playbook_is_told_where_to_go(arguments, to, rest):
    program, playbook, _e, variables, *others = command(arguments)
    assert (program, Path(playbook).name, others) == ("ansible-playbook", "rollback.yml", rest)
    assert json.loads(variables) == {"armstage_rollback_to": to}


def test_where_to_go_must_be_said(capsys):
    with pytest.raises(SystemExit) as error:
        command(["-i", "hosts"])
    assert error.value.code == 3
    assert "--to" in capsys.readouterr().err
