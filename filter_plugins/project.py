# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A pyproject.toml for both architectures: what aarch64 needs beside what the others have, and nothing else changed.

A value is edited with tomlkit, which keeps its format and comments, and put back where it was read: the rest of the
text stays as it is to the last byte. Which versions and which index is decided in armstage/project/target.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tomlkit
from ansible.errors import AnsibleFilterError
from tomlkit.items import Array, InlineTable

# Plugins of the control node can't import a project's module_utils by Ansible's name (docs/decisions).
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "module_utils"))

from armstage.audit.facts import FAMILY
from armstage.audit.locks import applies
from armstage.audit.pep508 import AARCH64, Requirement, normalize
from armstage.errors import ArmstageError
from armstage.project import target
from armstage.readers import toml
from armstage.readers.nodes import Items, Table

ON_AARCH64 = "platform_machine == 'aarch64'"
ELSEWHERE = "platform_machine != 'aarch64'"
ENVIRONMENT = "sys_platform == 'linux' and platform_machine == 'aarch64'"
UV = ("tool", "uv")
SOURCES = (*UV, "sources")


def project_target(texts, nodes, staged, python, compatibility, index="auto", unreachable=None):
    """What the project is to have on aarch64 (armstage/project/target.py), or ``refusal``: why there is nothing."""
    wishes = target.Wishes(tuple(nodes), staged, python, index, unreachable)
    try:
        return target.decide(texts, wishes, compatibility)
    except ArmstageError as error:
        return {"refusal": error.text}


def pyproject_for_aarch64(text, wanted):
    """The edited text; the same one where it has everything already. ``wanted`` is the result of project_target."""
    for name, conditions in wanted["ranges"].items():
        text = add_requirement(text, name, conditions, wanted)
    if not any(map(applies, table(text, UV).items_of("environments") or [None])):
        text = edit(text, (*UV, "environments"), lambda items: items.append(ENVIRONMENT))
    if not wanted["index"]:
        return leave_to_the_default(text, wanted["versions"])
    for name in FAMILY:
        if name in wanted["versions"]:
            text = bind(text, name, wanted["index"]["name"])
    return add_index(text, wanted["index"])


def reporting_edit(text, wanted):
    """pyproject_for_aarch64 with its errors as Ansible's, the hint on a line of its own."""
    try:
        return pyproject_for_aarch64(text, wanted)
    except ArmstageError as error:
        raise AnsibleFilterError(error.text) from None  # whose message Ansible would say again behind the hint


# The text and its values


def table(text, keys):
    return toml.read(text)[0].table(*keys)


def edit(text, keys, change):
    """The text with one value changed. ``change`` edits the value, a tomlkit item, or returns what stands for it."""
    item = tomlkit.parse(text)
    for key in keys:
        item = item[key]
    if not isinstance(item, (Array, InlineTable)):
        raise ArmstageError(
            f"`{'.'.join(keys)}` of pyproject.toml is written as a table of its own, which is not edited here",
            hint=f"Write it as one value: {keys[-1]} = {{ ... }}",
        )
    before = item.as_string()
    changed = change(item)
    start, end = place(text, keys, before)
    return text[:start] + (item if changed is None else changed).as_string() + text[end:]


def place(text, keys, value):
    """Where a value stands in the text."""
    line = table(text, keys[:-1]).lines[keys[-1]]
    start = text.index(value, sum(len(row) + 1 for row in text.split("\n")[: line - 1]))
    return start, start + len(value)


def add_lines(text, keys, lines):
    """The text with lines behind the line that a value ends on."""
    item = tomlkit.parse(text)
    for key in keys:
        item = item[key]
    end = text.find("\n", place(text, keys, item.as_string())[1])
    end = len(text) if end < 0 else end
    return f"{text[:end]}\n{lines}{text[end:]}"


def append(text, block):
    return f"{text.rstrip()}\n\n{block}\n"


# Requirements


def requirement_lists(text):
    """Keys of the lists of requirements, `project.dependencies` first. With those that only limit others."""
    document = toml.read(text)[0]
    lists = [("project", "dependencies")]
    for keys in (("project", "optional-dependencies"), ("dependency-groups",)):
        lists += [(*keys, name) for name in document.table(*keys)]
    lists += [(*UV, name) for name in ("dev-dependencies", "override-dependencies", "constraint-dependencies")]
    return [keys for keys in lists if isinstance(document.table(*keys[:-1]).get(keys[-1]), Items)]


def entries(items):
    """Position and requirement of each item that is one."""
    for position, item in enumerate(items):
        try:
            yield position, Requirement.parse(str(item))
        except ValueError:
            continue


def add_requirement(text, name, conditions, wanted):
    """Give a package a line for aarch64 in every list that names it, else in one; the other lines to the others."""
    lists = requirement_lists(text)
    naming = {
        keys: {requirement.name for _position, requirement in entries(table(text, keys[:-1])[keys[-1]])}
        for keys in lists
    }
    line = f"{name}{conditions}; {ON_AARCH64}"
    having = [keys for keys in lists if name in naming[keys]]
    for keys in having:
        if not is_split(table(text, keys[:-1])[keys[-1]], name, wanted):
            text = edit(text, keys, lambda items: split(items, name, line))
    if any(keys[: len(UV)] != UV for keys in having) or not lists:
        return text
    # What torchcodec links and does not declare goes where torchcodec is; what only the lock names, to the project.
    beside = [keys for keys in lists if name not in FAMILY and "torchcodec" in naming[keys]]
    return edit(text, (beside or lists)[0], lambda items: items.append(line))


def is_split(items, name, wanted):
    """Whether aarch64 gets the wanted build by what is there."""
    found = [requirement for _position, requirement in entries(items) if requirement.name == name]
    here = [requirement for requirement in found if requirement.applies_to(AARCH64)]
    return bool(here) and all(requirement.url or leads_there(requirement, wanted) for requirement in here)


def leads_there(requirement, wanted):
    """Whether the conditions admit, of all versions, those of the wanted minor version only."""
    conditions = wanted["ranges"][requirement.name]
    if requirement.name not in wanted["versions"]:
        return str(requirement.specifier) == conditions
    lowest, above = conditions[2:].split(",<")
    major, minor = lowest.split(".")[:2]
    below = f"{major}.{int(minor) - 1}.99" if int(minor) else "0.0.0"
    return [requirement.specifier.admits(version) for version in (below, lowest, above)] == [False, True, False]


def split(items, name, line):
    last = -1
    for position, requirement in list(entries(items)):
        if requirement.name == name:
            last = position
            if requirement.extras:
                line = line.replace(name, f"{name}[{','.join(requirement.extras)}]", 1)
            if requirement.applies_to(AARCH64):
                items[position] = elsewhere(requirement)
    items.insert(last + 1, line)


def elsewhere(requirement):
    """The same requirement for every machine but aarch64."""
    if requirement.marker is None:
        return f"{requirement.text}; {ELSEWHERE}"
    marker = requirement.marker.text
    head = requirement.text[: requirement.text.rindex(marker)].rstrip().rstrip(";").rstrip()
    return f"{head}; {joined(marker)}"


def joined(marker):
    """The marker, for every machine but aarch64."""
    if not marker:
        return ELSEWHERE
    return f"({marker}) and {ELSEWHERE}" if " or " in marker else f"{marker} and {ELSEWHERE}"


# Sources and indexes


def bind(text, name, index):
    """Bind a package to an index on aarch64, and leave it the sources it has elsewhere."""
    sources = table(text, SOURCES)
    key = next((key for key in sources if normalize(key) == name), None)
    ours = {"index": index, "marker": ON_AARCH64}
    if key is not None:
        there = ours in as_list(sources[key])
        return text if there else edit(text, (*SOURCES, key), lambda item: rebound(item, sources[key], [ours]))
    line = f"{name} = [{inline(ours)}]"
    if not sources:
        return append(text, f"[{'.'.join(SOURCES)}]\n{line}")
    if "sources" in table(text, UV).lines and isinstance(tomlkit.parse(text)["tool"]["uv"]["sources"], InlineTable):
        return edit(text, SOURCES, lambda item: item.update({name: source_list([ours])}))
    return add_lines(text, (*SOURCES, list(sources)[-1]), line)


def leave_to_the_default(text, names):
    """Leave packages to the default index on aarch64: sources that reach it are marked for the others."""
    for key, entry in table(text, SOURCES).items():
        if normalize(key) in names and any(map(reaches_aarch64, as_list(entry))):
            text = edit(text, (*SOURCES, key), lambda item, entry=entry: rebound(item, entry, []))
    return text


def rebound(item, entry, more):
    """A package's sources with those that reach aarch64 marked for the others, and ``more`` behind them."""
    if not isinstance(item, Array):
        return source_list([*others_only(entry), *more])
    for position, source in reversed(list(enumerate(entry))):
        kept = list(others_only(source))
        if not kept:
            del item[position]
        elif kept[0] is not source:
            item[position] = parsed(inline(kept[0]))
    if more and len(item) == 1 and "\n" not in item.as_string():
        return source_list([*entry_values(item), *more])
    for source in more:
        item.append(parsed(inline(source)))
    return item


def entry_values(item):
    return [dict(source) for source in item]


def as_list(entry):
    return list(entry) if isinstance(entry, Items) else [entry]


def reaches_aarch64(source):
    return isinstance(source, Table) and "index" in source and applies(source.get("marker"))


def others_only(source):
    """The entry for every machine but aarch64: the same where it does not reach it, none where it is for it alone."""
    if not reaches_aarch64(source):
        yield source
    elif source.get("marker") != ON_AARCH64:
        yield {**source, "marker": joined(source.get("marker", ""))}


def source_list(sources):
    rows = [inline(source) for source in sources]
    text = "[\n" + "".join(f"    {row},\n" for row in rows) + "]" if len(rows) > 1 else f"[{rows[0]}]"
    return parsed(text)


def parsed(value):
    return tomlkit.parse(f"x = {value}")["x"]


def inline(values):
    """An inline table as people write it."""
    pairs = (f"{key} = {tomlkit.item(value).as_string()}" for key, value in values.items())
    return "{ " + ", ".join(pairs) + " }"


def add_index(text, index):
    """The index, explicit, where there is none of its name yet."""
    found = table(text, UV).items_of("index")
    if any(entry.get("name") == index["name"] for _line, entry in found.tables()):
        return text
    values = {**index, "explicit": True}
    if found and isinstance(tomlkit.parse(text)["tool"]["uv"]["index"], Array):
        return edit(text, (*UV, "index"), lambda items: items.append(parsed(inline(values))))
    block = "[[tool.uv.index]]\n" + "\n".join(
        f"{key} = {tomlkit.item(value).as_string()}" for key, value in values.items()
    )
    if not found:
        return append(text, block)
    rows = text.split("\n")
    last = max([found.lines[-1], *found[-1].lines.values()])
    return "\n".join([*rows[:last], "", *block.split("\n"), *rows[last:]])


# What is said at the end


def project_summary(wanted, lock, relocked, made, check=False):
    """Lines for people: what the project has on aarch64, what the lock changes for whom, and how to run it.

    In check mode nothing was written, and what was not made can't be run.
    """
    planned = check and (relocked.get("changed") or made.get("changed"))
    packages = ", ".join(f"{name} {version}" for name, version in wanted["versions"].items())
    place = wanted["index"].get("url", "PyPI")
    lines = [f"On aarch64: {packages} ({wanted['tag']}) from {place}: {wanted['reason']}"]
    for name, conditions in wanted["widened"].items():
        holds = "would hold" if planned else "now holds"
        what = f"{holds} for the others only" if lock == "own" else "does not hold in that environment"
        lines.append(f"{name}{conditions} {what}: no build for the nodes meets it")
    if lock == "own":
        lines += list(lock_lines(relocked))
    elif wanted["locked"]:
        locked = ", ".join(f"{name} {version}" for name, version in wanted["locked"].items())
        lines.append(f"pyproject.toml and uv.lock are untouched; uv.lock would install {locked}")
    if planned:
        made_anew = f"{made['environment']} would be made. " if made.get("changed") else ""
        return [*lines, f"{made_anew}Nothing was changed. Next: the same without --check"]
    if made.get("commands"):
        lines += ["On a node, after sourcing env.sh:", *(f"  {command}" for command in made["commands"])]
    return lines


def lock_lines(relocked):
    for machine, changes in sorted(relocked.get("changes", {}).items()):
        kept = relocked["kept"][machine]
        said = f"{', '.join(changes)}; {kept} stay as they are" if changes else f"all {kept} stay as they are"
        yield f"uv.lock, {machine}: {said if changes or kept else 'locked for the first time'}"


class FilterModule:
    def filters(self):
        return {
            "project_target": project_target,
            "pyproject_for_aarch64": reporting_edit,
            "project_summary": project_summary,
        }
