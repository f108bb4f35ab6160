"""The thread that owns the model.

MLX's streams belong to threads: an array that one thread has created cannot be evaluated by another
one. A single thread therefore does all of a model's work, call by call. This also serializes the
work, and an interrupted caller leaves no call half done.

Threads are reused, never ended: MLX may abort the process if a thread that has used it ends at the
same moment as the interpreter.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from ..errors import DistributedError, EngineClosedError, EngineError, EngineForkedError

T = TypeVar("T")

_FORK_HINT = (
    "Start the process with the 'spawn' method of multiprocessing, and create the engine there; "
    "or fork before the first engine is created."
)


# The id of the process of the first worker; 0: there has been none.
_process = 0


def is_forked() -> bool:
    """Whether this process was forked after its parent had created the first worker.

    A fork copies the calling thread only. In the child the model thread does not exist, locks held
    by other threads stay locked, and MLX waits for threads that do not exist.
    """
    return _process not in (0, os.getpid())


def check_process() -> None:
    """Raise ``EngineForkedError`` in a forked child. To be called before a wait for its thread."""
    if is_forked():
        raise EngineForkedError(
            "this process was forked after an engine had been created", hint=_FORK_HINT
        )


class Worker:
    """Runs submitted calls in order on one thread, until ``close``.

    Raises:
        EngineForkedError: The process was forked after the first worker was created. MLX does not
            work there.
    """

    def __init__(self) -> None:
        global _process
        check_process()
        _process = os.getpid()
        self.explain: Callable[[BaseException], BaseException] = lambda error: error
        """Returns the error to report in place of one that a call has raised."""
        self._failure: DistributedError | None = None
        self._unfinished: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._drained = threading.Event()
        self._closers: list[Callable[[], None]] = []
        self._thread = _borrow_thread()

    @property
    def is_closing(self) -> bool:
        """Whether ``close`` was called. A long call should check this and return early."""
        return self._closing.is_set()

    @property
    def is_awaited(self) -> bool:
        """Whether other calls are queued. A long call should return and be submitted again."""
        return not self._thread.jobs.empty()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread; waiting for a submitted call would deadlock."""
        return threading.current_thread() is self._thread

    def check_caller(self) -> None:
        """Raise in a forked process, and on this thread, which cannot wait for itself."""
        check_process()
        if self.is_current:
            raise EngineError(
                "a request's own callbacks cannot use the same engine",
                hint="Custom samplers run on its thread; use another engine, or wait for the end.",
            )

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call.

        Raises:
            EngineClosedError: The worker is closed.
            EngineForkedError: The process was forked.
        """
        check_process()
        future: Future[T] = Future()
        job = partial(self._run, future, call)
        self.abort_with(future)
        # Allocate outside of the lock: the garbage collector might close this worker.
        with self._lock:
            if self.is_closing:
                future.cancel()
                raise self.closed_error()
            self._thread.jobs.put(job)
        return future

    def at_close(self, call: Callable[[], None]) -> None:
        """Add a last call, which runs when the worker is closed. It raises nothing."""
        self._closers.append(call)

    @property
    def has_failed(self) -> bool:
        """Whether ``abort`` was called."""
        return self._failure is not None

    def closed_error(self) -> EngineClosedError:
        """Return the error of calls after ``close`` or ``abort``."""
        return self._failure or EngineClosedError("the engine is closed")

    def abort_with(self, future: Future[Any]) -> None:
        """Let ``abort`` set its error on a future that is not done by then."""
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)

    def abort(self, error: DistributedError) -> None:
        """Set ``error`` on all futures, and raise it in later calls. For any thread.

        The current call may be blocked in MLX for ever; it is not waited for.
        """
        self._failure = error
        self._closing.set()
        self._drained.set()
        # A copy, which is atomic: futures that are done leave the set.
        for future in list(self._unfinished):
            with suppress(InvalidStateError):
                future.set_exception(error)

    def close(self) -> None:
        """Refuse new calls, fail queued calls, and wait for the current call. Idempotent.

        Does nothing in a forked process.

        Raises:
            KeyboardInterrupt: The wait was interrupted. The current call has ended even so: a
                program that exits while a thread is in MLX is aborted.
        """
        if is_forked():
            return
        with self._lock:
            if not self.is_closing:
                self._closing.set()
                self._thread.jobs.put(self._return_thread)
        # The last reference to an engine may be dropped on its own thread.
        if not self.is_current:
            self._wait_until_drained()

    def _wait_until_drained(self) -> None:
        interrupt: KeyboardInterrupt | None = None
        while not self._drained.is_set():
            try:
                self._drained.wait()
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _run(self, future: Future[T], call: Callable[[], T]) -> None:
        if self.has_failed or not future.set_running_or_notify_cancel():
            return
        # The worker may have been aborted.
        with suppress(InvalidStateError):
            if self.is_closing:
                future.set_exception(EngineClosedError("the engine was closed"))
                return
            try:
                result = call()
            except BaseException as error:
                future.set_exception(self.explain(error))
            else:
                future.set_result(result)

    def _return_thread(self) -> None:
        try:
            while self._closers:
                self._closers.pop()()
        finally:
            with _idle_lock:
                _idle_threads.append(self._thread)
            self._drained.set()


async def on_own_thread(call: Callable[[], T]) -> T:
    """Make a call that waits, in the caller's context, on a thread that ends with the call.

    The default executor of an event loop has few threads, which the program needs as well.
    Cancelling the task does not stop the call.
    """
    result: Future[T] = Future()
    # A cancelled task must not cancel the call's future, which is about to be set.
    result.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result.set_result(context.run(call))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="proxy-engine-wait", daemon=True).start()
    return await asyncio.wrap_future(result)


class _JobThread(threading.Thread):
    """Calls the items of ``jobs`` forever. A daemon, so that the program can end."""

    def __init__(self) -> None:
        super().__init__(name="proxy-engine", daemon=True)
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            job = self.jobs.get()
            job()
            # Do not keep the job's objects alive while waiting for the next one.
            del job


_idle_threads: list[_JobThread] = []
_idle_lock = threading.Lock()


def _borrow_thread() -> _JobThread:
    with _idle_lock:
        return _idle_threads.pop() if _idle_threads else _JobThread()
