"""HTTP connections with a time limit for the head of a request.

uvicorn limits the size of headers and the idle time between two requests, but not the time from the
first byte of a request to the end of its headers. ``BodyMiddleware`` limits the time for bodies.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .errors import ApiError

_logger = logging.getLogger(__name__)


class _LimitedProtocol(H11Protocol):
    """Closes a connection whose client does not complete a request head within ``head_seconds``.

    The time starts when the connection opens, and again with the first byte of each further
    request. It also limits a body that the client still sends after the response.
    """

    head_seconds: float

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._start_timer()

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

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _time_out(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        # A client that has sent nothing expects no response.
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self.transport.write(_response(self.head_seconds))
        self.transport.close()
        _logger.info("connection closed", extra={"fields": {"reason": "slow headers"}})


def limited_protocol(head_seconds: float) -> type[H11Protocol]:
    """Return the protocol class for ``uvicorn.Config(http=...)``.

    Args:
        head_seconds: Seconds from the first byte of a request to the end of its headers.
    """
    return type("LimitedProtocol", (_LimitedProtocol,), {"head_seconds": head_seconds})


def _response(seconds: float) -> bytes:
    error = ApiError(408, f"the headers did not arrive within {seconds:g} seconds", code="timeout")
    body = error.body.model_dump_json().encode()
    head = (
        "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
