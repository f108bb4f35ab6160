"""HTTP connections with a time limit for the head of a request.

uvicorn limits the size of headers and the idle time between two requests, but not the time from the
first byte of a request to the end of its headers. ``BodyMiddleware`` limits the time for bodies.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Any

import h11
from pydantic_core import to_json
from uvicorn.protocols.http.h11_impl import H11Protocol

from .errors import ApiError

_logger = logging.getLogger(__name__)


class _LimitedProtocol(H11Protocol):
    """Closes a connection whose client does not complete a request head within ``head_seconds``.

    The time starts when the connection opens, and again with the first byte of each further
    request. It also limits a body that the client still sends after the response.

    A connection beyond ``max_connections`` closes the connection that has waited longest for a
    request head, so that idle connections do not use up the process's file descriptors.
    """

    head_seconds: float
    max_connections: int
    waiting: dict[_LimitedProtocol, None]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._start_timer()
        if len(self.connections) > self.max_connections:
            # If no other connection waits, this is the new one.
            next(iter(self.waiting))._close("too many connections")

    def data_received(self, data: bytes) -> None:
        """Stop the timer once the head of a request is complete."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._time_out)
        self.waiting[self] = None

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
            del self.waiting[self]

    def _time_out(self) -> None:
        self._stop_timer()
        if self.transport.is_closing():
            return
        # A client that has sent nothing expects no response.
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self.transport.write(_response(self.head_seconds))
        self._close("slow headers")

    def _close(self, reason: str) -> None:
        self._stop_timer()
        # Counted until the transport reports the end, which the next connection may precede.
        self.connections.discard(self)
        self.transport.close()
        _logger.info("connection closed", extra={"fields": {"reason": reason}})


def limited_protocol(head_seconds: float, max_connections: int) -> type[H11Protocol]:
    """Return the protocol class for ``uvicorn.Config(http=...)`` of one server.

    Args:
        head_seconds: Seconds from the first byte of a request to the end of its headers.
        max_connections: Number of open connections from which on idle ones are closed; at most
            half of the process's limit on file descriptors.
    """
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors != resource.RLIM_INFINITY:
        max_connections = min(max_connections, descriptors // 2)
    settings = {"head_seconds": head_seconds, "max_connections": max_connections, "waiting": {}}
    return type("LimitedProtocol", (_LimitedProtocol,), settings)


def _response(seconds: float) -> bytes:
    error = ApiError(408, f"the headers did not arrive within {seconds:g} seconds", code="timeout")
    body = to_json(error.body)
    head = (
        "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
