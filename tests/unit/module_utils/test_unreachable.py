"""What to do about a host that could not be reached, by what OpenSSH and Ansible say of it."""

import pytest
from ansible.module_utils.armstage.unreachable import hint

SSH = "Task failed: Failed to connect to the host via ssh: "


@pytest.mark.parametrize(
    ("said", "part"),
    [
        (SSH + "ssh: Could not resolve hostname gb01.site: Name or service not known", "Correct the name `gb01.site`"),
        (SSH + "ssh: connect to host gb01 port 22: Connection refused", "`ssh gb01` works"),
        (SSH + "ssh: connect to host 192.0.2.7 port 22: No route to host", "`ssh 192.0.2.7` works"),
        (SSH + "Connection timed out during banner exchange", "`ssh gb01` works"),
        (SSH + "me@gb01: Permission denied (publickey,password).", "ssh-copy-id me@gb01"),
        (SSH + "Host key verification failed.", "`ssh gb01` once by hand"),
        (
            'Data could not be sent to remote host "gb01". Make sure this host can be reached over ssh: client_loop: '
            "send disconnect: Broken pipe",
            "`ssh gb01` works",
        ),
        (
            "Failed to create temporary directory. In some cases, you may have been able to authenticate and did not "
            "have permissions on the target directory.",
            "ansible_remote_tmp",
        ),
    ],
)
def test_what_is_said_of_a_host_decides_the_hint(said, part):
    """With what ssh was given, where it says so."""
    line = hint(said, "gb01")
    assert line.startswith("hint: ")
    assert part in line
    assert "\n" not in line


@pytest.mark.parametrize("said", ["gb01: Step 7.1 ended\nhint: Run ssh: again", "Connection to the container was lost"])
def test_where_nothing_can_be_added_nothing_is(said):
    assert hint(said, "gb01") is None
