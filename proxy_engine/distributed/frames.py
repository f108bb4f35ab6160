"""Messages on a TCP connection: four bytes of length, big-endian, and then the message."""

from __future__ import annotations

import socket
import struct

MAX_MESSAGE_BYTES = 64 << 20
"""Maximum length of a message. The longest ones have the token ids of a chunk of the prompt."""

_LENGTH = struct.Struct(">I")
LENGTH_BYTES = _LENGTH.size


class ConnectionEndedError(ConnectionError):
    """The other process has closed the connection."""


class FrameTooLongError(ConnectionError):
    """The length of a message exceeds the limit."""


def frame(message: bytes, max_bytes: int = MAX_MESSAGE_BYTES) -> bytes:
    """Return the message with its length.

    Raises:
        FrameTooLongError: The message is longer than ``max_bytes``.
    """
    check_length(len(message), max_bytes)
    return _LENGTH.pack(len(message)) + message


def length_of(header: bytes, max_bytes: int = MAX_MESSAGE_BYTES) -> int:
    """Return the length of the message that follows the first ``LENGTH_BYTES`` bytes.

    Raises:
        FrameTooLongError: The length exceeds ``max_bytes``.
    """
    (length,) = _LENGTH.unpack(header)
    check_length(length, max_bytes)
    return int(length)


def read_frame(connection: socket.socket, max_bytes: int = MAX_MESSAGE_BYTES) -> bytes:
    """Return the next message.

    Raises:
        ConnectionEndedError: The connection ends before the message is complete.
        FrameTooLongError: The length exceeds ``max_bytes``.
        OSError: The connection is lost, or its time limit has passed.
    """
    header = _read(connection, LENGTH_BYTES)
    return _read(connection, length_of(header, max_bytes))


def check_length(length: int, max_bytes: int) -> None:
    """Raise ``FrameTooLongError`` if the length of a message exceeds ``max_bytes``."""
    if length > max_bytes:
        raise FrameTooLongError(f"a message has {length} bytes; the limit is {max_bytes}")


def _read(connection: socket.socket, count: int) -> bytes:
    pieces = []
    while count:
        piece = connection.recv(count, socket.MSG_WAITALL)
        if not piece:
            raise ConnectionEndedError("the connection was closed")
        pieces.append(piece)
        count -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
