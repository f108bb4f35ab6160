"""The control channel: rank 0 sends messages to all other ranks, in order, over TCP.

``multiprocessing.connection`` delimits messages.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import mlx.core as mx

from ..errors import DistributedError

MAX_MESSAGE_BYTES = 64 << 20
"""Maximum length of a message. The longest ones have the token ids of a chunk of the prompt."""

Explain: TypeAlias = Callable[[BaseException], BaseException]
"""Waits until it is known why a connection was lost, and returns the error to raise."""

Peer: TypeAlias = "Connection[Any, Any]"
"""A connection to another rank."""

_COLLECTIVES = ("[ring]", "[mpi]", "[jaccl]", "[nccl]")
_END = b""
"""The last message."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first failure of a run.

    Attributes:
        rank: The rank that failed; ``None`` if it is unknown.
        reason: Why, as the end of a sentence.
    """

    rank: int | None
    reason: str

    def __str__(self) -> str:
        which = "a rank" if self.rank is None else f"rank {self.rank}"
        return f"{which} has failed: {self.reason}"

    def error(self) -> DistributedError:
        """Return the error of requests."""
        return DistributedError(str(self), rank=self.rank, hint="Start all ranks again.")


def is_lost_connection(error: BaseException) -> bool:
    """Whether an exception says that some rank cannot be reached, without naming it."""
    return isinstance(error, RuntimeError) and str(error).startswith(_COLLECTIVES)


class LeaderChannel:
    """Rank 0's side, with one connection per rank.

    Args:
        connections: The connections; none for a run with a single rank. They are closed with the
            channel.
        explain: Returns the error of a lost connection.
    """

    def __init__(self, connections: Sequence[Peer], explain: Explain) -> None:
        self._connections = connections
        self._explain = explain
        self._lock = threading.Lock()
        self.sent = 0
        """Number of messages that were sent to each rank."""

    def send(self, message: bytes) -> None:
        """Send a message, which is not empty, to all other ranks. For any thread.

        Returns before the other ranks have read it, unless they are many messages behind.

        Raises:
            DistributedError: A rank has failed.
            ValueError: The message exceeds ``MAX_MESSAGE_BYTES``. Nothing is sent, since the other
                ranks would close their connections.
        """
        if len(message) > MAX_MESSAGE_BYTES:
            raise ValueError(
                f"a message has {len(message)} bytes; the limit is {MAX_MESSAGE_BYTES}"
            )
        try:
            # All ranks receive messages in the same order.
            with self._lock:
                for connection in self._connections:
                    connection.send_bytes(message)
                self.sent += 1
        except (OSError, TypeError) as error:
            # A connection that another thread closes meanwhile has no descriptor: a TypeError.
            raise self._explain(error) from error

    def end(self) -> None:
        """Tell the other ranks that this was the last message. Does not block."""
        for connection in self._connections:
            with suppress(OSError):
                os.set_blocking(connection.fileno(), False)
        # A thread that cannot send to a rank holds the lock until `close`.
        if self._lock.acquire(blocking=False):
            try:
                for connection in self._connections:
                    with suppress(OSError):
                        connection.send_bytes(_END)
            finally:
                self._lock.release()

    def close(self) -> None:
        """Close the connections. Threads that wait in ``send`` return. Idempotent."""
        close_all(self._connections)


class FollowerChannel:
    """The side of another rank. One thread receives.

    Args:
        connection: The connection to rank 0.
        explain: Returns the error of a lost connection.
    """

    def __init__(self, connection: Peer, explain: Explain) -> None:
        self._connection = connection
        self._explain = explain
        self.received = 0
        """Number of messages that were received."""

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Return the next message of rank 0; ``None`` once rank 0 has ended.

        Args:
            timeout: Seconds to wait for it; ``None``: without limit.

        Raises:
            DistributedError: The connection to rank 0 is lost.
            TimeoutError: There is no message within ``timeout``.
        """
        if timeout is not None and not self._connection.poll(timeout):
            raise TimeoutError(f"rank 0 has sent nothing within {timeout} s")
        try:
            message = self._connection.recv_bytes(MAX_MESSAGE_BYTES)
        except (OSError, EOFError) as error:
            raise self._explain(error) from error
        self.received += 1
        return None if message == _END else message


def close_all(connections: Sequence[Peer]) -> None:
    """Close connections that other threads may be using. Idempotent."""
    for connection in connections:
        # Unlike `close`, wakes threads that wait for the connection.
        with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            connection.close()


def broadcast(array: mx.array, group: mx.distributed.Group) -> mx.array:
    """Return the values of an array on rank 0, dispatched, not waited for.

    It is evaluated apart from what uses it: the order of the collective operations of a graph
    depends on all of its arrays that are not evaluated, and rank 0 has other ones.

    If a collective operation fails, its result is undefined, and MLX computes with it until the
    error is raised. An undefined token id crashes the process, since MLX checks no bounds. Rank 0
    therefore uses its own values. Other ranks use values whose complement has arrived as well.

    Args:
        array: On rank 0 the values, on other ranks zeros of the same shape and type: integers.
        group: The process group.
    """
    is_leader = group.rank() == 0
    sent = mx.stack([array, ~array if is_leader else array])
    values, complements = found = mx.distributed.all_sum(sent, group=group)
    result = array if is_leader else mx.where(values == ~complements, values, 0)
    mx.async_eval(found, result)
    return result
