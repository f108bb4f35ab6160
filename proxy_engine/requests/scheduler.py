"""The queue of one engine: admits requests to the running ones, on the model thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from ..answers.compile_queue import CompileQueue
from ..errors import EngineClosedError, EngineError
from ..generation import DraftModel, model_bytes, wired_memory
from ..prompt_cache.prompt_caches import PromptCaches
from .continuous_batch import ContinuousBatch
from .job import Job
from .request import Request
from .sequence_factory import SequenceFactory
from .streams import Emit, Finish
from .worker import Worker

_MAX_ADMISSION_SECONDS = 0.02
"""How long generating sequences wait while prompts are admitted that share a prefill pass."""


class Scheduler:
    """Runs requests on a worker's thread, up to ``batch_size`` together.

    Args:
        worker: Owns the model thread.
        factory: Creates sequences.
        caches: Prompt caches of the model.
        compile_queue: Shared by compilations and slow masks.
        threads: Compute slow masks.
        batch_size: Maximum number of requests that run together.
        draft_model: Drafts tokens.
    """

    def __init__(
        self,
        worker: Worker,
        factory: SequenceFactory,
        caches: PromptCaches,
        compile_queue: CompileQueue,
        threads: ThreadPoolExecutor,
        *,
        batch_size: int,
        draft_model: DraftModel | None = None,
    ) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._is_scheduled = False
        self._running = ContinuousBatch(
            factory,
            caches,
            compile_queue,
            threads,
            batch_size=batch_size,
            draft_model=draft_model,
        )
        self._model_name = factory.loaded.name
        self._model_bytes = model_bytes(factory.loaded.model)
        if draft_model is not None:
            self._model_bytes += model_bytes(draft_model.model)

    @property
    def batch_size(self) -> int:
        """Maximum number of requests that run together."""
        return self._running.batch_size

    @property
    def waiting(self) -> int:
        """Requests that have not begun."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests that have begun and are not finished."""
        return len(self._running)

    def split_output_layer(self) -> None:
        """Find the model's output layer, before requests run. On the model thread."""
        self._running.split_output_layer()

    def probe_batches(self) -> None:
        """Determine which batches the model computes correctly. On the model thread."""
        self._running.probe()

    def submit(self, request: Request, emit: Emit) -> Future[Finish]:
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
        self._worker.guard.check()
        if self._worker.is_current:
            raise EngineError(
                "a request's own callbacks cannot use the same engine",
                hint="Custom samplers run on its thread; use another engine, or ask afterwards.",
            )
        # A stream is queued when its first event is requested, not when it is created.
        request.created = time.perf_counter()
        job = Job(request, emit)
        job.trace(self._model_name)
        with self._lock:
            if self._worker.is_closing:
                raise self._worker.closed_error()
            self._worker.abort_with(job.future)
            self._waiting.append(job)
            if self._is_scheduled:
                return job.future
            self._is_scheduled = True
        self._schedule()
        return job.future

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
                    self._admit()
                    self._running.run_round(others_wait=bool(self._waiting))
                except Exception as error:
                    # A failed forward pass concerns every sequence in it.
                    self._running.fail_all(self._worker.explain(error))
                with self._lock:
                    if not (self._waiting or len(self._running)):
                        self._is_scheduled = False
                        return True
                # After a round, so that calls and requests do not starve each other.
                if self._worker.is_awaited:
                    return False

    def _admit(self) -> None:
        """Begin waiting requests if there is room.

        Cancelled requests finish at once, whatever their place in the queue. So do answers that are
        forced throughout, which is why several requests may be admitted.
        """
        if not self._waiting:
            return
        with self._lock:
            cancelled = [job for job in self._waiting if job.is_cancelled]
            for job in cancelled:
                self._waiting.remove(job)
        for job in cancelled:
            self._running.begin(job)
        started = time.perf_counter()
        for _ in range(self.batch_size):
            is_late = time.perf_counter() - started > _MAX_ADMISSION_SECONDS
            if is_late and self._running.is_prefilling and self._running.is_generating:
                return
            with self._lock:
                first = self._waiting[0] if self._waiting else None
            if first is None or not self._running.has_room_for(first.request):
                return
            if self._running.is_prefilling and not self._running.can_join_prefill(first.request):
                return
            with self._lock:
                if not self._waiting:
                    return
                job = self._waiting.popleft()
            self._running.begin(job)

    def _fail_all(self, error: BaseException) -> None:
        with self._lock:
            self._is_scheduled = False
            waiting, self._waiting = self._waiting, deque()
        self._running.fail_all(error)
        for job in waiting:
            job.fail(error)
