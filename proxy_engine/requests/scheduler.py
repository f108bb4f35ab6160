"""The queue of an engine: it admits requests to the batch, on the model thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from ..errors import EngineClosedError
from ..runtime.device_memory import wired_memory
from ..runtime.worker import Worker
from .continuous_batch import ContinuousBatch
from .request import Emit, Finish, Job, Request, ignore

_MAX_ADMISSION_SECONDS = 0.02
"""How long generating sequences wait while prompts are admitted that share a prefill pass, and how
long the first request of an idle engine waits for others that are announced."""


class Scheduler:
    """Runs requests on a worker's thread, up to ``batch_size`` together.

    Args:
        worker: Owns the model thread.
        batch: The requests that run.
        model_name: The model's name, in spans.
        model_bytes: Memory of the model's weights, which are wired while requests run.
    """

    def __init__(
        self, worker: Worker, batch: ContinuousBatch, *, model_name: str, model_bytes: int
    ) -> None:
        self.batch = batch
        self._worker = worker
        self._model_name = model_name
        self._model_bytes = model_bytes
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._announcements = 0
        self._waiting: deque[Job] = deque()
        self._is_scheduled = False

    @property
    def waiting(self) -> int:
        """Requests that have not begun."""
        return len(self._waiting)

    def submit(self, request: Request, emit: Emit = ignore) -> Future[Finish]:
        """Queue a request.

        Args:
            request: The request.
            emit: Receives its events on the model thread, and those of ``Finish``.

        Returns:
            The end of the answer, to be called by the thread that waits for it.

        Raises:
            EngineClosedError: The engine is closed.
            EngineForkedError: The process was forked.
            EngineError: Called on the model thread, which cannot wait for itself.
        """
        self._worker.check_caller()
        # A stream is queued when its first event is requested, not when it is created.
        request.created = time.perf_counter()
        job = Job(request, emit)
        job.trace(self._model_name)
        with self._lock:
            if self._worker.is_closing:
                raise self._worker.closed_error()
            self._worker.abort_with(job.future)
            self._waiting += job.answers()
            if self._announcements:
                self._changed.notify()
            if self._is_scheduled:
                return job.future
            self._is_scheduled = True
        self._schedule()
        return job.future

    @contextmanager
    def announced(self) -> Iterator[None]:
        """Announce that the block queues several requests: an idle engine begins them together."""
        with self._lock:
            self._announcements += 1
        try:
            yield
        finally:
            with self._lock:
                self._announcements -= 1
                self._changed.notify()

    def _schedule(self) -> None:
        try:
            scheduled = self._worker.submit(self._run)
        except EngineClosedError as error:
            self._fail_all(error)
        else:
            scheduled.add_done_callback(self._after_run)

    def _after_run(self, run: Future[bool]) -> None:
        """Schedule the next run after other calls; after an error, fail all requests."""
        if self._worker.has_failed:
            # All requests have failed, and the model's thread may be blocked.
            return
        error = run.exception()
        if error is not None:
            self._fail_all(error)
        elif not run.result():
            self._schedule()

    def _run(self) -> bool:
        """Run rounds until all requests are finished; returns false if other calls wait."""
        with wired_memory(self._model_bytes):
            while True:
                if self._worker.is_closing:
                    raise EngineClosedError("the engine was closed")
                try:
                    if self._announcements and not len(self.batch):
                        self._await_announced()
                    if self._waiting:
                        self._admit()
                    self.batch.run_round(others_wait=bool(self._waiting))
                except Exception as error:
                    # A failed forward pass concerns every sequence in it.
                    self.batch.fail_pass(self._worker.explain(error))
                with self._lock:
                    if not (self._waiting or len(self.batch)):
                        self._is_scheduled = False
                        return True
                # After a round, so that calls and requests do not starve each other.
                if self._worker.is_awaited:
                    return False

    def _await_announced(self) -> None:
        """Wait for a moment, until the announced requests are queued or fill the batch."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._announcements or len(self._waiting) >= self.batch.batch_size,
                _MAX_ADMISSION_SECONDS,
            )

    def _admit(self) -> None:
        """Begin waiting requests if there is room.

        Cancelled requests finish at once, whatever their place in the queue. So do answers that are
        forced throughout, which is why several requests may be admitted.
        """
        with self._lock:
            cancelled = [job for job in self._waiting if job.is_cancelled]
            for job in cancelled:
                self._waiting.remove(job)
        for job in cancelled:
            self.batch.begin(job)
        started = time.perf_counter()
        for _ in range(self.batch.batch_size):
            is_late = time.perf_counter() - started > _MAX_ADMISSION_SECONDS
            with self._lock:
                first = self._waiting[0] if self._waiting else None
            if first is None or not self.batch.can_begin(first.request, is_late=is_late):
                return
            with self._lock:
                # Empty if the worker was aborted meanwhile.
                if not self._waiting:
                    return
                job = self._waiting.popleft()
            self.batch.begin(job)

    def _fail_all(self, error: BaseException) -> None:
        with self._lock:
            self._is_scheduled = False
            waiting, self._waiting = self._waiting, deque()
        self.batch.fail_all(error)
        for job in waiting:
            job.fail(error)
