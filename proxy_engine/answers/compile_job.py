"""The compilation of one request: bounded, cancellable, and sharing the processor fairly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from state_machines.budgets import step_budget

from ..errors import CompileLimitError, RequestCancelledError
from .turns import Turns

T = TypeVar("T")

_POLITENESS_SECONDS = 0.0001
"""Sleep at a checkpoint, in seconds. It releases the interpreter lock to waiting threads."""


class CompileJob:
    """Compiles a response format and tools, the first mask, and the first completion plan.

    Not safe to share between threads. All calls of :meth:`run` together use at most
    ``max_seconds`` of processor time, in addition to the step limits of
    ``state_machines.budgets``.

    Args:
        turns: Shared by all jobs of an engine; ``None``: not shared.
        cancelled: Ends the job at its next checkpoint.
        max_seconds: Limit on processor time; ``None``: no limit.
    """

    def __init__(
        self,
        turns: Turns | None = None,
        cancelled: threading.Event | None = None,
        max_seconds: float | None = None,
    ) -> None:
        self._turns = turns or Turns()
        self._cancelled = cancelled or threading.Event()
        self._max_seconds = max_seconds
        self._used = 0.0
        self._since = 0.0

    @property
    def used_seconds(self) -> float:
        """Processor time so far."""
        return self._used

    def run(self, work: Callable[[], T]) -> T:
        """Return ``work()``. The work must not wait for another job.

        Raises:
            CompileLimitError: The job takes more than ``max_seconds``.
            RequestCancelledError: ``cancelled`` was set.
        """
        self.check()
        self._turns.take(self._used, self.check)
        self._since = time.thread_time()
        has_turn = True

        def checkpoint() -> None:
            nonlocal has_turn
            self._charge()
            self.check()
            has_turn = False
            self._turns.let_others(self._used, self.check)
            has_turn = True
            time.sleep(_POLITENESS_SECONDS)

        try:
            with step_budget(checkpoint=checkpoint):
                return work()
        finally:
            self._charge()
            if has_turn:
                self._turns.give()

    def check(self) -> None:
        """Raise if the job is cancelled or over its limit."""
        if self._cancelled.is_set():
            raise RequestCancelledError("the request was cancelled before it began")
        if self._max_seconds is not None and self._used > self._max_seconds:
            raise CompileLimitError(
                f"compiling the answer's grammar took more than {self._max_seconds:g} seconds of "
                "processor time",
                seconds=self._max_seconds,
                hint="Simplify the schema, pattern, grammar or tools",
            )

    def _charge(self) -> None:
        now = time.thread_time()
        self._used += now - self._since
        self._since = now
