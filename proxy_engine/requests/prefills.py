"""The prompts that are being processed: one, or several that share a pass."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from ..generation import Batch, ForwardPass, ModelDrafter, Prefill
from ..generation.cache_layers import extract_kv_row
from ..generation.prefill import (
    can_join_prefill,
    default_prefill_step_size,
    is_joint_prefill_worthwhile,
    joint_prefill_tokens,
    prefill_together,
)
from ..prompt_cache.prompt_caches import PromptCaches
from ..prompt_cache.store import common_prefix
from .request import Request
from .samples import Sample

_log = logging.getLogger(__name__)

_MAX_SHARED_TOKENS = 16
"""Longest common prefix, beyond cached tokens, of prompts that are processed in one pass."""


Processed: TypeAlias = tuple[list[Sample], list[Any]]
"""Requests whose prompts are processed; the cache of the only one, or with a row for each."""


class Prefills:
    """Processes the prompts of requests, from the longest cached prefix on.

    Several prompts are processed at a time only if they can share a pass. A single one may be
    processed, and wait until the batch can take it.

    Args:
        forward: The model's forward passes.
        caches: Prompt caches of the model.
        draft_model: Takes the hidden states of prompts, if it reads any.

    Attributes:
        running: The requests whose prompts have begun, in order, and their prefills.
    """

    def __init__(
        self, forward: ForwardPass, caches: PromptCaches, draft_model: ModelDrafter | None = None
    ) -> None:
        self.running: dict[Sample, Prefill] = {}
        self._forward = forward
        self._caches = caches
        reads_states = draft_model is not None and draft_model.reads_states
        self._draft_model = draft_model if reads_states else None
        self._is_processed = False
        self._joins_prompts = True

    @property
    def quantize(self) -> Callable[[list[Any]], None] | None:
        """Called with a cache after every pass; ``None``: caches are not quantized."""
        return None if self._caches.options.kv_bits is None else self._caches.quantize

    def can_join(self, request: Request, batch: Batch) -> bool:
        """Whether a prompt should share a pass with the prompts that have begun.

        It should not if it starts with text that one of them is about to process: after that the
        text is cached.
        """
        if self._is_processed or not self._joins_prompts or request.prompt.inputs is not None:
            return False
        prefills = self.running.values()
        requests = [sample.request for sample in self.running]
        step_size = _step_size(request)
        if not all(
            can_join_prefill(prefill) and prefill.step_size == step_size for prefill in prefills
        ):
            return False
        key = request.cache_key()
        cached = self._caches.cached_tokens(key)
        lengths = [len(request.prompt.token_ids) - cached, *(prefill.left for prefill in prefills)]
        max_tokens = joint_prefill_tokens(step_size, others_wait=bool(batch.sequences))
        if not is_joint_prefill_worthwhile(lengths, max_tokens):
            return False
        is_repeated = self._caches.options.max_bytes > 0 and (
            max(common_prefix(key, other.cache_key()) for other in requests) - cached
            > _MAX_SHARED_TOKENS
        )
        return (
            not is_repeated
            and batch.can_prefill_together
            and batch.can_add(next(iter(prefills)).cache)
        )

    def begin(self, sample: Sample) -> None:
        """Begin with the prompt of a request."""
        request = sample.request
        key, inputs = request.cache_key(), request.prompt.inputs
        fetched = self._caches.fetch(key)
        if inputs is not None and fetched.cached_tokens < inputs.single_pass_end:
            fetched = self._caches.fetch(())
        sample.cached_tokens = fetched.cached_tokens
        sample.report_progress(fetched.cached_tokens)
        lengths = self._caches.checkpoint_lengths(
            key, request.boundaries, max_tokens=request.max_tokens
        )
        insert = self._caches.insert_copy
        if not self.running:
            self._is_processed, self._joins_prompts = False, True
        self.running[sample] = Prefill(
            sample.sequence,
            self._forward,
            fetched.cache,
            _step_size(request),
            fetched.cached_tokens,
            quantize=self.quantize,
            checkpoints={
                length: partial(insert, key[:length], fetched.cache) for length in lengths
            },
            inputs=inputs,
            observe=None if self._draft_model is None else self._draft_model.observe,
        )

    def drop_cancelled(self) -> list[Sample]:
        """Remove the cancelled requests, and return them."""
        first = next(iter(self.running), None)
        cancelled = [sample for sample in self.running if sample.job.is_cancelled]
        for sample in cancelled:
            prefill = self.running.pop(sample)
            self._forget(prefill, keeps_cache=True)
            if sample is first:
                key = sample.request.cache_key(prefill.sequence.tokens[: prefill.processed])
                self._caches.insert(key, prefill.cache, processed=prefill.processed)
                self._is_processed = False
        return cancelled

    def step(self, batch: Batch, *, shares: bool) -> Processed | None:
        """Run a pass over one prompt, or over all of them if they fit into it.

        Args:
            batch: Takes processed prompts.
            shares: Whether other requests could use the prompt's cache before this one is finished.

        Returns:
            Prompts that are processed and that the batch can take.
        """
        if len(self.running) > 1 and (processed := self._step_together()) is not None:
            return processed
        sample, prefill = next(iter(self.running.items()))
        if not self._is_processed:
            try:
                self._is_processed = self._next_pass(sample, prefill)
            except BaseException as error:
                self._drop(sample)
                self._forget(prefill, keeps_cache=False)
                sample.job.fail(error)
                return None
            if not self._is_processed:
                return None
            if shares:
                self._share(sample, prefill.cache)
        if not batch.can_add(prefill.cache):
            return None
        self._drop(sample)
        return [sample], prefill.cache

    def _next_pass(self, sample: Sample, prefill: Prefill) -> bool:
        """Run the next pass over a prompt; return whether it was the last one."""
        started, processed = time.perf_counter(), prefill.processed
        is_last = prefill.next_pass()
        if not is_last:
            # Only such a pass was waited for.
            seconds = time.perf_counter() - started
            self._caches.observe_prefill(prefill.processed - processed, seconds)
            sample.report_progress(prefill.processed)
        return is_last

    def _step_together(self) -> Processed | None:
        """Process all prompts in one pass; ``None`` if that is not possible."""
        if not self._joins_prompts or not all(map(can_join_prefill, self.running.values())):
            return None
        try:
            cache = prefill_together(list(self.running.values()))
        except Exception as error:
            # There may be enough memory for one prompt at a time. Later prompts are joined again.
            count = len(self.running)
            _log.warning("%d prompts are processed one after the other: %r", count, error)
            self._joins_prompts = False
            return None
        samples = list(self.running)
        self.running.clear()
        if self._caches.options.max_bytes:
            for row, sample in enumerate(samples):
                self._share(sample, extract_kv_row(cache, row, sample.sequence.processed))
        return samples, cache

    def _share(self, sample: Sample, cache: list[Any]) -> None:
        """Let requests with the same beginning use a cache before this request is finished."""
        sequence = sample.sequence
        key = sample.request.cache_key(sequence.tokens[: sequence.processed])
        self._caches.share(key, cache)

    def _forget(self, prefill: Prefill, *, keeps_cache: bool) -> None:
        """Free the draft model's state of a sequence that does not reach the batch."""
        if self._draft_model is not None:
            self._draft_model.remove(prefill.sequence, keeps_cache=keeps_cache)

    def _drop(self, sample: Sample) -> None:
        del self.running[sample]
        self._is_processed = False


def _step_size(request: Request) -> int:
    """Return how many tokens of a request's prompt are processed per pass."""
    return request.options.prefill_step_size or default_prefill_step_size()
