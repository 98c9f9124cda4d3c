# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files of the control node as bytes and texts: the `file` lookup reads text only, and strips it."""

from __future__ import annotations

import base64
from pathlib import Path

from ansible.errors import AnsibleFilterError


def bytes_of_file(path):
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise AnsibleFilterError(f"Failed to read `{path}`: {error.strerror}") from error


def base64_of_file(path):
    return base64.b64encode(bytes_of_file(path)).decode("ascii")


def text_of_file(path):
    return bytes_of_file(path).decode("utf-8")


def texts_of_files(paths, folder):
    """{tag: path below folder} -> {tag: text}."""
    return {tag: text_of_file(f"{folder}/{path}") for tag, path in paths.items()}


class FilterModule:
    def filters(self):
        return {"base64_of_file": base64_of_file, "text_of_file": text_of_file, "texts_of_files": texts_of_files}
