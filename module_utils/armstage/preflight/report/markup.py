"""HTML elements as text: everything that goes in is escaped, unless it is markup already."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_CODE = re.compile(r"`([^`]+)`")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = object
"""Markup, text, a number, None (nothing), or an iterable of these."""

EMPTY = frozenset({"meta", "link", "input", "br"})


def escape(value: object) -> Markup:
    """What a value looks like in HTML, in an element or in a quoted attribute."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return Markup("")
    if isinstance(value, (str, int, float)):
        return Markup(html.escape(str(value), quote=True))
    if isinstance(value, Iterable):
        return Markup("".join(escape(each) for each in value))
    raise TypeError(f"no markup from {type(value).__name__}")


def element(tag: str, *content: Content, **attributes: object) -> Markup:
    """``<name attribute="value">content</name>``.

    ``class_`` is class, ``aria_label`` is aria-label. None and False leave an attribute out, True stands alone.
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written.append(f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"'))
    head = f"<{tag}{''.join(written)}>"
    return Markup(head if tag in EMPTY else f"{head}{escape(content)}</{tag}>")


def prose(text: str) -> Markup:
    """A sentence, with what stands between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", escape(text)))
