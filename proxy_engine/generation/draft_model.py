"""Drafts of a draft model (Leviathan et al. 2023; Chen et al. 2023, "Accelerating large language
model decoding with speculative sampling").

The draft model runs once per drafted token, for all sequences together if its caches can be batched
with padding. Its logits are masked, penalised and filtered like those of the target, so a drafted
token is one that the target could sample. Forced tokens behind a drafted token are part of the
draft, and are processed with it in the next pass.

A sampled token is drafted in one of two ways. With a seed, the draft model draws with the random
keys that the target uses at the same positions, so that a seed gives the same tokens with any
drafts: common random numbers (Daliri, Musco & Suresh 2024, "Coupling without communication and
drafter-invariant speculative decoding"). Without a seed, it draws with independent keys, and the
token is verified by :meth:`samplers.Sampler.verify`, which accepts more often.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from state_machines.budgets import step_limit

from ..prompt_cache.layers import copy_cache, is_trimmable
from ..prompt_cache.prompt_caches import PromptCaches
from .cache_layers import (
    can_merge,
    can_pad,
    can_trim,
    extract_kv_row,
    keep_rows,
    merge,
    right_padded,
    trim,
)
from .constraint import ADVANCE_STEPS, SlowMaskError
from .drafts import MAX_TOKENS_PER_STEP, Draft
from .forward_pass import NextLogits
from .model_checks import ModelChecks
from .prefill import MAX_TOKENS_WITH_LOGITS, default_prefill_step_size
from .sequence import Sequence as GeneratedSequence

_log = logging.getLogger(__name__)

DRAFT_MODEL = "draft_model"
"""Name of the draft model among the drafters."""


@dataclass(slots=True)
class _Row:
    """The draft model's cache of one sequence.

    Attributes:
        cache: One entry per layer.
        tokens: The tokens that the cache holds: of the sequence, then of drafts.
        confirmed: Number of leading tokens that are known to be the sequence's.
    """

    cache: list[Any]
    tokens: list[int]
    confirmed: int


@dataclass(slots=True)
class _Job:
    """The extension of one draft.

    Attributes:
        draft: The draft.
        row: Its sequence's row.
        left: How many more tokens may be drafted.
        fed: The tokens of the next pass, at least one.
    """

    draft: Draft
    row: _Row
    left: int
    fed: list[int]


class DraftModel:
    """Extends drafts with the tokens of a draft model. To be used on the model thread.

    A failed pass disables the draft model. Requests continue without it.

    Args:
        model: The draft model.
        caches: Its prompt caches.
        width: Size of the target's vocabulary. Logits of another width are cut off or padded.
        context_length: Longest sequence of the draft model in tokens; ``None``: no limit.
        step_size: Maximum number of tokens of a pass; ``None``: a default for the device.

    Attributes:
        model: The draft model.
    """

    def __init__(
        self,
        model: Module,
        caches: PromptCaches,
        *,
        width: int,
        context_length: int | None = None,
        step_size: int | None = None,
    ) -> None:
        self.model = model
        self._call: Callable[..., mx.array] = model
        self._caches = caches
        self._width = width
        self._context_length = context_length
        self._step_size = step_size or default_prefill_step_size()
        self._probe = ModelChecks(model)
        self._rows: dict[GeneratedSequence, _Row] = {}
        self._key = mx.random.key(secrets.randbits(64))
        if not is_trimmable(make_prompt_cache(model)):
            _log.info("the draft model drafts from copies of its cache, which cannot be trimmed")

    def __len__(self) -> int:
        """Return the number of sequences whose cache is kept."""
        return len(self._rows)

    def probe(self) -> None:
        """Determine which batches the draft model computes correctly."""
        self._probe.can_pad()

    def extend(self, drafts: Mapping[Draft, int]) -> None:
        """Append tokens to drafts.

        A draft stays as it is if many tokens before it are unknown to the draft model. One such
        sequence in each call takes a step of prefill.

        Args:
            drafts: The maximum number of tokens to append to each draft.

        Raises:
            Exception: A pass of the draft model fails. The drafts remain valid, and the caches of
                all sequences are freed.
        """
        states = {draft: draft.sequence.random_state for draft in drafts}
        try:
            # No grammar makes other requests wait.
            with step_limit(ADVANCE_STEPS):
                self._extend(drafts)
            # A limit that was reached has left rows in a batch cache.
            self._rows = {sequence: row for sequence, row in self._rows.items() if row.cache}
        except Exception:
            # A pass that failed may have changed some layers of a cache.
            self._rows.clear()
            raise
        finally:
            # Verification uses the same random keys.
            for draft, state in states.items():
                draft.sequence.random_state = state

    def remove(self, sequence: GeneratedSequence, *, keeps_cache: bool = True) -> None:
        """Free the cache of a sequence that has left the batch.

        Args:
            sequence: The sequence.
            keeps_cache: Insert it into the prompt caches.
        """
        row = self._rows.pop(sequence, None)
        if row is not None and keeps_cache:
            length = _common_prefix(row, sequence.tokens)
            self._caches.insert(row.tokens[:length], row.cache, processed=len(row.tokens))

    def clear_prompt_cache(self) -> None:
        """Remove the cached texts."""
        self._caches.clear()

    def clear(self) -> None:
        """Free the caches of all sequences."""
        self._rows.clear()

    def _extend(self, drafts: Mapping[Draft, int]) -> None:
        jobs = []
        is_prefilled = False
        for draft, at_most in drafts.items():
            text = draft.state.tokens
            if draft.is_closed or at_most < 1 or not self._has_room(len(text), at_most):
                continue
            row = self._row(draft)
            missing = text[len(row.tokens) :]
            if len(missing) > self._step_size:
                if not is_prefilled:
                    self._read(row, missing[: self._step_size])
                is_prefilled = True
                continue
            if len(missing) > MAX_TOKENS_WITH_LOGITS:
                # A separate pass computes no logits and no padding for these tokens.
                self._read(row, missing[:-1])
                missing = missing[-1:]
            jobs.append(_Job(draft, row, at_most, missing))
        together = [
            job for job in jobs if len(jobs) > 1 and _can_trim(job) and self._can_batch(job)
        ]
        for job in jobs:
            if job not in together:
                self._draft_alone(job)
        if together:
            self._draft_together(together)

    def _read(self, row: _Row, tokens: list[int]) -> None:
        """Dispatch a pass that fills the cache; its logits are not computed."""
        self._forward(row.cache, [tokens])
        row.tokens += tokens
        mx.async_eval([layer.state for layer in row.cache])

    def _has_room(self, length: int, at_most: int) -> bool:
        return self._context_length is None or length + at_most <= self._context_length

    def _can_batch(self, job: _Job) -> bool:
        return can_merge(job.row.cache) and self._probe.can_pad()

    def _row(self, draft: Draft) -> _Row:
        """Return the row of a draft's sequence, without refused tokens of earlier drafts."""
        text = draft.state.tokens
        row = self._rows.get(draft.sequence)
        if row is not None:
            # The last token is processed again for its logits.
            length = min(_common_prefix(row, text), len(text) - 1)
            excess = len(row.tokens) - length
            if not excess or is_trimmable(row.cache):
                if excess:
                    trim(row.cache, excess)
                del row.tokens[length:]
                row.confirmed = min(length, len(draft.sequence.tokens))
                return row
        fetched = self._caches.fetch(text)
        length = fetched.cached_tokens
        row = self._rows[draft.sequence] = _Row(fetched.cache, text[:length], 0)
        return row

    def _draft_alone(self, job: _Job) -> None:
        row = job.row
        if _can_trim(job):
            self._draft([job], row.cache)
            return
        # The row keeps the sequence's own tokens only. A copy processes the draft.
        own = job.draft.sequence.tokens[len(row.tokens) :]
        job.fed = job.fed[len(own) :]
        logits = self._forward(row.cache, [own])
        row.tokens += own
        job.row = _Row(copy_cache(row.cache), list(row.tokens), len(row.tokens))
        self._draft([job], job.row.cache, None if job.fed else logits)

    def _draft_together(self, jobs: list[_Job]) -> None:
        cache = merge([job.row.cache for job in jobs])
        if not can_pad(cache):
            for job in jobs:
                self._draft_alone(job)
            return
        for job in jobs:
            job.row.cache = []
        self._draft(list(jobs), cache)

    def _draft(
        self, jobs: list[_Job], cache: list[Any], logits: list[mx.array] | None = None
    ) -> None:
        """Run the passes of some drafts, one row of the cache each.

        Args:
            jobs: The drafts.
            cache: The cache of a single one, or a batch cache.
            logits: The result of the first pass, if it was dispatched already.
        """
        is_batch = len(jobs) > 1
        while jobs:
            if logits is None:
                logits = self._forward(cache, [job.fed for job in jobs])
                for job in jobs:
                    job.row.tokens += job.fed
            mx.async_eval(logits)
            drawn = [self._propose(job, own) for job, own in zip(jobs, logits, strict=True)]
            logits = None
            mx.eval([proposal for proposal in drawn if proposal is not None])
            goes_on = [_append(job, proposal) for job, proposal in zip(jobs, drawn, strict=True)]
            kept = [number for number, goes in enumerate(goes_on) if goes]
            if is_batch and len(kept) < len(jobs):
                for number, job in enumerate(jobs):
                    if not goes_on[number]:
                        job.row.cache = extract_kv_row(cache, number, len(job.row.tokens))
                        mx.async_eval([layer.state for layer in job.row.cache])
                if kept:
                    keep_rows(cache, kept)
            jobs = [jobs[number] for number in kept]

    def _propose(self, job: _Job, logits: mx.array) -> tuple[mx.array, mx.array | None] | None:
        """Draw a token; ``None`` if the mask of its position is slow."""
        self._key, key = mx.random.split(self._key)
        try:
            return job.draft.state.draw_draft(NextLogits.known(logits), key)
        except SlowMaskError:
            return None

    def _forward(self, cache: list[Any], fed: Sequence[Sequence[int]]) -> list[mx.array]:
        """Dispatch a pass over some tokens of each row.

        Returns:
            Lazy logits behind the last token of each row, shape (1, width).
        """
        lengths = [len(tokens) for tokens in fed]
        longest = max(lengths)
        padded = mx.array([[*tokens, *[0] * (longest - len(tokens))] for tokens in fed], mx.int32)
        if min(lengths) == longest:
            logits = self._call(padded, cache=cache)[:, -1, :]
        else:
            with right_padded(cache, lengths):
                logits = self._call(padded, cache=cache)
            ends = mx.array([length - 1 for length in lengths])
            logits = logits[mx.arange(len(fed)), ends]
        return [_fitted(logits[row : row + 1], self._width) for row in range(len(fed))]


def _append(job: _Job, drawn: tuple[mx.array, mx.array | None] | None) -> bool:
    """Append a drawn token to its draft; return whether another one is to be drafted."""
    if drawn is None:
        return False
    token, log_q = drawn
    token_id = cast(int, token.item())
    if not job.draft.append(token_id, DRAFT_MODEL, log_q):
        return False
    job.left -= 1
    job.fed = [token_id, *job.draft.steps[-1].forced]
    return job.left > 0 and not job.draft.is_closed


def _can_trim(job: _Job) -> bool:
    """Whether all tokens of a draft can be trimmed again."""
    return can_trim(job.row.cache, len(job.fed) + MAX_TOKENS_PER_STEP * job.left)


def _common_prefix(row: _Row, text: Sequence[int]) -> int:
    """Return how many of a row's tokens a text begins with. It begins with the confirmed ones."""
    length = row.confirmed
    limit = min(len(row.tokens), len(text))
    while length < limit and row.tokens[length] == text[length]:
        length += 1
    return length


def _fitted(logits: mx.array, width: int) -> mx.array:
    """Return logits of another width, without the ids of padding or with more of them."""
    missing = width - logits.shape[-1]
    if missing <= 0:
        return logits[..., :width]
    return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)
