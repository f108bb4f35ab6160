"""The running requests of one engine: prefill, generation, results.

Continuous batching (Yu et al. 2022, "Orca"): requests join the batch as soon as there is room, and
leave it when they are finished. Each round processes one step of one prompt and then generates a
token for every sequence, so that a long prompt does not delay the others.

Every request is a group of one or more sequences. Its life: it begins, its prompt is processed, its
sequences are generated, it ends. A group with a slow mask leaves the batch while other threads
compute the mask; its sequences advance together, so that results do not depend on the time that a
mask takes.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

from ..answers.compile_queue import CompileJob, CompileQueue
from ..errors import InvalidOptionError
from ..generation import Batch, ForwardPass, GeneratedSequence, ModelChecks, ModelDrafter
from ..prompt_cache.layers import copy_cache
from ..prompt_cache.prompt_caches import PromptCaches
from .groups import Group, SequenceFactory
from .prefills import Prefills
from .request import Job, Request
from .samples import Sample

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
        self._groups: list[Group] = []
        # The sequences of the batch.
        self._members: dict[GeneratedSequence, tuple[Group, Sample]] = {}
        # Whether they have changed since the last round in which a batch cache could be converted.
        self._has_changed = False

    def __len__(self) -> int:
        """Return the number of requests that have begun and are not finished."""
        return len(self._groups) + len(self._prefills.running)

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
        rows = self._occupied_rows() + sum(group.count for group in prefills)
        if request.sequences > 1:
            # It could otherwise keep sequences with slow masks from ever returning.
            rows += sum(group.is_single and bool(group.parked) for group in self._groups)
        if rows + request.sequences > self.batch_size:
            return False
        return not prefills or self._prefills.can_join(request, self._batch)

    def _occupied_rows(self) -> int:
        return sum(group.occupied_rows for group in self._groups)

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
            sample = Sample(request, sequence, factory.vocabulary, factory.loaded.name, job.emit)
            group = Group(job, sample)
            if not job.is_cancelled:
                sample.tokens += sequence.advance_forced()
                if not (sequence.finished and group.is_single):
                    self._prefills.begin(group)
                    return
                sample.report()
            self._end(group)
        except BaseException as error:
            job.fail(error)

    def run_round(self, *, others_wait: bool) -> None:
        """Process some of a prompt, then generate a token for every sequence.

        Args:
            others_wait: Whether requests wait to begin.
        """
        for group in self._groups.copy():
            if group.job.request.cancelled.is_set():
                self._cancel(group)
            elif group.parked or group.waiting:
                # Before the prefill, which could give rows to other requests.
                self._resume(group)
        if self._prefills.running:
            for group in self._prefills.drop_cancelled():
                self._end(group)
        if self._prefills.running:
            shares = others_wait or bool(self._groups)
            processed = self._prefills.step(self._batch, shares=shares)
            if processed is not None:
                self._start(*processed)
        if self._members:
            if self._has_changed and not (self._prefills.running or others_wait):
                self._has_changed = False
                self._batch.unmerge()
            self._generate()
        elif self._groups and not self._prefills.running:
            masks = [mask for group in self._groups for _, mask in group.parked.values()]
            wait(masks, _SECONDS_PER_ROUND, return_when=FIRST_COMPLETED)

    def fail_all(self, error: BaseException) -> None:
        """Fail every running request, and start over with an empty batch."""
        groups = [*self._groups, *self._prefills.running]
        self._groups.clear()
        self._members.clear()
        self._prefills.running.clear()
        self._batch = self._new_batch()
        for group in groups:
            group.job.fail(error)

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

    def _start(self, groups: list[Group], cache: list[Any]) -> None:
        """Begin to generate, after prompts have been processed.

        Args:
            groups: Their groups.
            cache: Their cache, which the batch takes over.
        """
        self._groups += groups
        if len(groups) > 1:
            for group in groups:
                self._set_rows(group, [group.first.sequence])
            self._batch.add_all([group.first.sequence for group in groups], cache)
            return
        (group,) = groups
        group.multiply()
        samples = group.samples
        if not group.is_single:
            group.first.report_progress(len(group.job.request.prompt.token_ids))
        if not any(sample.is_active for sample in samples):
            self._end(group)
        elif group.is_single or self._batch.can_fork(cache):
            sequences = [sample.sequence for sample in samples]
            self._batch.add(sequences, cache)
            self._set_rows(group, sequences)
        else:
            group.is_batched = False
            group.waiting, group.cache = samples, cache
            self._add_waiting(group)

    def _generate(self) -> None:
        """Generate a token for every sequence, and report those of single sequences."""
        stepped: dict[Group, bool] = {}
        try:
            for step in self._batch.generate_step():
                group, sample = self._members[step.sequence]
                sample.error = step.error
                sample.tokens += step.tokens
                stepped[group] = step.is_slow or stepped.get(group, False)
            for group, is_slow in stepped.items():
                if is_slow:
                    self._park(group)
                elif not group.is_single:
                    self._arrange(group, group.resample() if group.is_batched else group.active)
                elif group.first.error is not None or group.first.sequence.finished:
                    self._remove(group, keeps_cache=group.first.error is None)
            # First tokens are reported before the next pass is dispatched, for a low latency.
            for group in stepped:
                if group.is_single and not group.first.has_reported:
                    self._report(group)
            self._batch.feed()
            for group in self._groups.copy():
                # Finished sequences whose last weights have just been dispatched.
                if not group.is_single and len(active := group.active) < len(group.rows):
                    self._arrange(group, active)
        finally:
            # Other tokens are reported while the device works, and even if the pass fails.
            for group in stepped:
                has_report = group.first.reads_tokens or not group.rows
                if has_report and group.is_single and group in self._groups:
                    self._report(group)

    def _report(self, group: Group) -> None:
        """Report the new tokens of a single sequence, and end the request after the last one."""
        try:
            if group.first.error is None:
                group.first.report()
        except BaseException as error:
            self._remove(group, keeps_cache=False)
            self._groups.remove(group)
            group.job.fail(error)
        else:
            if not (group.rows or group.parked):
                self._end(group)

    def _park(self, group: Group) -> None:
        """Remove all sequences of a group from the batch until their masks are computed."""
        self._arrange(group, group.active)
        for sequence in group.rows:
            sample = self._members.pop(sequence)[1]
            cache = self._batch.remove(sequence) or []
            job = sample.mask_job = sample.mask_job or CompileJob(
                self._compile_queue, group.job.request.cancelled
            )
            mask = self._threads.submit(job.run, sequence.constraint.compute_slow)
            group.parked[sequence] = cache, mask
        group.rows = []

    def _resume(self, group: Group) -> None:
        """Return a parked group to the batch, or let its next sequence have a turn."""
        if not group.parked:
            self._add_waiting(group)
            return
        if not all(mask.done() for _, mask in group.parked.values()):
            return
        rows = self._occupied_rows() + (1 if group.is_single else 0)
        cache = next(cache for cache, _ in group.parked.values())
        if rows > self.batch_size or not self._batch.can_add(cache):
            return
        parked, group.parked = group.parked, {}
        samples = {sample.sequence: sample for sample in group.samples}
        returned = []
        for sequence, (cache, mask) in parked.items():
            error = mask.exception()
            if error is None:
                self._batch.add([sequence], cache)
                returned.append(sequence)
            elif isinstance(error, Exception):
                samples[sequence].error = error
            else:
                raise error
        self._set_rows(group, returned)
        if not (returned or group.waiting):
            self._end(group)

    def _add_waiting(self, group: Group) -> None:
        if group.waiting and not group.rows and self._batch.can_add(group.cache):
            sequence = group.waiting.pop(0).sequence
            cache = copy_cache(group.cache) if group.waiting else group.cache
            self._batch.add([sequence], cache)
            self._set_rows(group, [sequence])

    def _arrange(self, group: Group, sources: dict[GeneratedSequence, GeneratedSequence]) -> None:
        """Let a group have the given sequences, each with a copy of the row of another one."""
        if group.rows == list(sources) == list(sources.values()):
            return
        self._batch.replace(group.rows, sources)
        self._set_rows(group, list(sources))
        if not (sources or group.waiting):
            self._end(group)

    def _set_rows(self, group: Group, sequences: list[GeneratedSequence]) -> None:
        self._has_changed = True
        for sequence in group.rows:
            self._members.pop(sequence, None)
        group.rows = sequences
        if sequences:
            samples = {sample.sequence: sample for sample in group.samples}
            self._members |= {sequence: (group, samples[sequence]) for sequence in sequences}

    # The end.

    def _cancel(self, group: Group) -> None:
        """End the group of a cancelled request."""
        if group.is_single:
            self._remove(group, keeps_cache=True)
        else:
            self._batch.replace(group.rows, {})
            self._set_rows(group, [])
        group.waiting.clear()
        group.parked.clear()
        self._end(group)

    def _remove(self, group: Group, *, keeps_cache: bool) -> None:
        """Remove a single sequence from the batch, and insert its cache into the prompt caches."""
        sequence = group.first.sequence
        cache: list[Any] | None = None
        if sequence in group.parked:
            cache = group.parked[sequence][0]
        elif group.rows:
            wants_cache = keeps_cache and self._caches.options.max_bytes > 0
            cache = self._batch.remove(sequence, wants_cache=wants_cache)
        self._set_rows(group, [])
        if keeps_cache and cache:
            key = group.job.request.cache_key(sequence.tokens[: sequence.processed])
            self._caches.insert(key, cache, processed=sequence.processed)

    def _end(self, group: Group) -> None:
        if group in self._groups:
            self._groups.remove(group)
        try:
            group.end()
        except BaseException as error:
            group.job.fail(error)
        else:
            group.job.finish(group.result)
