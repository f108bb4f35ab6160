"""One thread that owns the model.

MLX's streams belong to threads: what one thread has described, no other can evaluate. A single
thread that does all of a model's work, call by call, is therefore a lock as well, and a caller that
is interrupted leaves nothing half done.

Threads are not ended but lent again: MLX may abort the process when a thread that has used it
ends at the same moment as the interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from ..errors import EngineClosedError
from .process_guard import ProcessGuard

__all__ = ["Worker"]

T = TypeVar("T")


class Worker:
    """Runs submitted calls one by one, all on the same thread, until ``close``.

    Raises ``EngineForkedError`` in a process that was forked after the first worker was created:
    MLX does not work there.
    """

    def __init__(self) -> None:
        _first_guard().check()
        self.guard = ProcessGuard()
        """Raises in forked processes."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._drained = threading.Event()
        self._thread = _borrow()

    @property
    def is_closing(self) -> bool:
        """Whether ``close`` was called. A long call should look, and return early."""
        return self._closing.is_set()

    @property
    def is_awaited(self) -> bool:
        """Whether other calls are queued. A call that goes on and on should let them through."""
        return not self._thread.jobs.empty()

    @property
    def is_current(self) -> bool:
        """Whether this is the thread, on which nothing that is submitted can be waited for."""
        return threading.current_thread() is self._thread

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue ``call``. Raises ``EngineClosedError`` after ``close``; ``EngineForkedError``."""
        self.guard.check()
        future: Future[T] = Future()
        job = partial(self._run, future, call)
        # Nothing is made under the lock: the collector might close this worker meanwhile.
        with self._lock:
            if self.is_closing:
                raise EngineClosedError("the engine is closed")
            self._thread.jobs.put(job)
        return future

    def close(self) -> None:
        """Refuse new calls, fail queued ones, and wait for the one that runs. Idempotent.

        Does nothing in a forked process.
        """
        if self.guard.is_forked:
            return
        with self._lock:
            if not self.is_closing:
                self._closing.set()
                self._thread.jobs.put(self._give_back)
        # The last reference to an engine may be dropped on its own thread.
        if not self.is_current:
            self._drained.wait()

    def _run(self, future: Future[T], call: Callable[[], T]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        if self.is_closing:
            future.set_exception(EngineClosedError("the engine was closed"))
            return
        try:
            result = call()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _give_back(self) -> None:
        _give_back(self._thread)
        self._drained.set()


class _Thread(threading.Thread):
    """Calls what is put into ``jobs``, for ever. A daemon, so that a program can end."""

    def __init__(self) -> None:
        super().__init__(name="proxy-engine", daemon=True)
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            job = self.jobs.get()
            job()
            # While waiting for the next one, keep nothing of this one alive.
            del job


# Made with the first worker. A list, for it is filled in one step, without a lock: locks may be
# held for ever in a forked process.
_first: list[ProcessGuard] = []

_idle_threads: list[_Thread] = []
_idle_lock = threading.Lock()


def _first_guard() -> ProcessGuard:
    if not _first:
        _first.append(ProcessGuard())
    return _first[0]


def _borrow() -> _Thread:
    with _idle_lock:
        return _idle_threads.pop() if _idle_threads else _Thread()


def _give_back(thread: _Thread) -> None:
    with _idle_lock:
        _idle_threads.append(thread)
