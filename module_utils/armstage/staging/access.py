"""How this user gets to other hosts: proxies from the environment, credentials from ~/.netrc."""

from __future__ import annotations

import contextlib
import netrc
import os
import urllib.request
from dataclasses import dataclass
from urllib.parse import urlsplit

EVERYWHERE = "all"
"""`ALL_PROXY` stands for the schemes without a variable of their own, as curl and uv read it."""


@dataclass(frozen=True)
class Proxy:
    """The proxy of one URL: its address without credentials, and the variable that names it."""

    address: str
    variable: str

    @property
    def scheme(self) -> str:
        return self.address.partition("://")[0].lower() if "://" in self.address else "http"

    @property
    def host(self) -> str:
        return self.address.rpartition("://")[2].rpartition(":")[0] or self.address

    def __str__(self) -> str:
        return f"the proxy `{self.address}` ({self.variable})"


def proxies() -> dict[str, str]:
    """Scheme -> address of the proxy to use for it."""
    found = urllib.request.getproxies()
    everywhere = found.pop(EVERYWHERE, "")
    return {**(dict.fromkeys(("http", "https"), everywhere) if everywhere else {}), **found}


def proxy_of(url: str) -> Proxy | None:
    """The proxy that a request for this URL goes through, or None."""
    parts = urlsplit(url)
    address = proxies().get(parts.scheme.lower())
    if not address or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    own = f"{parts.scheme.lower()}_proxy"
    names = [name for name in os.environ if name.lower() in (own, f"{EVERYWHERE}_proxy")]
    variable = next((name for name in names if name.lower() == own), names[0] if names else own)
    scheme, slashes, rest = address.rpartition("://")
    return Proxy(scheme + slashes + rest.rpartition("@")[2].rstrip("/"), variable)


def credentials(host: str) -> tuple[str, str] | None:
    """User and password that `$NETRC` or `~/.netrc` has for a host, as pip, uv and curl read it.

    A `default` entry is meant for whoever asks, and so given to nobody here.
    """
    path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    with contextlib.suppress(OSError, ValueError, netrc.NetrcParseError):
        entry = netrc.netrc(path).hosts.get(host) if host != "default" else None
        if entry is not None:
            return entry[0], entry[2] or ""
    return None
