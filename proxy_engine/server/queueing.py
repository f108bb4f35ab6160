"""Admission control: how many answers run and wait at a time.

The engine schedules the answers itself. This module only counts them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import ApiError, shutting_down

_MAX_RETRY_SECONDS = 60


class Queue:
    """Slots for running and waiting answers. For one event loop.

    Args:
        max_running: Answers that run at a time.
        max_waiting: Answers that wait at a time.
        mean_seconds: Returns the mean duration of an answer, for ``Retry-After``.
        on_refused: Called with the number of answers that were refused because the queue is full.
    """

    def __init__(
        self,
        max_running: int,
        max_waiting: int,
        mean_seconds: Callable[[], float],
        on_refused: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._mean_seconds = mean_seconds
        self._on_refused = on_refused
        self._taken = 0
        self.is_closed = False

    @property
    def running(self) -> int:
        """The number of answers that run."""
        return min(self._taken, self._max_running)

    @property
    def waiting(self) -> int:
        """The number of answers that wait."""
        return self._taken - self.running

    @contextmanager
    def slots(self, count: int) -> Iterator[None]:
        """Hold slots for ``count`` answers, all or none, within the context.

        Raises:
            ApiError: 400 for more answers than the queue has slots; 503 if it is full or closed.
        """
        size = self._max_running + self._max_waiting
        if count > size:
            raise ApiError(
                400, f"{count} answers are too many; the maximum is {size}", code="too_many"
            )
        self.check_open()
        if self._taken + count > size:
            self._on_refused(count)
            raise ApiError(
                503,
                f"the queue is full: {self.running} answers run, {self.waiting} wait",
                code="queue_full",
                headers={"Retry-After": str(self._retry_seconds())},
            )
        self._taken += count
        try:
            yield
        finally:
            self._taken -= count

    def check_open(self) -> None:
        """Raise ``ApiError`` (503) if the queue is closed."""
        if self.is_closed:
            raise shutting_down()

    def _retry_seconds(self) -> int:
        rounds = (self._taken - self._max_running) / self._max_running + 1
        return min(_MAX_RETRY_SECONDS, max(1, math.ceil(rounds * self._mean_seconds())))
