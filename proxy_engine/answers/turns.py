"""Fair sharing of one processor among threads that compile.

Python runs one thread at a time, so concurrent compilations slow down one another and the model's
thread. Therefore one compilation works at a time. At a checkpoint it hands the turn to the waiting
compilation that has used the least processor time: *least attained service first* (Kleinrock,
"Queueing Systems", vol. 2, 1976). A short job waits for a long one at most until its next
checkpoint.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

_SECONDS_BETWEEN_CHECKS = 0.05


class Turns:
    """Lets one of several threads work at a time. Not re-entrant.

    ``used`` is the processor time, in seconds, that the caller's job has used so far.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: list[tuple[float, int, threading.Event]] = []
        self._order = itertools.count()

    def take(self, used: float, check: Callable[[], None]) -> None:
        """Wait for the turn.

        Args:
            used: Processor time of the job so far, in seconds.
            check: Called at intervals; if it raises, the thread stops waiting.
        """
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            granted = self._enqueue(used)
        self._wait(granted, check)

    def give(self) -> None:
        """End the turn."""
        with self._lock:
            self._pass_on()

    def let_others(self, used: float, check: Callable[[], None]) -> None:
        """Pass the turn to a job that has used less, and wait for it again.

        If ``check`` raises, the thread has no turn.
        """
        with self._lock:
            if not self._waiting or self._waiting[0][0] >= used:
                return
            granted = self._enqueue(used)
            self._pass_on()
        self._wait(granted, check)

    def _enqueue(self, used: float) -> threading.Event:
        granted = threading.Event()
        heapq.heappush(self._waiting, (used, next(self._order), granted))
        return granted

    def _pass_on(self) -> None:
        if self._waiting:
            _, _, granted = heapq.heappop(self._waiting)
            granted.set()
        else:
            self._is_taken = False

    def _wait(self, granted: threading.Event, check: Callable[[], None]) -> None:
        try:
            while not granted.wait(_SECONDS_BETWEEN_CHECKS):
                check()
        except BaseException:
            with self._lock:
                if granted.is_set():
                    self._pass_on()
                else:
                    self._waiting = [item for item in self._waiting if item[2] is not granted]
                    heapq.heapify(self._waiting)
            raise
