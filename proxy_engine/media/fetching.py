"""Content of ``http`` and ``https`` URLs, from public addresses and within limits.

Where strangers choose URLs, as with a server, these could lead to services of the local network
(server-side request forgery). Therefore a host is resolved once, all its addresses are checked, and
the connection is made to a checked address: a second resolution could give another one (DNS
rebinding). Redirects are followed in the same way. Proxies of the environment are not used.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, TypeAlias

import httpx2

from ..checks import short_repr
from ..errors import MediaError
from . import MediaOptions

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
# Other addresses are local, such as the metadata of clouds in fd00::/8, or unassigned.
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
            return parsed in _GLOBAL_UNICAST and not any(
                parsed in network for network in _SPECIAL_V6
            )
        parsed = embedded
    return not any(parsed in network for network in _SPECIAL_V4)


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


_MAX_REDIRECTS = 3
_MAX_URL_CHARS = 8192
# Encodings could expand to any size.
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "proxy-engine"}
# A connection is never used again: its certificate was that of another host.
_NO_REUSE = httpx2.Limits(max_keepalive_connections=0)


def fetch(
    url: str, options: MediaOptions, max_bytes: int, limit: str, resolver: Resolver = resolve
) -> bytes:
    """Return the content of a URL.

    Args:
        url: The URL.
        options: The time limit, and the addresses that are allowed.
        max_bytes: The maximum size.
        limit: The name of the option that sets it.
        resolver: Resolves hosts.

    Raises:
        MediaError: The URL is malformed or not allowed, the server does not answer with content,
            or a limit is exceeded.
    """
    try:
        return _read_in_time(url, options, max_bytes, limit, resolver)
    except (_Refusal, httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        refusal = error if isinstance(error, _Refusal) else _Refusal(_reason(error))
        if isinstance(error, TimeoutError | httpx2.TimeoutException):
            refusal = _Refusal(
                f"it took longer than {options.url_timeout:g} seconds",
                limit="url_timeout",
                hint="The limit is url_timeout of MediaOptions.",
            )
        raise MediaError(
            f"cannot read {short_repr(url)}: {refusal}", limit=refusal.limit, hint=refusal.hint
        ) from error


def _read_in_time(
    url: str, options: MediaOptions, max_bytes: int, limit: str, resolver: Resolver
) -> bytes:
    """Read a URL on another thread, which is left at the time limit.

    Neither resolution nor a connection has a limit on its whole time: a server that sends a byte
    from time to time could take days.
    """
    content: Future[bytes] = Future()
    watch = _ConnectionWatch()

    def work() -> None:
        try:
            transport = httpx2.HTTPTransport(trusted_certificates(), limits=_NO_REUSE)
            with closing(watch), transport:
                found = _read(transport, watch, url, options, max_bytes, limit, resolver)
        except Exception as error:
            # The thread that waits raises it.
            content.set_exception(error)
        else:
            content.set_result(found)

    # A daemon: the interpreter does not wait for it at exit.
    threading.Thread(target=work, name="proxy-engine-fetch", daemon=True).start()
    try:
        return content.result(options.url_timeout)
    finally:
        watch.end()


class _ConnectionWatch:
    """Shuts down the current and later connections of a request, from another thread.

    The descriptor is a duplicate. The system may give the number of a descriptor that the request
    has closed to another file.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._has_ended = False

    def trace(self, event: str, facts: Mapping[str, Any]) -> None:
        """Take a new connection; called with the events of a request."""
        if event == "connection.connect_tcp.complete":
            self.close()
            with self._lock:
                self._connection = facts["return_value"].get_extra_info("socket").dup()
            if self._has_ended:
                self.end()

    def end(self) -> None:
        """Shut the connections down; the thread fails when it next uses one."""
        with self._lock:
            self._has_ended = True
            if self._connection is not None:
                # It may be closed at the other end.
                with suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Return a context with the system's certificates, which take some time to read."""
    return ssl.create_default_context()


def _read(
    transport: httpx2.BaseTransport,
    watch: _ConnectionWatch,
    text: str,
    options: MediaOptions,
    max_bytes: int,
    limit: str,
    resolver: Resolver,
) -> bytes:
    url = _parsed(text)
    for _ in range(_MAX_REDIRECTS + 1):
        _check(url)
        addresses = _addresses(url, options, resolver)
        with closing(_response(transport, watch, url, addresses, options.url_timeout)) as response:
            if not response.has_redirect_location:
                return _content(response, max_bytes, limit)
            url = url.join(_parsed(response.headers["Location"]))
    raise _Refusal(f"more than {_MAX_REDIRECTS} redirects")


def _reason(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


class _Refusal(Exception):
    """A URL or its redirect is refused."""

    def __init__(self, what: str, *, limit: str | None = None, hint: str = "") -> None:
        super().__init__(what)
        self.limit = limit
        self.hint = hint


def _parsed(text: str) -> httpx2.URL:
    """Parse a URL. What different parsers could read differently is refused."""
    if len(text) > _MAX_URL_CHARS:
        raise _Refusal(f"it has more than {_MAX_URL_CHARS:,} characters")
    if any(char <= " " or char in "\\\x7f" for char in text):
        raise _Refusal("it has spaces, control characters or backslashes")
    return httpx2.URL(text)


def _check(url: httpx2.URL) -> None:
    if url.scheme not in ("http", "https"):
        raise _Refusal(f"it leads to {short_repr(str(url))}, which is neither http nor https")
    if url.userinfo:
        raise _Refusal("it has a user name or password")
    if not url.host:
        raise _Refusal("it has no host")


def _addresses(url: httpx2.URL, options: MediaOptions, resolver: Resolver) -> list[str]:
    host = url.raw_host.decode("ascii")
    addresses = resolver(host)
    if not addresses:
        raise _Refusal(f"the host {short_repr(host)} has no address")
    # The address itself is not shown: it can be one of a network that the client cannot see.
    if not options.allow_private_addresses and not all(map(is_public, addresses)):
        raise _Refusal(
            f"the host {short_repr(host)} has an address that is not public",
            limit="allow_private_addresses",
            hint="allow_private_addresses of MediaOptions allows such addresses.",
        )
    return addresses


def _response(
    transport: httpx2.BaseTransport,
    watch: _ConnectionWatch,
    url: httpx2.URL,
    addresses: list[str],
    seconds: float,
) -> httpx2.Response:
    """Send a request to the first address that accepts a connection."""
    headers = _HEADERS | {"Host": url.netloc.decode("ascii")}
    extensions = {
        "timeout": httpx2.Timeout(seconds).as_dict(),
        # The certificate has to be that of the host.
        "sni_hostname": url.raw_host.decode("ascii"),
        "trace": watch.trace,
    }
    failures: list[httpx2.ConnectError] = []
    for address in addresses:
        request = httpx2.Request(
            "GET", url.copy_with(host=address), headers=headers, extensions=extensions
        )
        try:
            return transport.handle_request(request)
        except httpx2.ConnectError as error:
            failures.append(error)
    raise failures[0]


def _content(response: httpx2.Response, max_bytes: int, limit: str) -> bytes:
    if response.status_code != httpx2.codes.OK:
        raise _Refusal(f"the server answers with status {response.status_code}")
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise _Refusal(f"the content is encoded as {short_repr(encoding)}")
    content = bytearray()
    if int(response.headers.get("Content-Length", 0)) <= max_bytes:
        for block in response.iter_raw():
            content += block
            if len(content) > max_bytes:
                break
        else:
            return bytes(content)
    raise _Refusal(
        f"the content has more than {max_bytes:,} bytes",
        limit=limit,
        hint=f"The limit is {limit} of MediaOptions.",
    )
