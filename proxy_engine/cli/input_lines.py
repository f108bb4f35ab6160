"""The lines of an input of any size, as they come."""

from __future__ import annotations

import os
import select
import stat
from collections import deque
from typing import IO, NamedTuple, Self

__all__ = ["InputLine", "InputLines"]

_CHUNK = 1 << 16


class InputLine(NamedTuple):
    """A line, and its number in the input, from 1."""

    number: int
    content: bytes


class InputLines:
    """Iterates over the lines of ``source`` that are not blank.

    ``source`` is at a line's beginning, and read by nobody else. ``is_ready`` tells whether there
    is more to read at once: who has something to do need not wait for a pipe.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._descriptor = _descriptor(source)
        self._number = 0
        self._lines: deque[InputLine] = deque()
        self._begun: list[bytes] = []
        self._is_read = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> InputLine:
        if self.peek() is None:
            raise StopIteration
        return self._lines.popleft()

    def peek(self) -> InputLine | None:
        """Wait for the line that comes next; ``None`` at the end."""
        while not self._lines and not self._is_read:
            self._read()
        return self._lines[0] if self._lines else None

    def is_ready(self, seconds: float) -> bool:
        """Whether the next line, or the end, is there within some ``seconds``."""
        while not self._lines and not self._is_read:
            if self._descriptor is not None:
                readable, _, _ = select.select([self._descriptor], [], [], seconds)
                if not readable:
                    return False
            self._read()
        return True

    def count(self) -> int | None:
        """How many lines there are; ``None`` where they cannot be read twice.

        To be asked before anything is read.
        """
        if self._descriptor is None or not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            return None
        begin = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        try:
            with open(self._descriptor, "rb", closefd=False) as lines:
                return sum(1 for line in lines if line.strip())
        finally:
            os.lseek(self._descriptor, begin, os.SEEK_SET)

    def _read(self) -> None:
        # Nothing stays behind in the source's own buffer, which `select` would know nothing of.
        chunk: bytes = self._source.read1(_CHUNK)  # type: ignore[attr-defined]
        first, *more = chunk.split(b"\n")
        self._begun.append(first)
        for begun in more:
            self._add(b"".join(self._begun))
            self._begun = [begun]
        if not chunk:
            self._is_read = True
            self._add(b"".join(self._begun))

    def _add(self, line: bytes) -> None:
        self._number += 1
        if line.strip():
            self._lines.append(InputLine(self._number, line))


def _descriptor(source: IO[bytes]) -> int | None:
    try:
        return source.fileno()
    except OSError:
        # A stream in memory.
        return None
