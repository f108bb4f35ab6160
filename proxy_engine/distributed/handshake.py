"""Proof of the run's secret on a new connection.

Both sides answer a challenge with an HMAC (RFC 2104) of it, so that neither connects to a process
that is not part of the run. The secret is not sent. Messages that follow are not encrypted.

1. Rank 0 sends 32 random bytes.
2. The other rank sends 32 random bytes of its own, a description of itself as JSON, and the HMAC of
   all of these.
3. Rank 0 sends the HMAC of both sides' random bytes, in the other order.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from collections.abc import Mapping
from typing import Any

from .frames import frame, read_frame

_RANDOM_BYTES = 32
_DIGEST = "sha256"
_DIGEST_BYTES = 32
_MAX_BYTES = 4096


class HandshakeError(ConnectionError):
    """The other process does not know the secret, or does not follow the protocol."""


def new_secret() -> bytes:
    """Return a random secret of 32 bytes."""
    return secrets.token_bytes(_RANDOM_BYTES)


def check_peer(connection: socket.socket, secret: bytes) -> dict[str, Any]:
    """Check a new connection on rank 0, and return how the other rank describes itself.

    Raises:
        HandshakeError: The other process does not know the secret.
        OSError: The connection is lost, or its time limit has passed.
    """
    ours = secrets.token_bytes(_RANDOM_BYTES)
    connection.sendall(frame(ours))
    answer = read_frame(connection, _MAX_BYTES)
    theirs, text = answer[:_RANDOM_BYTES], answer[_RANDOM_BYTES:-_DIGEST_BYTES]
    proof = answer[-_DIGEST_BYTES:]
    if not hmac.compare_digest(proof, _proof(secret, b"rank", ours, theirs, text)):
        raise HandshakeError("another process has connected, which does not know the secret")
    connection.sendall(frame(_proof(secret, b"leader", theirs, ours)))
    # JSON that was written with the secret.
    described: dict[str, Any] = json.loads(text)
    return described


def prove(connection: socket.socket, secret: bytes, described: Mapping[str, Any]) -> None:
    """Prove the secret to rank 0, and check that it knows the secret.

    Args:
        connection: The new connection.
        secret: The secret.
        described: What rank 0 should know of this rank.

    Raises:
        HandshakeError: The other process does not know the secret.
        OSError: The connection is lost, or its time limit has passed.
    """
    theirs = read_frame(connection, _MAX_BYTES)
    ours = secrets.token_bytes(_RANDOM_BYTES)
    text = json.dumps(described).encode()
    proof = _proof(secret, b"rank", theirs, ours, text)
    connection.sendall(frame(ours + text + proof))
    answer = read_frame(connection, _MAX_BYTES)
    if not hmac.compare_digest(answer, _proof(secret, b"leader", ours, theirs)):
        raise HandshakeError("the process at rank 0's address does not know the secret")


def _proof(secret: bytes, *parts: bytes) -> bytes:
    # Lengths keep different parts with equal concatenations apart.
    return hmac.digest(secret, b"".join(frame(part) for part in parts), _DIGEST)
