"""Lines in and out: of bounded length, and never waited for by what runs meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from .errors import LineTooLongError

__all__ = ["LineWriter", "read_lines"]

_CHUNK = 1 << 16


def read_lines(read: Callable[[int], bytes], limit: int) -> Iterator[bytes | LineTooLongError]:
    """The lines of what ``read`` gives, without their ends, until it gives nothing.

    ``read`` takes the most bytes to return. In place of a line of more than ``limit`` bytes there
    is an error, as soon as that is known; what remains of it is dropped as it comes.
    """
    held = bytearray()
    is_dropping = False
    while chunk := read(_CHUNK):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if not is_dropping:
                held += end
                yield _too_long(limit) if len(held) > limit else bytes(held)
            held.clear()
            is_dropping = False
        if is_dropping:
            continue
        held += rest
        if len(held) > limit:
            yield _too_long(limit)
            held.clear()
            is_dropping = True
    if held:
        yield bytes(held)


class LineWriter:
    """Writes whole lines to the file descriptor ``target``, each at once, on a thread of its own.

    ``broken`` is called, on that thread, when nobody reads any more.
    """

    def __init__(self, target: int, broken: Callable[[], None]) -> None:
        self._target = target
        self._broken = broken
        self._is_broken = False
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bridge-output", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queue a line. Never waits."""
        if not self._is_broken:
            self._lines.put(line)

    def close(self, seconds: float) -> bool:
        """Write what is queued, within so many seconds; returns whether that was enough."""
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
            self._broken()


def _too_long(limit: int) -> LineTooLongError:
    return LineTooLongError(f"the line has more than {limit} bytes", limit=limit)
