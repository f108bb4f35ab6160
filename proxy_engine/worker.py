"""One thread that owns the model.

MLX's streams belong to threads: what one thread has described, no other can evaluate. A single
thread that runs every request, in the order they came, is therefore both the queue and the lock,
and a caller that is interrupted leaves nothing half done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from .errors import EngineClosedError

__all__ = ["Worker"]

T = TypeVar("T")


class Worker:
    """Runs submitted calls one by one on a thread of its own.

    The thread is a daemon, so that an interrupted program can end; ``close`` lets it end in
    order.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=_run, args=(self._jobs, self._closing), name=name, daemon=True
        )
        self._thread.start()

    @property
    def is_closing(self) -> bool:
        """Whether ``close`` was called. A long call should look, and return early."""
        return self._closing.is_set()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue ``call``. Raises ``EngineClosedError`` after ``close``."""
        future: Future[T] = Future()
        with self._lock:
            if self.is_closing:
                raise EngineClosedError("the engine is closed")
            self._jobs.put((future, call))
        return future

    def close(self) -> None:
        """Refuse new calls, fail queued ones, and wait for the one that runs. Idempotent."""
        with self._lock:
            if not self.is_closing:
                self._closing.set()
                self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _run(
    jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None], closing: threading.Event
) -> None:
    while (job := jobs.get()) is not None:
        future, call = job
        if closing.is_set():
            if future.set_running_or_notify_cancel():
                future.set_exception(EngineClosedError("the engine was closed"))
        elif future.set_running_or_notify_cancel():
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
        # While waiting for the next job, keep nothing of this one alive.
        del job, future, call
