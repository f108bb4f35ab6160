"""Content of ``http`` and ``https`` URLs, from public addresses and within limits.

Where strangers choose URLs, as with a server, these could lead to services of the local network
(server-side request forgery). Therefore a host is resolved once, all its addresses are checked, and
the connection is made to a checked address: a second resolution could give another one (DNS
rebinding). Redirects are followed in the same way. Proxies of the environment are not used.
"""

from __future__ import annotations

import http.client
import math
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from ..checks.texts import short_repr
from ..errors import MediaError
from .addresses import Resolver, is_public, resolve, resolve_within
from .options import MediaOptions

_MAX_REDIRECTS = 3
_MAX_URL_CHARS = 8192
_REDIRECTS = (301, 302, 303, 307, 308)
_BLOCK_BYTES = 1 << 16
_PORTS = {"http": 80, "https": 443}
# RFC 3986: the reserved characters, and the percent sign of characters that are encoded.
_SAFE = "%/:?#[]@!$&'()*+,;=~"


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
    deadline = _Deadline(options.url_timeout)
    try:
        return _followed(url, options, max_bytes, limit, deadline, resolver)
    except (_Refusal, OSError, http.client.HTTPException, ValueError) as error:
        refusal = error if isinstance(error, _Refusal) else _Refusal(_reason(error))
        if deadline.is_over:
            refusal = _Refusal(
                f"it took longer than {options.url_timeout:g} seconds",
                limit="url_timeout",
                hint="The limit is url_timeout of MediaOptions.",
            )
        raise MediaError(
            f"cannot read {short_repr(url)}: {refusal}", limit=refusal.limit, hint=refusal.hint
        ) from error


def _followed(
    url: str,
    options: MediaOptions,
    max_bytes: int,
    limit: str,
    deadline: _Deadline,
    resolver: Resolver,
) -> bytes:
    for _ in range(_MAX_REDIRECTS + 1):
        split = _checked(url)
        addresses = _addresses(split, options, deadline, resolver)
        with _answer(split, addresses, deadline) as answer:
            if answer.status not in _REDIRECTS:
                data = _content(answer, max_bytes, limit)
                # A connection that was shut down looks like one that ended.
                deadline.check()
                return data
            url = urljoin(url, answer.getheader("Location") or "")
    raise _Refusal(f"more than {_MAX_REDIRECTS} redirects")


def _reason(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


class _Refusal(Exception):
    """A URL or its redirect is refused."""

    def __init__(self, what: str, *, limit: str | None = None, hint: str = "") -> None:
        super().__init__(what)
        self.limit = limit
        self.hint = hint


@dataclass(slots=True)
class _Deadline:
    """The time limit of a request.

    Attributes:
        seconds: The limit, from now on.
    """

    seconds: float
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def check(self) -> float:
        """Return the seconds that are left.

        Raises:
            TimeoutError: There are none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is over")
        return left

    @contextmanager
    def ending(self, connection: socket.socket) -> Iterator[None]:
        """Shut a connection down at the deadline.

        A timeout of a socket limits the time between two bytes, so a slow server could take days.
        """

        def end() -> None:
            # The timer may be early by the resolution of its clock.
            self._end = -math.inf
            try:
                # Not the method of an SSLSocket, which would change its state on another thread.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                # The connection is closed already.
                return

        timer = threading.Timer(self.check(), end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _checked(url: str) -> SplitResult:
    """Split a URL. What different parsers could read differently is refused."""
    if len(url) > _MAX_URL_CHARS:
        raise _Refusal(f"it has more than {_MAX_URL_CHARS:,} characters")
    if any(char <= " " or char in "\\\x7f" for char in url):
        raise _Refusal("it has spaces, control characters or backslashes")
    split = urlsplit(url)
    if split.scheme not in _PORTS:
        raise _Refusal(f"it leads to {short_repr(url)}, which is neither http nor https")
    if "@" in split.netloc:
        raise _Refusal("it has a user name or password")
    if not split.hostname:
        raise _Refusal("it has no host")
    return split


def _addresses(
    split: SplitResult, options: MediaOptions, deadline: _Deadline, resolver: Resolver
) -> list[str]:
    host = _ascii_host(split)
    addresses = resolve_within(host, resolver, deadline.check())
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


def _ascii_host(split: SplitResult) -> str:
    host = split.hostname or ""
    return host if host.isascii() else host.encode("idna").decode("ascii")


@contextmanager
def _answer(
    split: SplitResult, addresses: list[str], deadline: _Deadline
) -> Iterator[http.client.HTTPResponse]:
    """Send a request to one of the addresses."""
    host, port = _ascii_host(split), split.port or _PORTS[split.scheme]
    connection = _connected(addresses, port, deadline)
    try:
        if split.scheme == "https":
            connection = ssl.create_default_context().wrap_socket(
                connection, server_hostname=host, do_handshake_on_connect=False
            )
        with deadline.ending(connection):
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            client = http.client.HTTPConnection(host, port)
            client.sock = connection
            target = quote(split.path or "/", _SAFE)
            if split.query:
                target += f"?{quote(split.query, _SAFE)}"
            # Encodings could expand to any size.
            headers = {"Accept-Encoding": "identity", "User-Agent": "proxy-engine"}
            name = f"[{host}]" if ":" in host else host
            headers["Host"] = name if split.port is None else f"{name}:{split.port}"
            client.request("GET", target, headers=headers)
            with client.getresponse() as answer:
                yield answer
    finally:
        connection.close()


def _connected(addresses: list[str], port: int, deadline: _Deadline) -> socket.socket:
    """Return a connection to the first address that accepts it."""
    errors: list[OSError] = []
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=deadline.check())
        except OSError as error:
            errors.append(error)
    raise errors[0]


def _content(answer: http.client.HTTPResponse, max_bytes: int, limit: str) -> bytes:
    if answer.status != http.client.OK:
        raise _Refusal(f"the server answers with status {answer.status}")
    encoding = answer.getheader("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise _Refusal(f"the content is encoded as {short_repr(encoding)}")
    expected = answer.length
    if expected is None or expected <= max_bytes:
        blocks, size = [], 0
        while size <= max_bytes and (block := answer.read1(_BLOCK_BYTES)):
            blocks.append(block)
            size += len(block)
        if size <= max_bytes:
            if expected is not None and size < expected:
                raise _Refusal(f"the content ends after {size:,} of {expected:,} bytes")
            return b"".join(blocks)
    raise _Refusal(
        f"the content has more than {max_bytes:,} bytes",
        limit=limit,
        hint=f"The limit is {limit} of MediaOptions.",
    )
