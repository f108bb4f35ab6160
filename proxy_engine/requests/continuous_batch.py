"""The running requests of one engine: prefill, generation, results.

Continuous batching (Yu et al. 2022, "Orca"): requests join the batch as soon as there is room, and
leave it when they are finished. Each round processes one step of one prompt and then generates a
token for every sequence, so that a long prompt does not delay the others.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from ..answers.compile_queue import CompileJob, CompileQueue
from ..errors import InvalidOptionError
from ..generation import Batch, ForwardPass, ModelChecks, ModelDrafter, Status
from ..prompt_cache.prompt_caches import PromptCaches
from .prefills import Prefills
from .request import Job, Request
from .running_request import RunningRequest
from .sequence_factory import SequenceFactory

_SECONDS_PER_ROUND = 0.01
"""How long a round waits for slow masks if there is nothing else to do."""


class ContinuousBatch:
    """Runs requests together. To be used on the model thread.

    A request is in one list from its beginning to its end, and its sequence has a status: its
    prompt is processed (``PREFILL``), its text is generated (``RUNNING``), it has left the batch
    while other threads compute a slow mask (``WAITING``), or its last token is generated
    (``DONE``).

    If the caches of several sequences cannot be merged (quantized ones, or of bounded size), one
    sequence runs at a time.

    Args:
        factory: Creates sequences.
        caches: Prompt caches of the model.
        compile_queue: Shared by compilations and slow masks. The job with the least processor time
            runs first.
        threads: Compute slow masks.
        batch_size: Maximum number of sequences that run together.
        draft_model: Drafts tokens.
    """

    def __init__(
        self,
        factory: SequenceFactory,
        caches: PromptCaches,
        compile_queue: CompileQueue,
        threads: ThreadPoolExecutor,
        *,
        batch_size: int,
        draft_model: ModelDrafter | None = None,
    ) -> None:
        self.batch_size = batch_size
        self._factory = factory
        self._caches = caches
        self._compile_queue = compile_queue
        self._threads = threads
        self._draft_model = draft_model
        self._forward = ForwardPass(
            factory.loaded.model, () if draft_model is None else draft_model.state_layers
        )
        self._probe = ModelChecks(factory.loaded.model)
        self._prefills = Prefills(self._forward, caches, draft_model)
        self._batch = self._new_batch()
        self._requests: list[RunningRequest] = []

    def __len__(self) -> int:
        """Return the number of requests that have begun and are not finished."""
        return len(self._requests)

    def split_output_layer(self) -> None:
        """Find out whether the model's logits can be computed on demand."""
        self._forward.split_output_layer()

    def probe(self) -> None:
        """Determine which batches the model computes correctly."""
        if self.batch_size > 1:
            self._probe.can_pad()
            if self._draft_model is not None:
                self._draft_model.probe()

    def can_begin(self, request: Request, *, is_late: bool) -> bool:
        """Whether a request can begin within ``batch_size``.

        Its prompt is processed after the prompts that have begun, or shares a pass with them.

        Args:
            request: The request.
            is_late: Whether sequences have waited long enough for prompts that share a pass.
        """
        prefilled = self._with(Status.PREFILL)
        if is_late and prefilled and self._batch.sequences:
            return False
        if len(self._batch.sequences) + len(prefilled) >= self.batch_size:
            return False
        return not prefilled or self._prefills.can_join(request, prefilled, self._batch)

    def begin(self, job: Job) -> None:
        """Begin a request. It finishes at once if it is cancelled or all of it is forced."""
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            if job.request.options.exact_choices and not self._probe.can_score():
                raise InvalidOptionError(
                    "exact_choices scores the options of a choice as rows of one pass, and this "
                    "model computes other logits then",
                    option="exact_choices",
                    hint="Leave exact_choices out: choices are sampled token by token then.",
                )
            sequence = self._factory.sequence(job.request)
            request = RunningRequest(
                job, sequence, self._factory.vocabulary, self._factory.loaded.name
            )
            if not job.is_cancelled:
                sequence.output += sequence.advance_forced()
                if not sequence.finished:
                    self._prefills.begin(request, is_first=not self._with(Status.PREFILL))
                    self._requests.append(request)
                    return
                request.report()
            self._end(request)
        except BaseException as error:
            job.fail(error)

    def run_round(self, *, others_wait: bool) -> None:
        """Process some of a prompt, then generate a token for every sequence.

        A pass that needs only the sampled tokens is dispatched before they are read; any other pass
        is dispatched afterwards. The device works while tokens are reported.

        Args:
            others_wait: Whether requests wait to begin.

        Raises:
            Exception: A pass has failed, see :meth:`fail_pass`.
        """
        self._schedule(others_wait=others_wait)
        try:
            self._batch.sample()
            self._batch.run_ahead()
            self._commit()
            self._batch.run_pass()
        finally:
            self._report()

    def fail_pass(self, error: BaseException) -> None:
        """Fail the requests of a pass that has failed: the batch's, or else all."""
        in_batch = [*self._with(Status.RUNNING), *self._with(Status.DONE)]
        self._fail(in_batch or self._requests, error)

    def fail_all(self, error: BaseException) -> None:
        """Fail every request."""
        self._fail(self._requests, error)

    def _fail(self, requests: list[RunningRequest], error: BaseException) -> None:
        self._requests = [request for request in self._requests if request not in requests]
        self._batch = self._new_batch()
        for request in requests:
            request.job.fail(error)

    def _new_batch(self) -> Batch:
        if self._draft_model is not None:
            self._draft_model.clear()
        return Batch(
            self._forward,
            quantize=self._prefills.quantize,
            probe=self._probe,
            draft_model=self._draft_model,
            costs=self._factory.costs,
        )

    def _with(self, status: Status) -> list[RunningRequest]:
        return [request for request in self._requests if request.sequence.status is status]

    # A round.

    def _schedule(self, *, others_wait: bool) -> None:
        """End cancelled requests, and decide which sequences take part in the next pass."""
        prefilled = []
        for request in self._requests.copy():
            if request.request.cancelled.is_set():
                self._leave(request, keeps_cache=True)
                self._end(request)
            elif request.parked is not None:
                # Before the prefill, which could give rows to other requests.
                self._resume(request, *request.parked)
            elif request.prefill is not None:
                prefilled.append(request)
        if prefilled:
            shares = others_wait or len(prefilled) < len(self._requests)
            processed, cache = self._prefills.step(prefilled, self._batch, shares=shares)
            self._start(processed, cache)
        elif not self._batch.sequences:
            masks = [request.parked[1] for request in self._requests if request.parked]
            wait(masks, _SECONDS_PER_ROUND, return_when=FIRST_COMPLETED)
        elif not others_wait:
            self._batch.unmerge()

    def _start(self, requests: list[RunningRequest], cache: list[Any]) -> None:
        """Begin to generate, after prompts have been processed or have failed.

        Args:
            requests: Their requests.
            cache: Their cache, which the batch takes over.
        """
        for request in requests:
            request.prefill = None
        sequences = [request.sequence for request in requests]
        if len(sequences) > 1:
            self._batch.add_all(sequences, cache)
        elif sequences and not sequences[0].finished:
            self._batch.add(sequences[0], cache)

    def _commit(self) -> None:
        """Take the sampled tokens. Sequences that need no pass leave the batch."""
        self._batch.commit()
        for request in self._requests.copy():
            sequence = request.sequence
            if sequence.status is Status.WAITING and request.parked is None:
                self._park(request)
            elif sequence.status is Status.DONE:
                self._leave(request, keeps_cache=sequence.error is None)
            # First tokens are reported before the next pass is dispatched, for a low latency.
            if not request.has_reported and sequence.status is not Status.PREFILL:
                self._report_one(request)

    def _report(self) -> None:
        """Report the new tokens of requests, and end them after the last one."""
        for request in self._requests.copy():
            status = request.sequence.status
            if status is Status.DONE or (request.reads_tokens and status is not Status.PREFILL):
                self._report_one(request)

    def _report_one(self, request: RunningRequest) -> None:
        try:
            if request.sequence.error is None:
                request.report()
        except BaseException as error:
            self._leave(request, keeps_cache=False)
            self._requests.remove(request)
            request.job.fail(error)
        else:
            if request.sequence.finished:
                self._end(request)

    # Slow masks.

    def _park(self, request: RunningRequest) -> None:
        """Remove a sequence from the batch until its mask is computed."""
        cache = self._batch.remove(request.sequence) or []
        job = request.mask_job = request.mask_job or CompileJob(
            self._compile_queue, request.request.cancelled
        )
        mask = self._threads.submit(job.run, request.sequence.constraint.compute_slow)
        request.parked = cache, mask

    def _resume(self, request: RunningRequest, cache: list[Any], mask: Future[None]) -> None:
        """Return a sequence to the batch if its mask is computed and there is room."""
        if not mask.done() or len(self._batch.sequences) >= self.batch_size:
            return
        if not self._batch.can_add(cache):
            return
        request.parked, error = None, mask.exception()
        if error is None:
            self._batch.add(request.sequence, cache)
        elif isinstance(error, Exception):
            request.sequence.fail(error)
        else:
            raise error

    # The end.

    def _leave(self, request: RunningRequest, *, keeps_cache: bool) -> None:
        """Take the rows of a sequence, and insert its cache into the prompt caches."""
        sequence, prefill = request.sequence, request.prefill
        keeps_cache = keeps_cache and self._caches.options.max_bytes > 0
        cache: list[Any] | None = None
        if request.parked is not None:
            cache, request.parked = request.parked[0], None
        elif prefill is not None:
            self._prefills.forget(sequence, keeps_cache=keeps_cache)
            cache = prefill.cache if sequence.processed > request.cached_tokens else None
            request.prefill = None
        elif sequence in self._batch.sequences:
            cache = self._batch.remove(sequence, wants_cache=keeps_cache)
        if keeps_cache and cache:
            key = request.request.cache_key(sequence.tokens[: sequence.processed])
            self._caches.insert(key, cache, processed=sequence.processed)

    def _end(self, request: RunningRequest) -> None:
        if request in self._requests:
            self._requests.remove(request)
        error: BaseException | None = request.sequence.error
        if error is None:
            try:
                request.end()
            except BaseException as failure:
                error = failure
        if error is not None:
            request.job.fail(error)
        else:
            request.job.finish(request.result)
