"""Which redirects are followed: within the endpoint, and to hosts that a setting names.

A redirect is a stranger's word: without this check a Hub, a mirror or whoever speaks for one could
make the service send requests into its own network. What is left to the operator: a host that the
setting names is followed wherever its name resolves to, so name only hosts whose DNS you trust.
"""

import ipaddress
import socket
from collections.abc import Iterable
from contextlib import suppress

import httpx2


class RedirectPolicy:
    """Allows the endpoint's own origin, and `hosts`: name, *.name or name:port.

    A name without a port means port 80 or 443.
    """

    def __init__(self, endpoint: str, hosts: Iterable[str]) -> None:
        self._endpoint: httpx2.URL | None = None
        with suppress(httpx2.InvalidURL):
            url = httpx2.URL(endpoint)
            self._endpoint = url if url.is_absolute_url else None
        self._hosts = frozenset(host.strip().lower() for host in hosts if host.strip())

    def is_endpoint(self, url: httpx2.URL) -> bool:
        """Return whether scheme, host and port are the endpoint's."""
        if self._endpoint is None or not url.is_absolute_url:
            return False
        return url.origin == self._endpoint.origin

    def allows(self, url: httpx2.URL) -> bool:
        """Return whether a redirect to this address is followed. Never from https to http."""
        if self.is_endpoint(url):
            return True
        if url.scheme not in ("http", "https") or self._endpoint is None:
            return False
        if self._endpoint.scheme == "https" and url.scheme == "http":
            return False
        host = url.host.lower().rstrip(".")
        port = f":{url.port}" if url.port is not None else ""
        parents = host.split(".")
        wildcards = (f"*.{'.'.join(parents[start:])}" for start in range(1, len(parents)))
        names = (host, *wildcards)
        return not is_local(host) and any(f"{name}{port}" in self._hosts for name in names)


def is_local(host: str) -> bool:
    """Return whether this is a name of this machine, or an address that is not public."""
    if host == "localhost" or host.endswith((".localhost", ".localdomain")):
        return True
    try:
        # the forms that a resolver reads as IPv4 too: 127.1, 0x7f000001
        address = ipaddress.ip_address(socket.inet_aton(host))
    except (OSError, ValueError):
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return not mapped.is_global or mapped.is_multicast
