"""Heartbeats between rank 0 and the other ranks, and reports of failures."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, Protocol

from .channel import Failure, Peer, close_all
from .rendezvous import set_timeout

BEAT_SECONDS = 1.0
"""Time between two heartbeats."""

SILENCE_SECONDS = 6.0
"""Time without a heartbeat after which a rank has failed."""

STALL_SECONDS = 600.0
"""Time without receiving the next message after which a rank has failed. A rank may take longer to
load its shard than rank 0 does, which goes on to send messages."""

_MAX_BYTES = 1 << 16


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
        self._send({"failed": [failure.rank, failure.reason[: _MAX_BYTES // 8]]})

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
            message = json.loads(peer.connection.recv_bytes(_MAX_BYTES))
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
