"""Admission of requests: how many answers there are, on which model, and how all of them end."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from .errors import ApiError, shutting_down
from .host import CheckModel, Host, Lease
from .metrics import Metrics
from .models import ModelChoice

_MAX_RETRY_SECONDS = 60


class Admission:
    """Admits requests: counts their answers, leases the model to them, and can cancel them all.

    The engine itself decides which of the admitted answers run. For one event loop.

    Args:
        host: Has the model.
        metrics: Counts refused answers, and knows how long an answer takes, for ``Retry-After``.
        max_running: Answers that run at a time.
        max_waiting: Answers that wait at a time.
    """

    def __init__(self, host: Host, metrics: Metrics, *, max_running: int, max_waiting: int) -> None:
        self._host = host
        self._metrics = metrics
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._admitted = 0
        # Recordings are decoded in memory. Waiting ones are in files.
        self._recordings = asyncio.Semaphore(max_running)
        self._cancels: set[Callable[[], None]] = set()
        self.is_closed = False

    @property
    def running(self) -> int:
        """The number of answers that run."""
        return min(self._admitted, self._max_running)

    @property
    def waiting(self) -> int:
        """The number of answers that wait."""
        return self._admitted - self.running

    @asynccontextmanager
    async def admit(
        self, answers: int, choice: ModelChoice, check: CheckModel | None = None
    ) -> AsyncIterator[Lease]:
        """Count answers, all or none, and lease them a model within the context.

        Args:
            answers: The number of answers.
            choice: The model.
            check: As in ``Host.lease``.

        Raises:
            ApiError: 400 for more answers than can be admitted; 503 if there is no place for them,
                or the server shuts down; or as ``Host.lease``.
            ProxyError: As ``check`` raises it.
        """
        recordings = self._recordings if choice.transcribes else contextlib.nullcontext()
        with self._counted(answers):
            async with self._host.lease(choice, check) as lease, recordings:
                # The server may have begun to shut down meanwhile.
                self._check_open()
                yield lease

    @contextmanager
    def cancellable(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Let ``cancel_all`` call ``cancel`` within the context."""
        self._cancels.add(cancel)
        try:
            yield
        finally:
            self._cancels.discard(cancel)

    def close(self) -> None:
        """Refuse new requests."""
        self.is_closed = self._host.is_draining = True

    def cancel_all(self) -> None:
        """Cancel all answers; each ends at its next token."""
        for cancel in list(self._cancels):
            cancel()

    @contextmanager
    def _counted(self, answers: int) -> Iterator[None]:
        size = self._max_running + self._max_waiting
        if answers > size:
            raise ApiError(
                400, f"{answers} answers are too many; the maximum is {size}", code="too_many"
            )
        self._check_open()
        if self._admitted + answers > size:
            self._metrics.refused.inc(answers)
            raise ApiError(
                503,
                f"the queue is full: {self.running} answers run, {self.waiting} wait",
                code="queue_full",
                headers={"Retry-After": str(self._retry_seconds())},
            )
        self._admitted += answers
        try:
            yield
        finally:
            self._admitted -= answers

    def _check_open(self) -> None:
        if self.is_closed:
            raise shutting_down()

    def _retry_seconds(self) -> int:
        rounds = (self._admitted - self._max_running) / self._max_running + 1
        seconds = math.ceil(rounds * (self._metrics.mean_answer_seconds or 1.0))
        return min(_MAX_RETRY_SECONDS, max(1, seconds))
