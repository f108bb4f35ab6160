"""Server-sent events, as the HTML standard has them.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from fastapi import Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from .disconnects import ClientGoneError, until_gone

__all__ = ["DONE", "ServerSentEvents", "frame"]

DONE = b"data: [DONE]\n\n"
"""What OpenAI's older endpoints end a stream with."""

_KEEP_ALIVE = b": keep-alive\n\n"
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def frame(model: BaseModel, event: str | None = None) -> bytes:
    """Return one event: the fields of ``model`` that were set."""
    # JSON of pydantic's has no line breaks.
    data = f"data: {model.model_dump_json(exclude_unset=True)}\n\n"
    return (f"event: {event}\n{data}" if event else data).encode()


class ServerSentEvents(Response):
    """Sends frames as they come, until the client goes away.

    A comment is sent after ``keep_alive`` seconds without one. A client that takes nothing for
    ``patience`` seconds has gone away, too. ``close`` is called in any case.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: AsyncIterator[bytes],
        close: Callable[[], Awaitable[None]],
        *,
        keep_alive: float,
        patience: float,
    ) -> None:
        super().__init__(headers=_HEADERS)
        # How long it will be is not known.
        del self.headers["content-length"]
        self._frames = frames
        self._close = close
        self._keep_alive = keep_alive
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything."""
        try:
            await until_gone(receive, self._send_all(send))
        except ClientGoneError:
            scope["state"]["facts"]["client_gone"] = True
        finally:
            await self._close()

    async def _send_all(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        coming = asyncio.ensure_future(anext(self._frames, None))
        try:
            while True:
                done, _ = await asyncio.wait({coming}, timeout=self._keep_alive)
                data = coming.result() if done else _KEEP_ALIVE
                if data is None:
                    break
                await self._send(send, data, is_last=False)
                if done:
                    coming = asyncio.ensure_future(anext(self._frames, None))
            await self._send(send, b"", is_last=True)
        finally:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await coming

    async def _send(self, send: Send, data: bytes, *, is_last: bool) -> None:
        message = {"type": "http.response.body", "body": data, "more_body": not is_last}
        try:
            async with asyncio.timeout(self._patience):
                await send(message)
        except TimeoutError as error:
            raise ClientGoneError from error
