"""IP addresses of hosts, and whether they are public."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Resolver: TypeAlias = Callable[[str], list[str]]
"""Returns the IP addresses of a host. Raises ``OSError`` if there is none."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")
# RFC 6052: a gateway translates these to the IPv4 address in the last four bytes.
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an IP address is reachable from everywhere, and leads to one computer.

    An IPv6 address that contains an IPv4 address (mapped, NAT64, 6to4, Teredo) leads there, so the
    latter has to be public as well.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_v4(parsed)
    if parsed.ipv4_mapped is not None:
        return _is_public_v4(parsed.ipv4_mapped)
    if parsed in _NAT64:
        return _is_public_v4(IPv4Address(int(parsed) & 0xFFFFFFFF))
    return (
        parsed in _GLOBAL_UNICAST
        and parsed.is_global
        and all(map(_is_public_v4, _tunnel_ends(parsed)))
    )


def resolve(host: str) -> list[str]:
    """Return the IP addresses of a host, as the operating system resolves it.

    Raises:
        OSError: The host is unknown.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def resolve_within(host: str, resolver: Resolver, seconds: float) -> list[str]:
    """Resolve a host within a time limit, which the operating system does not offer.

    Raises:
        OSError: The host is unknown; ``TimeoutError`` if that is not known in time.
    """
    results: list[list[str] | Exception] = []

    def work() -> None:
        try:
            results.append(resolver(host))
        except Exception as error:
            results.append(error)

    # A daemon: the interpreter does not wait for it at exit.
    thread = threading.Thread(target=work, name="proxy-engine-resolver", daemon=True)
    thread.start()
    thread.join(seconds)
    if not results:
        raise TimeoutError("the host was not resolved in time")
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def _is_public_v4(address: IPv4Address) -> bool:
    return address.is_global and not address.is_multicast


def _tunnel_ends(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that a 6to4 or Teredo address contains."""
    relay = [] if address.sixtofour is None else [address.sixtofour]
    return [*relay, *(address.teredo or ())]
