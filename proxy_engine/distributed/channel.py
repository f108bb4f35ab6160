"""Connections between ranks over TCP: the control channel, and heartbeats.

On the control channel, rank 0 sends messages to all other ranks, in order. Heartbeats have
connections of their own, and report failures. ``multiprocessing.connection`` delimits messages.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeAlias

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


def set_timeout(connection: Peer, seconds: float) -> None:
    """Limit the time of each read, which then raises ``BlockingIOError``; 0 for no limit."""
    whole = int(seconds)
    limit = struct.pack("@ll", whole, int((seconds - whole) * 1e6))
    with socket.socket(fileno=connection.fileno()) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        shared.detach()


BEAT_SECONDS = 1.0
"""Time between two heartbeats."""

SILENCE_SECONDS = 6.0
"""Time without a heartbeat after which a rank has failed."""

STALL_SECONDS = 600.0
"""Time without receiving the next message after which a rank has failed. A rank may take longer to
load its shard than rank 0 does, which goes on to send messages."""

_MAX_BEAT_BYTES = 1 << 16


class PeerWatch(Protocol):
    """Receives what happens to the peers, on the thread of the heartbeats."""

    def peer_failed(self, failure: Failure) -> None:
        """A peer has failed, or has reported the failure of a rank."""

    def leader_ended(self) -> None:
        """Rank 0 has ended its run."""


@dataclass(slots=True)
class _Rank:
    """Another rank, and how far it is.

    Attributes:
        number: Its number.
        connection: The connection.
        heard: When it was last heard.
        received: Messages of the control channel that it had received then.
        advanced: When it last received one, or there was none.
    """

    number: int
    connection: Peer
    heard: float = field(default_factory=time.monotonic)
    received: int = 0
    advanced: float = field(default_factory=time.monotonic)


class Liveness:
    """Sends heartbeats to peers, and reads theirs, on a thread.

    Args:
        peers: The connections: rank 0's with all others, or another rank's with rank 0.
        watch: Receives failures.
        count: Returns how many messages of the control channel this rank has sent or received.
        leads: Whether this is rank 0.
    """

    def __init__(
        self,
        peers: Mapping[int, Peer],
        watch: PeerWatch,
        count: Callable[[], int],
        *,
        leads: bool,
    ) -> None:
        self._peers = [_Rank(number, connection) for number, connection in peers.items()]
        self._watch = watch
        self._count = count
        self._leads = leads
        self._is_stopped = False
        self._lock = threading.Lock()
        for peer in self._peers:
            # Of a message whose beginning has arrived.
            set_timeout(peer.connection, SILENCE_SECONDS)
        threading.Thread(target=self._run, name="proxy-engine-liveness", daemon=True).start()

    def report(self, failure: Failure) -> None:
        """Tell all peers that a rank has failed. For any thread; does not block."""
        self._send({"failed": [failure.rank, failure.reason[: _MAX_BEAT_BYTES // 8]]})

    def end(self) -> None:
        """Tell all peers that rank 0 ends, and watch them no longer. Does not block."""
        self._is_stopped = True
        self._send({"ended": True})

    def stop(self) -> None:
        """Watch the peers no longer. Idempotent."""
        self._is_stopped = True

    def close(self) -> None:
        """Stop, and close the connections. Idempotent."""
        self._is_stopped = True
        close_all([peer.connection for peer in self._peers])

    def _send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message).encode()
        with self._lock:
            for peer in self._peers:
                # A peer that has stopped reading fails long before the buffer is full. The
                # connection may be closed meanwhile: a TypeError.
                with suppress(OSError, TypeError):
                    peer.connection.send_bytes(data)

    def _run(self) -> None:
        peers = {peer.connection: peer for peer in self._peers}
        following = time.monotonic()
        while not self._is_stopped:
            now = time.monotonic()
            if now >= following:
                self._send({"count": self._count()})
                following = now + BEAT_SECONDS
            try:
                ready = wait([*peers], following - now)
            except (OSError, ValueError):
                # The connections were closed.
                return
            for connection in ready:
                if not self._is_stopped:
                    self._read(peers[connection])  # type: ignore[index]
            self._check_times()

    def _read(self, peer: _Rank) -> None:
        """Read what a peer has sent."""
        try:
            message = json.loads(peer.connection.recv_bytes(_MAX_BEAT_BYTES))
        except (EOFError, ConnectionError):
            # Reset, if the process had not read all that was sent to it.
            self._watch.peer_failed(Failure(peer.number, "its connection was closed"))
        except (OSError, TypeError, ValueError) as error:
            # A connection that this process closes meanwhile is a TypeError.
            if not self._is_stopped:
                self._watch.peer_failed(Failure(peer.number, f"its connection is lost: {error}"))
        else:
            peer.heard = time.monotonic()
            self._receive(peer, message)

    def _receive(self, peer: _Rank, message: Mapping[str, Any]) -> None:
        if "failed" in message:
            rank, reason = message["failed"]
            self._watch.peer_failed(Failure(rank, reason))
        elif "ended" in message:
            self._is_stopped = True
            self._watch.leader_ended()
        elif message["count"] > peer.received:
            peer.received = message["count"]
            peer.advanced = peer.heard

    def _check_times(self) -> None:
        now = time.monotonic()
        for peer in self._peers:
            if self._is_stopped:
                return
            if not self._leads or peer.received >= self._count():
                peer.advanced = now
            if now - peer.heard > SILENCE_SECONDS:
                reason = f"no heartbeat for {SILENCE_SECONDS:.0f} s"
                self._watch.peer_failed(Failure(peer.number, reason))
            elif now - peer.advanced > STALL_SECONDS:
                reason = f"it has received no message for {STALL_SECONDS:.0f} s"
                self._watch.peer_failed(Failure(peer.number, reason))
