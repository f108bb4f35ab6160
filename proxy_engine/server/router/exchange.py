"""One request to a worker, and its response, over a Unix socket."""

from __future__ import annotations

import asyncio
import socket
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

    h11 distinguishes a response that is complete from one that ends because the worker died. A
    worker may answer and close the connection before it has read the whole request. A socket,
    unlike asyncio's transports and streams, lets the response be read after writing has failed.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self.is_refused = False

    @classmethod
    async def connect(cls, path: Path) -> Self:
        """Connect to the socket of a worker.

        Raises:
            WorkerLostError: The worker does not listen.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        exchange = cls(connection)
        try:
            await exchange._loop.sock_connect(connection, str(path))
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError):
                raise WorkerLostError from error
            raise
        return exchange

    async def send(self, *events: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        """Send parts of the request, unless the worker has closed the connection."""
        data = b"".join(self._parser.send(event) or b"" for event in events)
        if not self.is_refused:
            try:
                await self._loop.sock_sendall(self._connection, data)
            except OSError:
                self.is_refused = True

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
        self._connection.close()

    async def _next(self) -> h11.Event:
        while not isinstance(event := self._event(), h11.Event):
            try:
                data = await self._loop.sock_recv(self._connection, _READ_BYTES)
            except OSError as error:
                raise WorkerLostError from error
            self._parser.receive_data(data)
        if isinstance(event, h11.ConnectionClosed):
            raise WorkerLostError
        return event

    def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._parser.next_event()
        except h11.RemoteProtocolError as error:
            raise WorkerLostError from error
