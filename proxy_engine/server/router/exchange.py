"""One request to a worker, and its response, over a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Self

import h11

# Bytes that are read at a time. While the client does not accept them, the router reads no more,
# and the worker waits.
_READ_BYTES = 1 << 16
_MAX_HEAD_BYTES = 1 << 18


class WorkerLostError(Exception):
    """The connection to a worker cannot be opened, or ended before the response did."""


class Exchange:
    """A connection for one request.

    h11 distinguishes a response that is complete from one that ends because the worker died.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)

    @classmethod
    async def connect(cls, path: Path) -> Self:
        """Connect to the socket of a worker.

        Raises:
            WorkerLostError: The worker does not listen.
        """
        try:
            return cls(*await asyncio.open_unix_connection(path, limit=_READ_BYTES))
        except OSError as error:
            raise WorkerLostError from error

    async def send(self, *events: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        """Send parts of the request.

        An error is not raised here: the worker may have answered before it closed the connection.
        """
        for event in events:
            data = self._protocol.send(event)
            if data and not self._writer.is_closing():
                self._writer.write(data)
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def response(self) -> h11.Response:
        """Return the status and the headers.

        Raises:
            WorkerLostError: The worker died.
        """
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the body, in pieces as they arrive.

        Raises:
            WorkerLostError: The worker died before the end of the body.
        """
        while isinstance(event := await self._next(), h11.Data):
            data = bytes(event.data)
            # What has arrived together is sent together.
            while isinstance(following := self._event(), h11.Data):
                data += following.data
            yield data
            if isinstance(following, h11.EndOfMessage):
                return

    def close(self) -> None:
        """Close the connection; the worker cancels a request that is not answered."""
        self._writer.transport.abort()

    async def _next(self) -> h11.Event:
        while not isinstance(event := self._event(), h11.Event):
            try:
                self._protocol.receive_data(await self._reader.read(_READ_BYTES))
            except (OSError, RuntimeError) as error:
                raise WorkerLostError from error
        if isinstance(event, h11.ConnectionClosed):
            raise WorkerLostError
        return event

    def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise WorkerLostError from error
