"""The control channel: rank 0 sends messages to all other ranks, in order, over TCP."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias

from .frames import frame, read_frame

Explain: TypeAlias = Callable[[BaseException], BaseException]
"""Waits until it is known why a connection was lost, and returns the error to raise."""

_END = b""
"""The last message."""


class LeaderChannel(Protocol):
    """Rank 0's side."""

    def send(self, message: bytes) -> None:
        """Send a message, which is not empty, to all other ranks. For any thread.

        Returns before the other ranks have read it, unless they are many messages behind.

        Raises:
            DistributedError: A rank has failed.
        """


class FollowerChannel(Protocol):
    """The side of another rank."""

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next message of rank 0; ``None`` once rank 0 has ended.

        Args:
            timeout: Seconds to wait for it; ``None``: without limit.

        Raises:
            DistributedError: The connection to rank 0 is lost.
            TimeoutError: There is no message within ``timeout``.
        """


class TcpLeaderChannel:
    """Rank 0's side over one connection per rank.

    Args:
        connections: The connections. They are closed with the channel.
        explain: Returns the error of a lost connection.
    """

    def __init__(self, connections: Sequence[socket.socket], explain: Explain) -> None:
        self._connections = connections
        self._explain = explain
        self._lock = threading.Lock()
        self.sent = 0
        """Number of messages that were sent to each rank."""

    def send(self, message: bytes) -> None:
        """Send a message; see :class:`LeaderChannel`."""
        if message == _END:
            raise ValueError("a message is not empty")
        data = frame(message)
        try:
            self._send(data)
        except OSError as error:
            raise self._explain(error) from error

    def end(self) -> None:
        """Tell the other ranks that this was the last message. Does not block."""
        for connection in self._connections:
            with suppress(OSError):
                connection.setblocking(False)
        # A thread that cannot send to a rank holds the lock until `close`.
        if self._lock.acquire(blocking=False):
            try:
                with suppress(OSError):
                    self._send_all(frame(_END))
            finally:
                self._lock.release()

    def close(self) -> None:
        """Close the connections. Threads that wait in ``send`` return. Idempotent."""
        close_all(self._connections)

    def _send(self, data: bytes) -> None:
        # All ranks receive messages in the same order.
        with self._lock:
            self._send_all(data)
            self.sent += 1

    def _send_all(self, data: bytes) -> None:
        for connection in self._connections:
            connection.sendall(data)


class TcpFollowerChannel:
    """The side of another rank. One thread receives.

    Args:
        connection: The connection to rank 0. It is closed with the channel.
        explain: Returns the error of a lost connection.
    """

    def __init__(self, connection: socket.socket, explain: Explain) -> None:
        self._connection = connection
        self._explain = explain
        self.received = 0
        """Number of messages that were received."""

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next message; see :class:`FollowerChannel`."""
        if timeout is not None:
            ready, _, _ = select.select([self._connection], [], [], timeout)
            if not ready:
                raise TimeoutError(f"rank 0 has sent nothing within {timeout} s")
        try:
            message = read_frame(self._connection)
        except OSError as error:
            raise self._explain(error) from error
        self.received += 1
        return None if message == _END else message

    def close(self) -> None:
        """Close the connection. A thread that waits in ``receive`` returns. Idempotent."""
        close_all([self._connection])


class NoRanks:
    """The control channel of a run with a single rank."""

    sent = 0

    def send(self, message: bytes) -> None:
        """Send to nobody."""

    def end(self) -> None:
        """End nothing."""

    def close(self) -> None:
        """Close nothing."""


def close_all(connections: Sequence[socket.socket]) -> None:
    """Close connections that other threads may be using."""
    for connection in connections:
        # Unlike `close`, wakes threads that wait for the connection.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
