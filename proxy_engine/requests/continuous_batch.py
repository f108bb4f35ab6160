"""The running requests of one engine: prefill, generation, results.

Continuous batching (Yu et al. 2022, "Orca"): requests join the batch as soon as there is room, and
leave it when they are finished. Each round processes one step of one prompt and then generates a
token for every sequence, so that a long prompt does not delay the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..errors import InvalidOptionError
from ..generation import (
    Batch,
    DraftModel,
    ForwardPass,
    ModelChecks,
    Prefill,
    SequenceState,
    Step,
    can_join_prefill,
    default_prefill_step_size,
    extract_kv_row,
    is_joint_prefill_worthwhile,
    joint_prefill_tokens,
    prefill_together,
)
from ..prompt_cache.prompt_caches import PromptCaches
from ..prompt_cache.store import common_prefix
from .group_results import group_result
from .request import Job, Request
from .running import RunningRequest
from .sequence_factory import SequenceFactory
from .sequence_groups import SequenceGroup, SequenceGroups
from .slow_masks import SlowMasks

_log = logging.getLogger(__name__)

_SECONDS_PER_ROUND = 0.01
"""How long a round waits for slow masks if there is nothing else to do."""

_MAX_SHARED_TOKENS = 16
"""Longest common prefix, beyond cached tokens, of prompts that are processed in one pass."""


class ContinuousBatch:
    """Runs requests together. To be used on the model thread.

    If the caches of several sequences cannot be merged (quantized ones, or of bounded size), one
    sequence runs at a time. A sequence whose mask is slow leaves the batch until ``slow`` has
    computed it.

    Args:
        factory: Creates sequences.
        caches: Prompt caches of the model.
        slow: Computes slow masks.
        batch_size: Maximum number of requests that run together.
        draft_model: Drafts tokens.
    """

    def __init__(
        self,
        factory: SequenceFactory,
        caches: PromptCaches,
        slow: SlowMasks,
        *,
        batch_size: int,
        draft_model: DraftModel | None = None,
    ) -> None:
        self.batch_size = batch_size
        self._factory = factory
        self._caches = caches
        self._slow = slow
        self._draft_model = draft_model
        self._forward = ForwardPass(factory.loaded.model)
        self._probe = ModelChecks(factory.loaded.model)
        self._batch, self._groups = self._new_batch()
        # Generating, or finished and not reported yet.
        self._jobs: dict[SequenceState, Job] = {}
        # Several prompts only if they can share a pass. The first may be processed already, and
        # wait until it can be added to the batch.
        self._prefills: list[tuple[Job, Prefill]] = []
        self._is_processed = False
        self._joins_prompts = True

    def __len__(self) -> int:
        """Return the number of requests that have begun and are not finished."""
        return len(self._jobs) + len(self._groups) + len(self._prefills)

    def split_output_layer(self) -> None:
        """Find out whether the model's logits can be computed on demand."""
        self._forward.split_output_layer()

    def probe(self) -> None:
        """Determine which batches the model computes correctly."""
        if self.batch_size > 1:
            self._probe.can_pad()
            if self._draft_model is not None:
                self._draft_model.probe()

    def has_room_for(self, request: Request) -> bool:
        """Whether a request can begin within ``batch_size``."""
        rows = self._occupied_rows + sum(job.request.sequences for job, _ in self._prefills)
        if request.sequences > 1:
            # A group could otherwise keep sequences with slow masks from ever returning.
            rows += len(self._slow) - self._groups.slow_sequences
        return rows + request.sequences <= self.batch_size

    @property
    def _occupied_rows(self) -> int:
        """Rows of the batch that generating requests occupy or may occupy again."""
        single = sum(sequence not in self._groups for sequence in self._batch.sequences)
        return single + self._groups.reserved_rows

    @property
    def is_prefilling(self) -> bool:
        """Whether prompts are being processed."""
        return bool(self._prefills)

    @property
    def is_generating(self) -> bool:
        """Whether sequences are in the batch."""
        return bool(len(self._batch))

    def can_join_prefill(self, request: Request) -> bool:
        """Whether a prompt should share a pass with the prompts that have begun.

        It should not if it starts with text that one of them is about to process: after that the
        text is cached.
        """
        if self._is_processed or not self._joins_prompts or request.prompt.inputs is not None:
            return False
        # The sequences of a group begin with copies of the cache of its prompt.
        if any(one.sequences > 1 for one in (request, *(job.request for job, _ in self._prefills))):
            return False
        prefills = [prefill for _, prefill in self._prefills]
        step_size = _step_size(request)
        if not all(can_join_prefill(one) and one.step_size == step_size for one in prefills):
            return False
        key = request.cache_key()
        cached = self._caches.cached_tokens(key)
        lengths = [len(request.prompt_ids) - cached, *(one.left for one in prefills)]
        max_tokens = joint_prefill_tokens(step_size, others_wait=self.is_generating)
        if not is_joint_prefill_worthwhile(lengths, max_tokens):
            return False
        shared = max(common_prefix(key, job.request.cache_key()) for job, _ in self._prefills)
        return (
            shared - cached <= _MAX_SHARED_TOKENS
            and self._batch.can_prefill_together
            and self._batch.can_add(prefills[0].cache)
        )

    def begin(self, job: Job) -> None:
        """Begin a request. It finishes at once if it is cancelled or all of it is forced."""
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            self._begin(job)
        except BaseException as error:
            job.fail(error)

    def run_round(self, *, others_wait: bool) -> None:
        """Process some of a prompt, then generate a token for every sequence.

        Args:
            others_wait: Whether requests wait to begin.
        """
        self._drop_cancelled()
        # Before the prefill, which could give the rows of waiting sequences to other requests.
        self._groups.resume()
        self._prefill(others_wait=others_wait)
        self._add_unmasked()
        if self.is_generating:
            if not self._prefills and not others_wait:
                self._batch.unmerge()
            self._generate()
        elif self._slow and not self._prefills:
            self._slow.wait(_SECONDS_PER_ROUND)

    def fail_all(self, error: BaseException) -> None:
        """Fail every running request, and start over with an empty batch."""
        jobs = [
            *self._jobs.values(),
            *(group.job for group in self._groups),
            *(job for job, _ in self._prefills),
        ]
        self._jobs.clear()
        self._slow.clear()
        self._prefills.clear()
        self._batch, self._groups = self._new_batch()
        for job in jobs:
            job.fail(error)

    def _new_batch(self) -> tuple[Batch, SequenceGroups]:
        if self._draft_model is not None:
            self._draft_model.clear()
        batch = Batch(
            self._forward, quantize=self._quantize, probe=self._probe, draft_model=self._draft_model
        )
        return batch, SequenceGroups(batch, self._slow, self._finish_group)

    @property
    def _quantize(self) -> Callable[[list[Any]], None] | None:
        return None if self._caches.options.kv_bits is None else self._caches.quantize

    def _begin(self, job: Job) -> None:
        request = job.request
        if request.options.exact_choices and not self._probe.can_score():
            raise InvalidOptionError(
                "exact_choices scores the options of a choice as rows of one pass, and this model "
                "computes other logits then",
                option="exact_choices",
                hint="Leave exact_choices out: choices are sampled token by token then.",
            )
        running = job.running = RunningRequest(request, self._factory, job.emit)
        if job.is_cancelled:
            self._finish(job)
            return
        forced = running.sequence.advance_forced()
        if running.sequence.finished and request.sequences == 1:
            running.report(forced)
            self._finish(job)
            return
        running.tokens += forced
        key, inputs = request.cache_key(), request.prompt.inputs
        fetched = self._caches.fetch(key)
        if inputs is not None and fetched.cached_tokens < inputs.single_pass_end:
            fetched = self._caches.fetch(())
        running.cached_tokens = fetched.cached_tokens
        running.report_progress(fetched.cached_tokens)
        lengths = self._caches.checkpoint_lengths(
            key, request.boundaries, max_tokens=request.max_tokens
        )
        insert = self._caches.insert_copy
        prefill = Prefill(
            running.sequence,
            self._forward,
            fetched.cache,
            _step_size(request),
            fetched.cached_tokens,
            quantize=self._quantize,
            checkpoints={
                length: partial(insert, key[:length], fetched.cache) for length in lengths
            },
            inputs=inputs,
        )
        if not self._prefills:
            self._is_processed, self._joins_prompts = False, True
        self._prefills.append((job, prefill))

    def _prefill(self, *, others_wait: bool) -> None:
        """Run the next prefill pass; add a sequence to the batch once its prompt is processed."""
        for job, prefill in self._prefills[1:]:
            if job.is_cancelled:
                self._prefills.remove((job, prefill))
                self._finish(job)
        if not self._prefills or (len(self._prefills) > 1 and self._prefill_together()):
            return
        job, prefill = self._prefills[0]
        sequence = prefill.sequence
        if job.is_cancelled:
            processed = prefill.processed
            key = job.request.cache_key(sequence.tokens[:processed])
            self._caches.insert(key, prefill.cache, processed=processed)
            self._drop_first_prefill()
            self._finish(job)
            return
        if not self._is_processed:
            started, processed = time.perf_counter(), prefill.processed
            try:
                self._is_processed = prefill.next_pass()
                if not self._is_processed:
                    # Only such a pass was waited for.
                    seconds = time.perf_counter() - started
                    self._caches.observe_prefill(prefill.processed - processed, seconds)
                    job.running.report_progress(prefill.processed)
            except BaseException as error:
                self._drop_first_prefill()
                job.fail(error)
                return
            if not self._is_processed:
                return
            if self._jobs or others_wait or job.request.sequences > 1:
                # Requests with the same beginning need not wait until this one is finished.
                key = job.request.cache_key(sequence.tokens[: sequence.processed])
                self._caches.share(key, prefill.cache)
        if self._batch.can_add(prefill.cache):
            self._drop_first_prefill()
            if job.request.sequences > 1:
                job.running.report_progress(len(job.request.prompt_ids))
                self._groups.start(SequenceGroup(job), prefill.cache)
            else:
                self._jobs[sequence] = job
                self._batch.add(sequence, prefill.cache)

    def _prefill_together(self) -> bool:
        """Process all prompts that have begun in one pass; returns whether that was possible."""
        jobs, prefills = zip(*self._prefills, strict=True)
        if jobs[0].is_cancelled or not self._joins_prompts:
            return False
        if not all(map(can_join_prefill, prefills)):
            return False
        try:
            cache = prefill_together(prefills)
        except Exception as error:
            # There may be enough memory for one prompt at a time. Later prompts are joined again.
            _log.warning("%d prompts are processed one after the other: %r", len(prefills), error)
            self._joins_prompts = False
            return False
        self._prefills.clear()
        sequences = [prefill.sequence for prefill in prefills]
        self._jobs.update(zip(sequences, jobs, strict=True))
        if self._caches.options.max_bytes:
            for row, (sequence, job) in enumerate(zip(sequences, jobs, strict=True)):
                length = sequence.processed
                key = job.request.cache_key(sequence.tokens[:length])
                self._caches.share(key, extract_kv_row(cache, row, length))
        self._batch.add_all(sequences, cache)
        return True

    def _drop_first_prefill(self) -> None:
        del self._prefills[0]
        self._is_processed = False

    def _drop_cancelled(self) -> None:
        self._groups.remove_cancelled()
        for sequence, job in list(self._jobs.items()):
            if job.is_cancelled:
                self._remove(sequence)
                self._finish(job)

    def _add_unmasked(self) -> None:
        """Return sequences to the batch whose slow masks are computed."""
        for sequence, cache, error in self._slow.finished():
            if sequence in self._groups or self._jobs[sequence].is_cancelled:
                # The mask of a cancelled request may have an error because of that.
                continue
            if error is not None:
                self._slow.remove(sequence)
                self._fail(self._jobs[sequence], error)
            elif self._occupied_rows < self.batch_size and self._batch.can_add(cache):
                self._slow.remove(sequence)
                self._batch.add(sequence, cache)

    def _generate(self) -> None:
        of_groups, steps = self._split(self._batch.generate_step())
        self._groups.take(of_groups)
        # A choice may have been drawn before a slow mask.
        unreported = [
            (self._jobs[step.sequence], step) for step in steps if step.tokens or not step.is_slow
        ]
        try:
            for step in steps:
                if step.is_slow:
                    cache = self._batch.remove(step.sequence) or []
                    cancelled = self._jobs[step.sequence].request.cancelled
                    self._slow.add(step.sequence, cache, cancelled)
                elif step.sequence.finished:
                    self._remove(step.sequence, keeps_cache=step.error is None)
            # First tokens are reported before the next pass is dispatched, for a low latency.
            self._report_first(unreported)
            self._batch.feed()
            self._groups.remove_weighed()
        finally:
            # Other tokens are reported while the device works, and even if the pass fails.
            for job, step in unreported:
                self._report(job, step)

    def _split(self, steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
        """Separate the steps of groups from those of single sequences."""
        of_groups = [step for step in steps if step.sequence in self._groups]
        return of_groups, [step for step in steps if step.sequence not in self._groups]

    def _report_first(self, unreported: list[tuple[Job, Step]]) -> None:
        for pair in [pair for pair in unreported if not pair[0].running.has_tokens]:
            unreported.remove(pair)
            self._report(*pair)

    def _report(self, job: Job, step: Step) -> None:
        if step.error is not None:
            self._fail(job, step.error)
            return
        try:
            job.running.report(step.tokens)
        except BaseException as error:
            if not step.sequence.finished:
                self._remove(step.sequence, keeps_cache=False)
            self._fail(job, error)
        else:
            if step.sequence.finished:
                self._finish(job)

    def _remove(self, sequence: SequenceState, *, keeps_cache: bool = True) -> None:
        """Remove a sequence from the batch, and insert its cache into the prompt caches."""
        wants_cache = keeps_cache and self._caches.options.max_bytes > 0
        cache: list[Any] | None
        if sequence in self._slow:
            cache = self._slow.remove(sequence)
        else:
            cache = self._batch.remove(sequence, wants_cache=wants_cache)
        if keeps_cache and cache is not None:
            processed = sequence.processed
            key = self._jobs[sequence].request.cache_key(sequence.tokens[:processed])
            self._caches.insert(key, cache, processed=processed)

    def _finish(self, job: Job) -> None:
        running = job.running
        try:
            running.end()
        except BaseException as error:
            self._fail(job, error)
        else:
            self._jobs.pop(running.sequence, None)
            job.finish(running.result)

    def _finish_group(self, group: SequenceGroup) -> None:
        try:
            group.end()
        except BaseException as error:
            group.job.fail(error)
        else:
            group.job.finish(partial(group_result, group, self._factory))

    def _fail(self, job: Job, error: BaseException) -> None:
        self._jobs.pop(job.running.sequence, None)
        job.fail(error)


def _step_size(request: Request) -> int:
    """Return how many tokens of a request's prompt are processed per pass."""
    return request.options.prefill_step_size or default_prefill_step_size()
