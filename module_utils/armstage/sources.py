"""Where each component comes from: ordered lists of sources, computed from the stack and the operator's wishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

Source = Mapping[str, Any]

ADDRESSES = ("url", "sha256_url", "index_url")

INDEX_PAGE = "/torch/"
"""The page of a wheel index that is asked for: an index need not answer for itself."""


def mirrored(
    sources: Sequence[Source], mirror: str = "", replacements: Mapping[str, str] | None = None
) -> list[Source]:
    """The same sources with a mirror's copies in front.

    A mirror keeps a file under the upstream's own host and path: of ``https://github.com/a/b`` it holds
    ``<mirror>/github.com/a/b``. ``replacements`` maps a prefix of an address to what stands for it, as
    uv's UV_PYTHON_INSTALL_MIRROR does. Sources of a package index stay as they are: the index is configured.
    """
    copies: list[Source] = []
    for source in sources:
        for rewrite in (_by_prefix(replacements or {}), _by_host(mirror)):
            copy = {key: rewrite(value) if key in ADDRESSES else value for key, value in source.items()}
            if any(copy[key] != source[key] for key in ADDRESSES if key in source):
                copies.append({**copy, "kind": "mirror"})
    return copies + list(sources)


def _by_prefix(replacements: Mapping[str, str]) -> Any:
    def rewrite(address: str) -> str:
        for prefix, instead in replacements.items():
            if instead and address.startswith(prefix):
                return instead.rstrip("/") + address[len(prefix) :]
        return address

    return rewrite


def _by_host(mirror: str) -> Any:
    def rewrite(address: str) -> str:
        parts = urlsplit(address)
        if not mirror or parts.scheme not in ("http", "https"):
            return address
        return f"{str(mirror).rstrip('/')}/{parts.netloc}{parts.path}"

    return rewrite


def addresses(sources: Sequence[Source]) -> list[str]:
    """What to probe before a run: one address a source, each once, in order."""
    found = [source["url"] if source.get("url") else source["index_url"] + INDEX_PAGE for source in sources]
    return list(dict.fromkeys(found))


def of_indexes(compatibility: Mapping[str, Any], mirror: str = "") -> list[Source]:
    """Every wheel index that may be chosen, as sources: which one is known only once the Python is."""
    return mirrored(
        [{"kind": "upstream", "index_url": index["url"]} for index in compatibility["indexes"].values()], mirror
    )


def unreachable(probed: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The sources that did not answer, by url or index_url, with the reason: of ``{address: {reachable, reason}}``."""
    return {_without_page(address): found["reason"] for address, found in probed.items() if not found["reachable"]}


def _without_page(address: str) -> str:
    return address[: -len(INDEX_PAGE)] if address.endswith(INDEX_PAGE) else address


def torch_sources(tag: str, index_url: str, lock: str = "", pypi_tag: str = "", mirror: str = "") -> list[Source]:
    """Where an environment's wheels come from: a mirror, the PyTorch index, then PyPI.

    PyPI counts only where its aarch64 wheels of this torch are of the same CUDA, ``pypi_tag``. ``lock`` pins
    everything by sha256 as PyPI has it; empty where other versions are wanted.
    """
    sources = mirrored([{"kind": "upstream", "index_url": index_url}], mirror)
    if pypi_tag == tag:
        sources.append({"kind": "pypi", "lock": lock} if lock else {"kind": "pypi"})
    return sources
