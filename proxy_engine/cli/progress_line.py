"""One line on a terminal that is written over as work goes on."""

from __future__ import annotations

import time
from typing import TextIO

__all__ = ["ProgressLine"]

_ERASE = "\r\x1b[K"
_SECONDS_BETWEEN_UPDATES = 0.1


class ProgressLine:
    """Shows the latest status. Where ``stream`` is no terminal, or is ``None``, it is silent."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None
        self._shown = False
        self._next = 0.0

    def show(self, text: str) -> None:
        """Put ``text`` in place of what is shown, though not more often than eyes can follow."""
        if self._stream is not None and time.monotonic() >= self._next:
            self._stream.write(f"{_ERASE}{text}")
            self._stream.flush()
            self._shown = True
            self._next = time.monotonic() + _SECONDS_BETWEEN_UPDATES

    def clear(self) -> None:
        """Take the line away."""
        if self._stream is not None and self._shown:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._shown = False
