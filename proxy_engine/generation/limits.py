"""How long an answer may take: in seconds, and the way it is led to its end."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

__all__ = ["Deadline", "end_boost"]

_MOST_LEANING = 20.0
"""Added to logits of tokens that bring the end nearer, when the last token is written: ``e^20``
times as likely, which outweighs nearly anything."""

_RESERVE = 1.1
"""By how much a token may take longer than those before it."""


@dataclass(slots=True)
class Deadline:
    """A time by which an answer should be complete, by the clock of ``time.perf_counter``."""

    end: float
    first: float | None = None
    """When the first token was there."""

    @property
    def is_over(self) -> bool:
        """Whether the time has come."""
        return time.perf_counter() >= self.end

    def tokens_left(self, written: int) -> int | None:
        """How many tokens more there is time for, as quickly as the last ``written`` came.

        ``None``: no speed is known yet.
        """
        now = time.perf_counter()
        if self.first is None:
            self.first = now if written else None
            return 0 if now >= self.end else None
        if written < 2:
            return 0 if now >= self.end else None
        each = _RESERVE * (now - self.first) / (written - 1)
        return max(0, math.floor((self.end - now) / each)) if each > 0 else None


def end_boost(written: int, soft: int, most: int) -> float:
    """What to add to the logits of tokens that bring the end nearer: 0 up to the soft limit.

    It grows with every token beyond ``soft``, in proportion to what is used of the tokens from
    there to ``most``. In nats.
    """
    if written < soft:
        return 0.0
    return _MOST_LEANING * min(1.0, (written + 1 - soft) / max(1, most - soft))
