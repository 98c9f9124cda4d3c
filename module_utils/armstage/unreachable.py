"""What to do about a host that could not be reached: Ansible only repeats what ssh said of it."""

from __future__ import annotations

import re

REMEDIES = (
    (
        "Could not resolve hostname",
        "Correct the name `{address}` in the inventory, or give an IP address there (ansible_host)",
    ),
    (
        "Permission denied (",
        "Let `ssh {address}` in without a password (ssh-copy-id {address}), or name another user with -u",
    ),
    ("Host key verification failed", "Run `ssh {address}` once by hand, and compare the key that it shows"),
    ("temporary directory", "Name one that the user may write: -e ansible_remote_tmp=/tmp/.ansible-$USER"),
    ("ssh: ", "See that `ssh {address}` works from here, or correct the address in the inventory"),
)
"""Words of OpenSSH, or of Ansible around them -> what helps; the first that are there count."""

ADDRESS = re.compile(r"Could not resolve hostname (\S+):|connect to host (\S+) port|(\S+@\S+): Permission denied")
"""How ssh says what it was given, which the inventory may have written as a template."""


def hint(said: str, host: str) -> str | None:
    """A line for a person; None where nothing known helps, or what was ``said`` of the host has a hint already."""
    remedy = next((remedy for words, remedy in REMEDIES if words in said and "hint: " not in said), None)
    found = ADDRESS.search(said)
    return remedy and f"hint: {remedy.format(address=found[found.lastindex or 0] if found else host)}"
