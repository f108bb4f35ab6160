"""The prompts that are being processed: one, or several that share a pass."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..generation import (
    Batch,
    ForwardPass,
    GeneratedSequence,
    ModelDrafter,
    Prefill,
    Status,
)
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
from .running_request import RunningRequest

_log = logging.getLogger(__name__)

_MAX_SHARED_TOKENS = 16
"""Longest common prefix, beyond cached tokens, of prompts that are processed in one pass."""


class Prefills:
    """Processes the prompts of requests, from the longest cached prefix on.

    Several prompts are processed at a time only if they can share a pass. A single one may be
    processed, and wait until the batch can take it.

    Args:
        forward: The model's forward passes.
        caches: Prompt caches of the model.
        draft_model: Takes the hidden states of prompts, if it reads any.
    """

    def __init__(
        self, forward: ForwardPass, caches: PromptCaches, draft_model: ModelDrafter | None = None
    ) -> None:
        self._forward = forward
        self._caches = caches
        reads_states = draft_model is not None and draft_model.reads_states
        self._draft_model = draft_model if reads_states else None
        # Whether prompts share passes; not after such a pass has failed, until all have ended.
        self._joins_prompts = True

    @property
    def quantize(self) -> Callable[[list[Any]], None] | None:
        """Called with a cache after every pass; ``None``: caches are not quantized."""
        return None if self._caches.options.kv_bits is None else self._caches.quantize

    def can_join(self, request: Request, begun: Sequence[RunningRequest], batch: Batch) -> bool:
        """Whether a prompt should share a pass with the prompts that have begun.

        It should not if it starts with text that one of them is about to process: after that the
        text is cached.
        """
        prefills = _prefills(begun)
        step_size = _step_size(request)
        if not self._joins_prompts or request.prompt.inputs is not None:
            return False
        if not all(
            can_join_prefill(prefill) and prefill.left and prefill.step_size == step_size
            for prefill in prefills
        ):
            return False
        key = request.cache_key()
        cached = self._caches.cached_tokens(key)
        lengths = [len(request.prompt.token_ids) - cached, *(prefill.left for prefill in prefills)]
        max_tokens = joint_prefill_tokens(step_size, others_wait=bool(batch.sequences))
        if not is_joint_prefill_worthwhile(lengths, max_tokens):
            return False
        is_repeated = self._caches.options.max_bytes > 0 and (
            max(common_prefix(key, other.request.cache_key()) for other in begun) - cached
            > _MAX_SHARED_TOKENS
        )
        return not is_repeated and batch.can_prefill_together and batch.can_add(prefills[0].cache)

    def begin(self, running: RunningRequest, *, is_first: bool) -> None:
        """Begin with the prompt of a request.

        Args:
            running: The request.
            is_first: Whether no other prompt is being processed.
        """
        request, sequence = running.request, running.sequence
        key, inputs = request.cache_key(), request.prompt.inputs
        fetched = self._caches.fetch(key)
        if inputs is not None and fetched.cached_tokens < inputs.single_pass_end:
            fetched = self._caches.fetch(())
        running.cached_tokens = sequence.processed = fetched.cached_tokens
        running.report_progress(fetched.cached_tokens)
        lengths = self._caches.checkpoint_lengths(
            key, request.prompt.boundaries, max_tokens=request.max_tokens
        )
        insert = self._caches.insert_copy
        self._joins_prompts = self._joins_prompts or is_first
        sequence.status = Status.PREFILL
        running.prefill = Prefill(
            sequence,
            self._forward,
            fetched.cache,
            _step_size(request),
            quantize=self.quantize,
            checkpoints={
                length: partial(insert, key[:length], fetched.cache) for length in lengths
            },
            inputs=inputs,
            observe=None if self._draft_model is None else self._draft_model.observe,
        )

    def step(
        self, begun: Sequence[RunningRequest], batch: Batch, *, shares: bool
    ) -> tuple[list[RunningRequest], list[Any]]:
        """Run a pass over one prompt, or over all of them if they fit into it.

        Args:
            begun: The requests whose prompts have begun, in order.
            batch: Takes processed prompts.
            shares: Whether other requests could use the prompt's cache before this one is finished.

        Returns:
            The requests that have failed, or whose prompts are processed and can join the batch.
            The cache of the only one, or a cache with a row for each.
        """
        if len(begun) > 1 and (cache := self._step_together(begun)) is not None:
            return list(begun), cache
        running, prefill = begun[0], _prefills(begun)[0]
        if prefill.left:
            try:
                self._next_pass(running, prefill)
            except Exception as error:
                self.forget(running.sequence, keeps_cache=False)
                running.sequence.fail(error)
                return [running], []
            if not prefill.left and shares:
                self._share(running, prefill.cache)
        if prefill.left or not batch.can_add(prefill.cache):
            return [], []
        return [running], prefill.cache

    def forget(self, sequence: GeneratedSequence, *, keeps_cache: bool) -> None:
        """Free the draft model's state of a sequence that does not reach the batch."""
        if self._draft_model is not None:
            self._draft_model.remove(sequence, keeps_cache=keeps_cache)

    def _next_pass(self, running: RunningRequest, prefill: Prefill) -> None:
        """Run the next pass over a prompt."""
        sequence = running.sequence
        started, processed = time.perf_counter(), sequence.processed
        if not prefill.next_pass():
            # Only such a pass was waited for.
            seconds = time.perf_counter() - started
            self._caches.observe_prefill(sequence.processed - processed, seconds)
            running.report_progress(sequence.processed)

    def _step_together(self, begun: Sequence[RunningRequest]) -> list[Any] | None:
        """Process all prompts in one pass; ``None`` if that is not possible."""
        prefills = _prefills(begun)
        if not self._joins_prompts or not all(map(can_join_prefill, prefills)):
            return None
        try:
            cache = prefill_together(prefills)
        except Exception as error:
            # There may be enough memory for one prompt at a time. Later prompts are joined again.
            _log.warning("%d prompts are processed one after the other: %r", len(begun), error)
            self._joins_prompts = False
            return None
        if self._caches.options.max_bytes:
            for row, running in enumerate(begun):
                self._share(running, extract_kv_row(cache, row, running.sequence.processed))
        return cache

    def _share(self, running: RunningRequest, cache: list[Any]) -> None:
        """Let requests with the same beginning use a cache before this request is finished."""
        sequence = running.sequence
        key = running.request.cache_key(sequence.tokens[: sequence.processed])
        self._caches.share(key, cache)


def _prefills(begun: Sequence[RunningRequest]) -> list[Prefill]:
    return [running.prefill for running in begun if running.prefill is not None]


def _step_size(request: Request) -> int:
    """Return how many tokens of a request's prompt are processed per pass."""
    return request.options.prefill_step_size or default_prefill_step_size()
