# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What playbooks/page_cache.yml shows: `page_cache_table` of all hosts, `page_cache_result` of one."""

from __future__ import annotations

HEADER = ("host", "MemFree before", "after", "freed", "helped", "verdict")
CHECK_HEADER = ("host", "MemFree", "would be", "would free", "helped", "verdict")
GIB = 1024**3


def page_cache_result(variables):
    """What counts of a host's two attempts: the one as root where it got far enough. Empty when unreachable."""
    user, root = (_attempt(variables.get(f"__page_cache_{who}")) for who in ("user", "root"))
    if not root or "before" in root:
        return root or user
    reason = str(root.get("msg")).splitlines()[-1]  # the lines before it are Ansible's
    return {**user, "msg": f"{user.get('msg')}; as root: {reason}"}


def page_cache_table(hostvars, hosts, check=False):
    """Lines of a table, one host each, then what a person should know about single hosts.

    In check mode nothing was dropped: what a drop frees at most is said, and not that it helped.
    """
    results = {host: page_cache_result(hostvars[host]) for host in hosts}
    rows = [CHECK_HEADER if check else HEADER, *(_row(host, result, check) for host, result in results.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines + [f"{host}: {text}" for host, result in results.items() for text in _remarks(result)]


def _attempt(result):
    made = result and not result.get("skipped") and not result.get("unreachable")
    return result if made else {}


def _row(host, result, check):
    if "before" not in result:
        return (host, "-", "-", "-", "-", "failed" if result else "unreachable")
    before, after = (f"{result[when]['MemFree'] / GIB:.1f} GiB" for when in ("before", "after"))
    freed = f"{result['freed_bytes'] / GIB:.1f} GiB"
    if result["reason"]:
        return (host, before, after, "-", "-", f"{result['verdict']['answer']}, but {result['reason']}")
    if not result["changed"]:
        return (host, before, after, "-", "-", "nothing to do")
    if check:
        return (host, before, f"up to {after}", f"up to {freed}", "-", result["verdict"]["answer"])
    return (host, before, after, freed, "yes" if result["helped"] else "no", result["verdict"]["answer"])


def _remarks(result):
    if not result:
        return []
    if result.get("reason", "failed"):
        return [text for text in (result.get("msg"), result.get("hint")) if text]
    if result["verdict"]["answer"] == "cannot help" or not result["changed"]:
        return [text for text in (result["message"], result["hint"]) if text]
    left = result["evicted"]["left"]
    return [f"{each['path']}: {each['resident_bytes'] / GIB:.1f} GiB stayed, {each['reason']}" for each in left]


class FilterModule:
    def filters(self):
        return {"page_cache_result": page_cache_result, "page_cache_table": page_cache_table}
