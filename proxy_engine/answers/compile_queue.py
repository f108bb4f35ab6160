"""Bounded, cancellable compilation that shares one processor fairly.

Python runs one thread at a time, so concurrent compilations slow down one another and the model's
thread. Therefore one compilation works at a time. At a checkpoint it passes the processor to the
waiting compilation that has used the least processor time: *least attained service first*
(Kleinrock, "Queueing Systems", vol. 2, 1976). A short job waits for a long one at most until its
next checkpoint.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from state_machines.budgets import step_budget

from ..errors import CompileLimitError, RequestCancelledError

T = TypeVar("T")

_POLITENESS_SECONDS = 0.0001
"""Sleep at a checkpoint, in seconds. It releases the interpreter lock to waiting threads."""

_SECONDS_BETWEEN_CHECKS = 0.05


class CompileQueue:
    """The jobs of an engine that wait for the processor. Not re-entrant."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_busy = False
        self._waiting: set[tuple[float, int]] = set()
        self._order = itertools.count()

    def enter(self, job: CompileJob) -> None:
        """Wait for the processor. If ``job.check`` raises, stop waiting."""
        with self._changed:
            place = (job.used_seconds, next(self._order))
            self._waiting.add(place)
            try:
                while self._is_busy or place != min(self._waiting):
                    self._changed.wait(_SECONDS_BETWEEN_CHECKS)
                    job.check()
                self._is_busy = True
            finally:
                self._waiting.remove(place)
                self._changed.notify_all()

    def leave(self) -> None:
        """Free the processor."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()

    def has_shorter(self, job: CompileJob) -> bool:
        """Return whether a job waits that has used less processor time."""
        with self._changed:
            return any(used < job.used_seconds for used, _ in self._waiting)


class CompileJob:
    """Compiles a response format and tools, the first mask, and the first completion plan.

    Not safe to share between threads. All calls of :meth:`run` together use at most
    ``max_seconds`` of processor time, in addition to the step limits of
    ``state_machines.budgets``.

    Args:
        queue: Shared by all jobs of an engine; ``None``: not shared.
        cancelled: Ends the job at its next checkpoint.
        max_seconds: Limit on processor time; ``None``: no limit.

    Attributes:
        used_seconds: Processor time so far.
    """

    def __init__(
        self,
        queue: CompileQueue | None = None,
        cancelled: threading.Event | None = None,
        max_seconds: float | None = None,
    ) -> None:
        self._queue = queue or CompileQueue()
        self._cancelled = cancelled or threading.Event()
        self._max_seconds = max_seconds
        self._since = 0.0
        self.used_seconds = 0.0

    def run(self, work: Callable[[], T]) -> T:
        """Return ``work()``. The work must not wait for another job.

        Raises:
            CompileLimitError: The job takes more than ``max_seconds``.
            RequestCancelledError: ``cancelled`` was set.
        """
        self.check()
        self._queue.enter(self)
        self._since = time.thread_time()
        is_working = True

        def checkpoint() -> None:
            nonlocal is_working
            self._charge()
            self.check()
            if self._queue.has_shorter(self):
                self._queue.leave()
                is_working = False
                self._queue.enter(self)
                is_working = True
            time.sleep(_POLITENESS_SECONDS)

        try:
            with step_budget(checkpoint=checkpoint):
                return work()
        finally:
            self._charge()
            if is_working:
                self._queue.leave()

    def check(self) -> None:
        """Raise if the job is cancelled or over its limit."""
        if self._cancelled.is_set():
            raise RequestCancelledError("the request was cancelled before it began")
        if self._max_seconds is not None and self.used_seconds > self._max_seconds:
            raise CompileLimitError(
                f"compiling the answer's grammar took more than {self._max_seconds:g} seconds of "
                "processor time",
                seconds=self._max_seconds,
                hint="Simplify the schema, pattern, grammar or tools",
            )

    def _charge(self) -> None:
        now = time.thread_time()
        self.used_seconds += now - self._since
        self._since = now


class CompileCache(Generic[T]):
    """An LRU cache of compiled values. Thread-safe.

    No lock is held during a compilation. A second request for a key that is being compiled waits
    for the first; requests for other keys do not. Errors are not cached: a waiting request then
    compiles for itself.

    Args:
        capacity: Maximum number of values.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._compiling: set[Hashable] = set()
        self._changed = threading.Condition()

    def get(self, key: Hashable, compile: Callable[[], T], job: CompileJob) -> T:
        """Return the value of a key; compile it with ``job.run(compile)`` if it is missing.

        Raises:
            ProxyError: ``compile`` raised it, or ``job`` was stopped.
        """
        with self._changed:
            while key in self._compiling:
                self._changed.wait(_SECONDS_BETWEEN_CHECKS)
                job.check()
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            self._compiling.add(key)
        try:
            value = job.run(compile)
            with self._changed:
                self._values[key] = value
                if len(self._values) > self._capacity:
                    self._values.popitem(last=False)
            return value
        finally:
            with self._changed:
                self._compiling.remove(key)
                self._changed.notify_all()
