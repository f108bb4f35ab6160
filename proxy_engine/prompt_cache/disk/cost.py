"""Whether reading a cache from disk is faster than processing its tokens."""

from __future__ import annotations

_WEIGHT = 0.3
"""Weight of a new measurement in the moving averages."""
_MIN_TOKENS = 16
"""Smallest measured pass. Smaller ones take as long as one token."""
_FORGET = 0.9
"""Factor on the cost of reading for each read that was not worthwhile, so that it is measured again
after some time."""


class ReadCost:
    """Moving averages of the measured cost of reading and of processing.

    Reading is worthwhile until both are known: on most devices a token takes longer to process than
    to read. A fast GPU processes the tokens of a small model faster than a disk delivers them.
    """

    def __init__(self) -> None:
        self._seconds_per_token: float | None = None
        self._seconds_per_byte: float | None = None

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        """Take note of a pass over a prompt."""
        if tokens >= _MIN_TOKENS:
            self._seconds_per_token = _average(self._seconds_per_token, seconds / tokens)

    def observe_read(self, nbytes: int, seconds: float) -> None:
        """Take note of a read."""
        if nbytes:
            self._seconds_per_byte = _average(self._seconds_per_byte, seconds / nbytes)

    def is_worthwhile(self, nbytes: int, tokens: int) -> bool:
        """Whether reading ``nbytes`` is faster than processing ``tokens``."""
        if self._seconds_per_token is None or self._seconds_per_byte is None:
            return True
        if nbytes * self._seconds_per_byte <= tokens * self._seconds_per_token:
            return True
        self._seconds_per_byte *= _FORGET
        return False


def _average(average: float | None, value: float) -> float:
    return value if average is None else average + _WEIGHT * (value - average)
