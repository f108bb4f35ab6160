"""Server-sent events, and detection of clients that disconnect.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import Response
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

T = TypeVar("T")

DONE = b"data: [DONE]\n\n"
"""The last frame of streams of chat completions and completions."""

EVENT_STREAM = "text/event-stream"
"""The media type of server-sent events."""

_SEPARATORS = {
    "\x85".encode(): b"\\u0085",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}
_KEEP_ALIVE = b": keep-alive\n\n"
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class ClientDisconnectedError(Exception):
    """The client closed the connection, or stopped reading from it."""


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await ``work``, and cancel it if the client disconnects first.

    Args:
        receive: The request's ASGI channel, after its body was read.
        work: What to await.

    Raises:
        ClientDisconnectedError: The client disconnected.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnectedError
    finally:
        await _cancel(working)
        await _cancel(watching)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def one_line(data: Mapping[str, Any]) -> bytes:
    """Return ``data`` as JSON in one line, also for clients that divide at Unicode's separators.

    httpx does so in ``iter_lines``, with which Ollama's client reads, as ``str.splitlines`` does.
    """
    line: bytes = to_json(data)
    for separator, escaped in _SEPARATORS.items():
        line = line.replace(separator, escaped)
    return line


def frame(data: Mapping[str, Any], event: str | None = None) -> bytes:
    """Return one server-sent event with ``data`` as JSON."""
    line = b"data: %b\n\n" % one_line(data)
    return b"event: %b\n%b" % (event.encode(), line) if event else line


def json_reply(body: Any, status: int = 200) -> Response:
    """Return a response with ``body`` as JSON."""
    return Response(to_json(body), status_code=status, media_type="application/json")


# The package sse-starlette (3.7) is no substitute. Its import replaces uvicorn's signal handler,
# so that SIGTERM would end streams without the grace period; it sends comments at fixed times, also
# between frames; a client that stops reading is an exception and no disconnect; and a frame takes
# eight times the processor time (8 and 1 µs), since each has a timer.
class ServerSentEvents(Response):
    """Sends frames as they are produced, until the client disconnects.

    Frames are server-sent events, or lines of JSON with another ``media_type``.

    Args:
        frames: The frames to send.
        close: Called once, after the last frame or after a disconnect.
        keep_alive: Seconds without a frame before a comment is sent.
        patience: Seconds for the client to accept one frame; then it counts as disconnected.
        media_type: The type of the stream. Only server-sent events have comments.
    """

    def __init__(
        self,
        frames: AsyncIterator[bytes],
        close: Callable[[], Awaitable[None]],
        *,
        keep_alive: float,
        patience: float,
        media_type: str = EVENT_STREAM,
    ) -> None:
        super().__init__(headers=_HEADERS, media_type=media_type)
        # The length of the body is unknown.
        del self.headers["content-length"]
        self._frames = frames
        self._close = close
        self._keep_alive = keep_alive if media_type == EVENT_STREAM else math.inf
        self._patience = patience
        self._turn = asyncio.Lock()
        self._is_sending = False
        self._changed = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        work = (self._send_all(send), _disconnected(receive), self._watch(send))
        sending, *watching = map(asyncio.ensure_future, work)
        try:
            await asyncio.wait({sending, *watching}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            else:
                scope["state"]["log_fields"]["client_gone"] = True
        finally:
            for task in (sending, *watching):
                await _cancel(task)
            await self._close()

    async def _send_all(self, send: Send) -> None:
        head = {"type": "http.response.start", "status": self.status_code}
        await send({**head, "headers": self.raw_headers})
        async for data in self._frames:
            await self._send(send, data)
        await self._send(send, b"", is_last=True)

    async def _send(self, send: Send, data: bytes, *, is_last: bool = False) -> None:
        async with self._turn:
            self._is_sending, self._changed = True, time.monotonic()
            await send({"type": "http.response.body", "body": data, "more_body": not is_last})
            self._is_sending, self._changed = False, time.monotonic()

    async def _watch(self, send: Send) -> None:
        """Send a comment after each silence, and end if the client accepts a frame too late.

        One task for the whole stream: timers for each frame would cost more than the frame.
        """
        while True:
            limit = self._patience if self._is_sending else self._keep_alive
            left = self._changed + limit - time.monotonic()
            if left > 0:
                await asyncio.sleep(min(left, self._patience))
            elif self._is_sending:
                return
            else:
                await asyncio.wait_for(self._send(send, _KEEP_ALIVE), self._patience)
