"""Which sources answer, asked once before the first write: hosts in parallel, each with one time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from ..errors import ArmstageError
from .index import SCHEME, is_pypi, resolve
from .transport import Limits, TransportError, is_local, local_path, open_url, patiently

HEAD_REFUSED = frozenset({400, 403, 405, 501})
"""Answers of servers that know GET only, or sign their addresses for GET only."""

SLACK = 0.5
"""Seconds a host's thread may be late: resolving a name has no time limit of its own."""

Answer = dict[str, "bool | str"]
"""`reachable` and `reason`."""


def probe(urls: Iterable[str], timeout: float = 5.0, index_url: str = "") -> dict[str, Answer]:
    """For each URL whether it can be fetched from, and why not: {url: {reachable, reason}}.

    A host that can't be reached is asked once, whatever the number of its URLs. A `pypi:` URL is
    looked up in the index and then asked for where the index says.
    """
    hosts: dict[str, list[str]] = {}
    for url in dict.fromkeys(urls):
        hosts.setdefault(_host(url), []).append(url)
    groups = [_Group(group, Limits(timeout, timeout), index_url) for group in hosts.values()]
    for group in groups:
        group.start()
    answers: dict[str, Answer] = {}
    for group in groups:
        answers.update(group.wait(timeout + SLACK))
    return answers


def _host(url: str) -> str:
    """What URLs with one fate have in common."""
    if is_pypi(url):
        return SCHEME
    try:
        return "" if is_local(url) else urlsplit(url).netloc or url
    except ValueError:
        return url


class _Group:
    """The URLs of one host, asked one after another in a thread that may be left behind."""

    def __init__(self, urls: list[str], limits: Limits, index_url: str) -> None:
        self._urls, self._limits, self._index_url = urls, limits, index_url
        self._answers: dict[str, Answer] = {}
        self._last_sign = time.monotonic()
        self._thread = threading.Thread(target=self._ask_all, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self, patience: float) -> dict[str, Answer]:
        """The answers, once all are there or none came for ``patience`` seconds."""
        while self._thread.is_alive() and time.monotonic() < self._last_sign + patience:
            self._thread.join(0.02)
        late: Answer = {"reachable": False, "reason": f"no answer within {self._limits.connect:g} s"}
        return {url: self._answers.get(url, dict(late)) for url in self._urls}

    def _ask_all(self) -> None:
        down = ""
        for url in self._urls:
            reason, host_is_up = (down, False) if down else ask(url, self._limits, self._index_url)
            self._answers[url] = {"reachable": not reason, "reason": reason or "answers"}
            self._last_sign = time.monotonic()
            down = "" if host_is_up else reason


def ask(url: str, limits: Limits, index_url: str) -> tuple[str, bool]:
    """Why the URL can't be fetched from (an empty string: it can), and whether its host answered."""
    try:
        reach(url, limits, index_url)
    except TransportError as error:
        return error.reason, (bool(error.status) and not error.transient) or is_local(url)
    except ArmstageError as error:
        return error.message, True  # nothing was waited for
    return "", True


def reach(url: str, limits: Limits, index_url: str) -> None:
    """Raise TransportError unless the URL can be fetched from.

    A host in trouble, by its own words, is asked again for as long as it may take to connect.
    """
    if not url.strip():
        raise TransportError("an address or a path was expected, and nothing was given")
    if is_local(url) and local_path(url).is_dir():
        return  # a page of a wheel index kept as a folder
    if is_pypi(url):
        url = resolve(url, index_url, limits)[0]
    patiently(lambda: _touch(url, limits), longest=limits.connect)


def _touch(url: str, limits: Limits) -> None:
    """Ask for a file without its content. Silence is not waited for twice."""
    try:
        try:
            open_url(url, limits, method="HEAD").__exit__()
        except TransportError as error:
            if error.status not in HEAD_REFUSED:
                raise
            open_url(url, limits, until=0).__exit__()
    except TransportError as error:
        error.transient = error.transient and bool(error.status)
        raise
