"""How many answers may be asked for at a time: some run, some wait, others are told to come back.

The engine itself runs requests in the order they come, several together. This only counts them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import ApiError, shutting_down

__all__ = ["Queue"]

_LONGEST_WAIT = 60


class Queue:
    """Places for ``running`` answers and ``waiting`` ones. For one event loop.

    ``usual_seconds`` tells how long an answer takes, to say when to come back; ``refused`` is told
    of how many answers there was no room for.
    """

    def __init__(
        self,
        running: int,
        waiting: int,
        usual_seconds: Callable[[], float],
        refused: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._running = running
        self._waiting = waiting
        self._usual_seconds = usual_seconds
        self._refused = refused
        self._taken = 0
        self.is_closed = False

    @property
    def running(self) -> int:
        """How many run."""
        return min(self._taken, self._running)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return self._taken - self.running

    @contextmanager
    def places(self, count: int) -> Iterator[None]:
        """Take places for ``count`` answers, all or none, while the context lasts.

        Raises ``ApiError``: 400 for more than there ever are, 503 where they are taken, or where
        the queue was closed.
        """
        most = self._running + self._waiting
        if count > most:
            raise ApiError(
                400, f"{count} answers at once are too many; {most} are the most", code="too_many"
            )
        self.check_open()
        if self._taken + count > most:
            self._refused(count)
            raise ApiError(
                503,
                f"{self.running} answers run and {self.waiting} wait; there is no room for more",
                code="queue_full",
                headers={"Retry-After": str(self._seconds_until_room())},
            )
        self._taken += count
        try:
            yield
        finally:
            self._taken -= count

    def check_open(self) -> None:
        """Raise ``ApiError`` (503) where the queue was closed."""
        if self.is_closed:
            raise shutting_down()

    def _seconds_until_room(self) -> int:
        rounds = (self._taken - self._running) / self._running + 1
        return min(_LONGEST_WAIT, max(1, math.ceil(rounds * self._usual_seconds())))
