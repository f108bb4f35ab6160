"""Reading lines of bounded length, and writing lines without blocking the caller."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import BinaryIO

from .commands import ProtocolError

_CHUNK = 1 << 16


def read_lines(stream: BinaryIO, limit: int) -> Iterator[bytes | ProtocolError]:
    """Yield the lines of an input.

    Args:
        stream: The input.
        limit: The maximum length of a line in bytes, with its line break. In place of a longer line
            an error is yielded, as soon as the limit is exceeded; the rest of the line is
            discarded.
    """
    while line := stream.readline(limit + 1):
        if len(line) <= limit:
            yield line
            continue
        yield ProtocolError(f"the line has more than {limit} bytes")
        while line and not line.endswith(b"\n"):
            line = stream.readline(_CHUNK)


class LineWriter:
    """Writes lines on a dedicated thread, each without delay.

    Args:
        target: The file descriptor to write to.
        on_broken: Called on that thread when the reader has closed the pipe.
    """

    def __init__(self, target: int, on_broken: Callable[[], None]) -> None:
        self._target = target
        self._on_broken = on_broken
        self._is_broken = False
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bridge-output", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queue a line. Never blocks."""
        if not self._is_broken:
            self._lines.put(line)

    def close(self, seconds: float | None = None) -> bool:
        """Wait until all queued lines are written or the reader has closed the pipe.

        Args:
            seconds: The maximum time; ``None``: no limit.

        Returns:
            Whether that happened in time.
        """
        self._lines.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._target, rest) :]
        except OSError:
            self._is_broken = True
            self._on_broken()
