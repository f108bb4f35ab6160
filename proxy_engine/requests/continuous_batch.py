"""The running requests of one engine: prefill, generation, results.

Continuous batching (Yu et al. 2022, "Orca"): requests join the batch as soon as there is room, and
leave it when they are finished. Each round processes one step of one prompt and then generates a
token for every sequence, so that a long prompt does not delay the others.

The life of a request: it begins, its prompt is processed, its text is generated, it ends. A request
with a slow mask leaves the batch while other threads compute the mask.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from ..answers.compile_queue import CompileJob, CompileQueue
from ..errors import InvalidOptionError
from ..generation import Batch, ForwardPass, GeneratedSequence, ModelChecks, ModelDrafter
from ..prompt_cache.prompt_caches import PromptCaches
from .prefills import Prefills
from .request import Job, Request
from .samples import Sample
from .sequence_factory import SequenceFactory

_SECONDS_PER_ROUND = 0.01
"""How long a round waits for slow masks if there is nothing else to do."""


class ContinuousBatch:
    """Runs requests together. To be used on the model thread.

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
        # The requests whose prompts are processed, in the batch or parked.
        self._running: dict[GeneratedSequence, Sample] = {}
        # Whether the batch has changed since the last round in which its cache could be converted.
        self._has_changed = False

    def __len__(self) -> int:
        """Return the number of requests that have begun and are not finished."""
        return len(self._running) + len(self._prefills.running)

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
        prefills = self._prefills.running
        if is_late and prefills and self._batch.sequences:
            return False
        if len(self._batch.sequences) + len(prefills) >= self.batch_size:
            return False
        return not prefills or self._prefills.can_join(request, self._batch)

    def begin(self, job: Job) -> None:
        """Begin a request. It finishes at once if it is cancelled or all of it is forced."""
        request, factory = job.request, self._factory
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            if request.options.exact_choices and not self._probe.can_score():
                raise InvalidOptionError(
                    "exact_choices scores the options of a choice as rows of one pass, and this "
                    "model computes other logits then",
                    option="exact_choices",
                    hint="Leave exact_choices out: choices are sampled token by token then.",
                )
            sequence = factory.sequence(request)
            sample = Sample(job, sequence, factory.vocabulary, factory.loaded.name)
            if not job.is_cancelled:
                sample.tokens += sequence.advance_forced()
                if not sequence.finished:
                    self._prefills.begin(sample)
                    return
                sample.report()
            self._end(sample)
        except BaseException as error:
            job.fail(error)

    def run_round(self, *, others_wait: bool) -> None:
        """Process some of a prompt, then generate a token for every sequence.

        Args:
            others_wait: Whether requests wait to begin.
        """
        for sample in list(self._running.values()):
            if sample.job.is_cancelled:
                self._remove(sample, keeps_cache=True)
                self._end(sample)
            elif sample.parked is not None:
                # Before the prefill, which could give rows to other requests.
                self._resume(sample, *sample.parked)
        if self._prefills.running:
            for sample in self._prefills.drop_cancelled():
                self._end(sample)
        if self._prefills.running:
            shares = others_wait or bool(self._running)
            processed = self._prefills.step(self._batch, shares=shares)
            if processed is not None:
                self._start(*processed)
        if self._batch.sequences:
            if self._has_changed and not (self._prefills.running or others_wait):
                self._has_changed = False
                self._batch.unmerge()
            self._generate()
        elif self._running and not self._prefills.running:
            masks = [sample.parked[1] for sample in self._running.values() if sample.parked]
            wait(masks, _SECONDS_PER_ROUND, return_when=FIRST_COMPLETED)

    def fail_all(self, error: BaseException) -> None:
        """Fail every running request, and start over with an empty batch."""
        samples = [*self._running.values(), *self._prefills.running]
        self._running.clear()
        self._prefills.running.clear()
        self._batch = self._new_batch()
        for sample in samples:
            sample.job.fail(error)

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

    # Generation.

    def _start(self, samples: list[Sample], cache: list[Any]) -> None:
        """Begin to generate, after prompts have been processed.

        Args:
            samples: Their requests.
            cache: Their cache, which the batch takes over.
        """
        self._has_changed = True
        self._running |= {sample.sequence: sample for sample in samples}
        if len(samples) > 1:
            self._batch.add_all([sample.sequence for sample in samples], cache)
        else:
            self._batch.add(samples[0].sequence, cache)

    def _generate(self) -> None:
        """Generate a token for every sequence, and report those that are read."""
        stepped: list[Sample] = []
        try:
            for step in self._batch.generate_step():
                sample = self._running[step.sequence]
                sample.error = step.error
                sample.tokens += step.tokens
                stepped.append(sample)
                if step.is_slow:
                    self._park(sample)
                elif sample.is_done:
                    self._remove(sample, keeps_cache=sample.error is None)
            # First tokens are reported before the next pass is dispatched, for a low latency.
            for sample in stepped:
                if not sample.has_reported:
                    self._report(sample)
            self._batch.feed()
        finally:
            # Other tokens are reported while the device works, and even if the pass fails.
            for sample in stepped:
                if sample.sequence in self._running and (sample.reads_tokens or sample.is_done):
                    self._report(sample)

    def _report(self, sample: Sample) -> None:
        """Report the new tokens of a request, and end it after the last one."""
        try:
            if sample.error is None:
                sample.report()
        except BaseException as error:
            if not sample.is_done:
                self._remove(sample, keeps_cache=False)
            del self._running[sample.sequence]
            sample.job.fail(error)
        else:
            if sample.is_done:
                self._end(sample)

    def _park(self, sample: Sample) -> None:
        """Remove a sequence from the batch until its mask is computed."""
        self._has_changed = True
        cache = self._batch.remove(sample.sequence) or []
        job = sample.mask_job = sample.mask_job or CompileJob(
            self._compile_queue, sample.request.cancelled
        )
        mask = self._threads.submit(job.run, sample.sequence.constraint.compute_slow)
        sample.parked = cache, mask

    def _resume(self, sample: Sample, cache: list[Any], mask: Future[None]) -> None:
        """Return a sequence to the batch if its mask is computed and there is room."""
        if not mask.done() or len(self._batch.sequences) >= self.batch_size:
            return
        if not self._batch.can_add(cache):
            return
        sample.parked, error = None, mask.exception()
        if error is None:
            self._has_changed = True
            self._batch.add(sample.sequence, cache)
        elif isinstance(error, Exception):
            sample.error = error
            self._end(sample)
        else:
            raise error

    # The end.

    def _remove(self, sample: Sample, *, keeps_cache: bool) -> None:
        """Remove a sequence from the batch, and insert its cache into the prompt caches."""
        sequence = sample.sequence
        keeps_cache = keeps_cache and self._caches.options.max_bytes > 0
        if sample.parked is not None:
            cache: list[Any] | None = sample.parked[0]
            sample.parked = None
        else:
            self._has_changed = True
            cache = self._batch.remove(sequence, wants_cache=keeps_cache)
        if keeps_cache and cache:
            key = sample.request.cache_key(sequence.tokens[: sequence.processed])
            self._caches.insert(key, cache, processed=sequence.processed)

    def _end(self, sample: Sample) -> None:
        self._running.pop(sample.sequence, None)
        try:
            sample.end()
        except BaseException as error:
            sample.job.fail(error)
        else:
            sample.job.finish(sample.result)
