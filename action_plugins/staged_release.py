# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Shows a long module at work: `staged_release`, and `python_env` through the link beside this file.

The module rewrites a small text file on the host, `done total label`; a thread reads it through the
task's own connection and prints a line when it moved.
"""

from __future__ import annotations

import threading
import time
import uuid

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

FIRST_LINE = 2.0
"""Seconds before the first line: short work stays silent."""

INTERVAL = 5.0
"""Seconds between lines."""

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if self._task.check_mode or arguments.get("progress"):
            return result | self._execute_module(module_args=arguments, task_vars=task_vars)
        arguments["progress"] = f"/tmp/.armstage-{uuid.uuid4().hex}"
        with Watch(self._connection, arguments["progress"]):
            return result | self._execute_module(module_args=arguments, task_vars=task_vars)


class Watch:
    """Prints the moving progress file of a running module until the block ends."""

    def __init__(self, connection, path):
        self._connection = connection
        self._path = path
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_exception):
        self._ended.set()
        self._thread.join(INTERVAL)

    def _follow(self):
        shown, wait = None, FIRST_LINE
        while not self._ended.wait(wait):
            started = time.monotonic()
            line = self._read()
            if line and line != shown and not line.startswith("0 "):
                display.display(f"  {describe(line)}", color="bright gray")
                shown = line
            wait = max(1.0, INTERVAL - (time.monotonic() - started))

    def _read(self):
        try:
            code, out, _err = self._connection.exec_command(f"cat {self._path} 2>/dev/null", sudoable=False)
        except Exception as error:  # a lost connection is the module's own to report, not the watcher's
            display.debug(f"progress not read: {error}")
            return None
        return out.decode("utf-8", "replace").strip() if code == 0 else None


def describe(line):
    """`1073741824 4939212390 torch` as a person reads it: `torch: 1.1 of 4.9 GB`."""
    done, total, label = [*line.split(None, 2), "", "", ""][:3]
    try:
        done_bytes, total_bytes = int(done), int(total) if total.isdigit() else 0
    except ValueError:
        return line
    unit, size = next(
        (name, size)
        for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
        if max(done_bytes, total_bytes) >= size or size == 1e3
    )
    amount = f"{done_bytes / size:.1f}"
    return f"{label}: {amount} of {total_bytes / size:.1f} {unit}" if total_bytes else f"{label}: {amount} {unit}"
