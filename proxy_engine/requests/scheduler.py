"""The queue of one engine: which requests are run together, and when.

Continuous batching (Yu et al. 2022, "Orca"): requests join the batch as soon as there is room,
and leave it when they are finished, whatever the others do. A round reads some of one prompt and
lets every row write, so that a long prompt does not keep the others waiting.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..answers.turns import Turns
from ..errors import EngineClosedError, EngineError
from ..generation import (
    Batch,
    BatchProbe,
    Prefill,
    SequenceState,
    Step,
    can_join_prefill,
    extract_row,
    model_bytes,
    prefill_together,
    wired_memory,
)
from ..prompt_cache import PromptCaches
from ..results import GenerationResult
from .joining import may_join, step_size_of
from .request import Request
from .running import Emit, RunningRequest, SequenceFactory
from .slow_masks import SlowMasks
from .worker import Worker

__all__ = ["Scheduler"]

_log = logging.getLogger(__name__)

_SECONDS_TO_BEGIN = 0.02
"""How long rows that write wait at most while more prompts are begun that share a pass."""

_SECONDS_BETWEEN_ROUNDS = 0.01
"""How long a round waits for masks where there is nothing else to do."""


@dataclass(slots=True, eq=False)
class _Job:
    """A request with whom to tell of it. ``running`` once it has begun."""

    request: Request
    emit: Emit
    future: Future[GenerationResult[Any]]
    running: RunningRequest | None = None

    def fail(self, error: BaseException) -> None:
        # It may be done already, or be cancelled by whoever waits for it at this moment.
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class Scheduler:
    """Runs requests on a worker's thread, up to ``batch_size`` together.

    Where caches cannot be put together (quantized ones, or of bounded size), one at a time. A row
    whose mask takes long leaves the batch until it is there: ``threads`` compute such masks, in
    ``turns`` with what is being compiled.
    """

    def __init__(
        self,
        worker: Worker,
        maker: SequenceFactory,
        caches: PromptCaches,
        turns: Turns,
        threads: ThreadPoolExecutor,
        *,
        batch_size: int,
    ) -> None:
        self._worker = worker
        self._maker = maker
        self._caches = caches
        self.batch_size = batch_size
        """How many requests are run together at most."""
        self._lock = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._is_scheduled = False
        self._probe = BatchProbe(maker.loaded.model)
        self._batch = self._new_batch()
        # All that were in the batch, until they have been told how they ended.
        self._jobs: dict[SequenceState, _Job] = {}
        # Whose prompts are being read, together or one after the other. The first may also be read
        # already, and not be able to join yet.
        self._reading: list[tuple[_Job, Prefill]] = []
        self._is_read = False
        self._joins_prompts = True
        self._model_bytes = model_bytes(maker.loaded.model)
        self._slow = SlowMasks(turns, threads)

    @property
    def waiting(self) -> int:
        """How many requests have not been begun."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many requests have been begun, and are not finished."""
        return len(self._jobs) + len(self._reading)

    def probe_batches(self) -> None:
        """Find out which batches the model computes correctly. On the worker's thread."""
        if self.batch_size > 1:
            _ = self._probe.can_pad

    def submit(self, request: Request, emit: Emit) -> Future[GenerationResult[Any]]:
        """Queue a request.

        Raises ``EngineClosedError``, in forked processes ``EngineForkedError``; ``EngineError`` on
        the worker's thread, which cannot wait for itself.
        """
        self._worker.guard.check()
        if self._worker.is_current:
            raise EngineError(
                "what a request runs itself cannot ask the same engine",
                hint="Validators run on its thread; take another engine, or ask afterwards.",
            )
        # A stream that is made queues nothing until somebody reads it.
        request.made = time.perf_counter()
        job = _Job(request, emit, Future())
        with self._lock:
            if self._worker.is_closing:
                raise EngineClosedError("the engine is closed")
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
        """Go on where others had to be let through; fail what was left behind."""
        error = run.exception()
        if error is not None:
            self._fail_all(error)
        elif not run.result():
            self._schedule()

    def _run(self) -> bool:
        """Work until there is no more to do; returns false where others wait for the thread."""
        with wired_memory(self._model_bytes):
            while True:
                if self._worker.is_closing:
                    raise EngineClosedError("the engine was closed")
                try:
                    self._round()
                except Exception as error:
                    # What the model could not do concerns all that it was doing.
                    self._fail_running(error)
                with self._lock:
                    if not (self._waiting or self._jobs or self._reading):
                        self._is_scheduled = False
                        return True
                # After a round, so that neither keeps the other waiting for ever.
                if self._worker.is_awaited:
                    return False

    def _round(self) -> None:
        self._begin_next()
        self._read_some()
        self._drop_cancelled()
        self._bring_back()
        if self._batch.rows:
            self._write_some()
        elif self._slow and not self._reading:
            self._slow.wait(_SECONDS_BETWEEN_ROUNDS)

    def _begin_next(self) -> None:
        """Begin with a request that waits, if there is room for one.

        Cancelled ones need none, nor do answers that are forced: they are finished at once.
        """
        with self._lock:
            cancelled = [job for job in self._waiting if job.request.cancelled.is_set()]
            for job in cancelled:
                self._waiting.remove(job)
        for job in cancelled:
            self._try_to_begin(job)
        started = time.perf_counter()
        for _ in range(self.batch_size):
            if len(self._reading) + len(self._batch) >= self.batch_size:
                return
            is_late = time.perf_counter() - started > _SECONDS_TO_BEGIN
            if self._reading and self._batch.rows and is_late:
                return
            with self._lock:
                following = self._waiting[0] if self._waiting else None
            if following is None or (self._reading and not self._may_join(following)):
                return
            with self._lock:
                if not self._waiting:
                    return
                job = self._waiting.popleft()
            self._try_to_begin(job)

    def _may_join(self, job: _Job) -> bool:
        """Whether a waiting prompt should be read in one pass with prompts that have begun."""
        if self._is_read or not self._joins_prompts:
            return False
        readings = [reading for _, reading in self._reading]
        known = self._caches.known(job.request.prompt_ids)
        return (
            may_join(job.request, known, readings, others_wait=bool(self._batch.rows))
            and self._batch.takes_padding
            and self._batch.takes(readings[0].cache)
        )

    def _try_to_begin(self, job: _Job) -> None:
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            self._begin(job)
        except BaseException as error:
            job.fail(error)

    def _begin(self, job: _Job) -> None:
        request = job.request
        running = job.running = RunningRequest(request, self._maker, job.emit)
        if request.cancelled.is_set():
            self._finish(job)
            return
        opening = running.row.take_forced()
        if running.row.finished:
            running.tell(opening)
            self._finish(job)
            return
        running.hold(opening)
        began = self._caches.begin(request.prompt_ids)
        running.cached_tokens = began.cached_tokens
        running.tell_progress(began.cached_tokens)
        lengths = self._caches.checkpoints(
            request.prompt_ids, request.boundaries, max_tokens=request.max_tokens
        )
        reading = Prefill(
            running.row,
            self._maker.loaded.model,
            began.cache,
            step_size_of(request),
            began.cached_tokens,
            quantize=self._quantize,
            checkpoints={
                length: partial(self._caches.checkpoint, request.prompt_ids[:length], began.cache)
                for length in lengths
            },
        )
        if not self._reading:
            self._is_read = False
        self._reading.append((job, reading))

    def _read_some(self) -> None:
        """Read some of a prompt; a row whose prompt is read joins the others, if it can."""
        for job, reading in self._reading[1:]:
            if job.request.cancelled.is_set():
                self._reading.remove((job, reading))
                self._finish(job)
        if not self._reading or (len(self._reading) > 1 and self._read_together()):
            return
        job, reading = self._reading[0]
        running = _running(job)
        if job.request.cancelled.is_set():
            self._caches.keep(reading.row.tokens[: reading.read], reading.cache, run=reading.read)
            self._next_reading()
            self._finish(job)
            return
        if not self._is_read:
            try:
                self._is_read = reading.next_pass()
                if not self._is_read:
                    running.tell_progress(reading.read)
            except BaseException as error:
                self._next_reading()
                job.fail(error)
                return
            if not self._is_read:
                return
            if self._jobs or self._waiting:
                # Others may begin with the same, and need not wait until this one is finished.
                row = reading.row
                self._caches.share(row.tokens[: row.fed], reading.cache)
        if self._batch.takes(reading.cache):
            self._next_reading()
            self._jobs[reading.row] = job
            self._batch.join(reading.row, reading.cache)

    def _read_together(self) -> bool:
        """Read all prompts that are begun in one pass; returns whether that was done."""
        jobs, readings = zip(*self._reading, strict=True)
        if jobs[0].request.cancelled.is_set() or not self._joins_prompts:
            return False
        if not all(map(can_join_prefill, readings)):
            return False
        try:
            layers = prefill_together(readings)
        except Exception as error:
            # Memory may suffice for one after the other.
            _log.warning("prompts are not read together any more: %s", error)
            self._joins_prompts = False
            return False
        self._reading.clear()
        rows = [reading.row for reading in readings]
        self._jobs.update(zip(rows, jobs, strict=True))
        if self._caches.options.max_bytes:
            for index, row in enumerate(rows):
                self._caches.share(row.tokens[: row.fed], extract_row(layers, index, row.fed))
        self._batch.join_several(rows, layers)
        return True

    def _next_reading(self) -> None:
        del self._reading[0]
        self._is_read = False

    def _drop_cancelled(self) -> None:
        for row in (*self._batch.rows, *self._slow):
            job = self._jobs[row]
            if job.request.cancelled.is_set():
                self._leave(row)
                self._finish(job)

    def _bring_back(self) -> None:
        """Join the rows whose masks are computed to the batch."""
        for row, layers, error in self._slow.finished():
            if error is not None:
                self._slow.remove(row)
                self._fail(self._jobs[row], error)
            elif len(self._batch) < self.batch_size and self._batch.takes(layers):
                self._slow.remove(row)
                self._batch.join(row, layers)

    def _write_some(self) -> None:
        if not self._reading and not self._waiting:
            self._batch.settle()
        steps = self._batch.step()
        untold = [(self._jobs[step.row], step) for step in steps if not step.is_slow]
        try:
            for step in steps:
                if step.is_slow:
                    layers = self._batch.leave(step.row) or []
                    cancelled = self._jobs[step.row].request.cancelled
                    self._slow.add(step.row, layers, cancelled)
                elif step.row.finished:
                    self._leave(step.row, keeps=step.error is None)
            # Who waits for a first token is told before the next pass is begun.
            for pair in [pair for pair in untold if not _running(pair[0]).has_told]:
                untold.remove(pair)
                self._tell(*pair)
            self._batch.feed()
        finally:
            # The device works while others are told; who is finished is told in any case.
            for job, step in untold:
                self._tell(job, step)

    def _tell(self, job: _Job, step: Step) -> None:
        if step.error is not None:
            self._fail(job, step.error)
            return
        try:
            _running(job).tell(step.tokens)
        except BaseException as error:
            if not step.row.finished:
                self._leave(step.row, keeps=False)
            self._fail(job, error)
        else:
            if step.row.finished:
                self._finish(job)

    def _leave(self, row: SequenceState, *, keeps: bool = True) -> None:
        wants_layers = keeps and self._caches.options.max_bytes > 0
        layers: list[Any] | None
        if row in self._slow:
            layers = self._slow.remove(row)
        else:
            layers = self._batch.leave(row, wants_layers=wants_layers)
        if keeps and layers is not None:
            self._caches.keep(row.tokens[: row.fed], layers, run=row.fed)

    def _finish(self, job: _Job) -> None:
        running = _running(job)
        try:
            result = running.result()
        except BaseException as error:
            # Validators are the caller's, and may raise anything: it is the caller's alone.
            self._fail(job, error)
        else:
            self._jobs.pop(running.row, None)
            job.future.set_result(result)

    def _fail(self, job: _Job, error: BaseException) -> None:
        self._jobs.pop(_running(job).row, None)
        job.fail(error)

    def _new_batch(self) -> Batch:
        return Batch(self._maker.loaded.model, quantize=self._quantize, probe=self._probe)

    @property
    def _quantize(self) -> Callable[[list[Any]], None] | None:
        return None if self._caches.options.kv_bits is None else self._caches.quantize

    def _fail_all(self, error: BaseException) -> None:
        with self._lock:
            self._is_scheduled = False
            waiting, self._waiting = self._waiting, deque()
        self._fail_running(error)
        for job in waiting:
            job.fail(error)

    def _fail_running(self, error: BaseException) -> None:
        jobs = list(self._jobs.values())
        jobs += [job for job, _ in self._reading]
        self._jobs.clear()
        self._slow.clear()
        self._reading.clear()
        self._batch = self._new_batch()
        for job in jobs:
            job.fail(error)


def _running(job: _Job) -> RunningRequest:
    if job.running is None:
        raise AssertionError("a request that has begun is running")
    return job.running
