"""IP addresses of hosts, and whether they are public."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Resolver: TypeAlias = Callable[[str], list[str]]
"""Returns the IP addresses of a host. Raises ``OSError`` if there is none."""

_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            # IANA's registry of special-purpose addresses. The ``is_global`` of Python's
            # ``ipaddress`` follows it only in part, and differs between versions.
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared address space; the metadata of Alibaba Cloud
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local; the metadata of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments; the metadata of Oracle Cloud
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",
            # Not in the registry: services of Azure inside its virtual machines.
            "168.63.129.16/32",
        ),
    )
)
# Others are local, such as the metadata of clouds in fd00::/8, or unassigned.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, with Teredo, whose relays are shut down
            "2001:db8::/32",
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)
# RFC 6052: a gateway translates these to the IPv4 address in the last four bytes.
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an IP address is reachable from everywhere, and leads to one computer.

    An IPv6 address that contains an IPv4 address (mapped, NAT64, 6to4) leads to the latter, which
    decides. The result does not depend on the version of Python.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        embedded = _embedded(parsed)
        if embedded is None:
            return parsed in _GLOBAL_UNICAST and not any(parsed in one for one in _SPECIAL_V6)
        parsed = embedded
    return not any(parsed in one for one in _SPECIAL_V4)


def resolve(host: str) -> list[str]:
    """Return the IP addresses of a host, as the operating system resolves it.

    Raises:
        OSError: The host is unknown.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which an IPv6 address leads."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
