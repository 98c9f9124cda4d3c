# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`base64_of_file`: the bytes of a control-node file; the `file` lookup reads text only."""

from __future__ import annotations

import base64
from pathlib import Path

from ansible.errors import AnsibleFilterError


def base64_of_file(path):
    try:
        return base64.b64encode(Path(path).read_bytes()).decode("ascii")
    except OSError as error:
        raise AnsibleFilterError(f"Failed to read `{path}`: {error.strerror}") from error


class FilterModule:
    def filters(self):
        return {"base64_of_file": base64_of_file}
