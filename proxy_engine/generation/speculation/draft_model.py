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

import secrets
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import cast

import mlx.core as mx
from mlx.nn.layers.base import Module

from state_machines.budgets import step_limit

from ...prompt_cache.layers import copy_cache
from ...prompt_cache.prompt_caches import PromptCaches
from ..batch_rows import BatchRows, CachedText
from ..cache_layers import can_pad, can_trim, padded_tokens, right_padded
from ..constraint import ADVANCE_STEPS, SlowMaskError
from ..forward_pass import NextLogits
from ..model_checks import ModelChecks
from ..prefill import MAX_TOKENS_WITH_LOGITS, default_prefill_step_size
from ..sequence import Sequence as GeneratedSequence
from .drafts import MAX_TOKENS_PER_STEP, Draft

DRAFT_MODEL = "draft_model"
"""Name of the draft model among the drafters."""


class _DraftedText(CachedText):
    """The text of a sequence, as far as the draft model has read it. Its tail is a draft.

    Attributes:
        rows: The batch that has its cache.
    """

    def __init__(self, sequence: GeneratedSequence, processed: int) -> None:
        # The sequence appends its tokens to the same list.
        super().__init__(sequence.tokens, processed)
        self.rows: BatchRows[_DraftedText] = BatchRows()

    def move_to(self, rows: BatchRows[_DraftedText]) -> None:
        """Move the cache to another batch."""
        cache = self.rows.remove(self, wants_cache=True) or []
        self.rows = rows
        rows.add([self], cache)


@dataclass(slots=True)
class _Job:
    """The extension of one draft.

    Attributes:
        draft: The draft.
        text: The text of its sequence.
        left: How many more tokens may be drafted.
        fed: The tokens of the next pass, at least one.
    """

    draft: Draft
    text: _DraftedText
    left: int
    fed: Sequence[int]

    @property
    def most_tokens(self) -> int:
        """The largest number of tokens of the draft."""
        return MAX_TOKENS_PER_STEP * self.left

    def append(self, token_id: int, log_q: mx.array | None) -> bool:
        """Append a drawn token to the draft; return whether another one is to be drafted."""
        if not self.draft.append(token_id, DRAFT_MODEL, log_q):
            return False
        self.left -= 1
        self.fed = [token_id, *self.draft.steps[-1].forced]
        return self.left > 0 and not self.draft.is_closed


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
        self._texts: dict[GeneratedSequence, _DraftedText] = {}
        # The texts that draft together.
        self._batch: BatchRows[_DraftedText] = BatchRows()
        self._key = mx.random.key(secrets.randbits(64))

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
        except Exception:
            # A pass that failed may have changed some layers of a cache.
            self.clear()
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
        text = self._texts.pop(sequence, None)
        if text is None:
            return
        cache = text.rows.remove(text, wants_cache=keeps_cache)
        if cache is not None:
            self._caches.insert(text.tokens, cache, processed=text.processed)

    def clear_prompt_cache(self) -> None:
        """Remove the cached texts."""
        self._caches.clear()

    def clear(self) -> None:
        """Free the caches of all sequences."""
        self._texts.clear()
        self._batch = BatchRows()

    def _extend(self, drafts: Mapping[Draft, int]) -> None:
        jobs: list[_Job] = []
        is_prefilled = False
        for draft, at_most in drafts.items():
            if draft.is_closed or at_most < 1 or not self._has_room(draft, at_most):
                continue
            text = self._text(draft.sequence)
            missing = len(text.pending)
            if not missing or (missing > self._step_size and is_prefilled):
                continue
            if missing > MAX_TOKENS_WITH_LOGITS:
                # A separate pass computes no logits and no padding for these tokens.
                self._read(text, min(self._step_size, missing - 1))
            if missing > self._step_size:
                is_prefilled = True
            else:
                jobs.append(_Job(draft, text, at_most, text.pending))
        together = [job.text for job in jobs if len(jobs) > 1 and self._can_batch(job)]
        for text in self._batch.sequences.copy():
            if text not in together:
                text.move_to(BatchRows())
        for text in together:
            if text.rows is not self._batch:
                text.move_to(self._batch)
        for rows in dict.fromkeys(job.text.rows for job in jobs):
            self._draft(rows, [job for job in jobs if job.text.rows is rows])

    def _has_room(self, draft: Draft, at_most: int) -> bool:
        length = len(draft.sequence.tokens)
        return self._context_length is None or length + at_most <= self._context_length

    def _can_batch(self, job: _Job) -> bool:
        return can_pad(job.text.rows.cache) and self._probe.can_pad()

    def _text(self, sequence: GeneratedSequence) -> _DraftedText:
        """Return the text of a sequence, without refused tokens of earlier drafts."""
        text = self._texts.get(sequence)
        if text is None:
            fetched = self._caches.fetch(sequence.tokens)
            text = self._texts[sequence] = _DraftedText(sequence, fetched.cached_tokens)
            text.rows.add([text], fetched.cache)
        rows = text.rows
        rows.settle()
        if not text.pending and can_trim(rows.cache, 0):
            # The last token is processed again, for its logits.
            text.processed, text.padding = text.processed - 1, 1
            rows.settle()
        return text

    def _read(self, text: _DraftedText, count: int) -> None:
        """Dispatch a pass over some pending tokens; its logits are not computed."""
        if len(text.rows.sequences) > 1:
            text.move_to(BatchRows())
        self._forward(text.rows, {text: text.pending[:count]})
        text.processed += count
        mx.async_eval([layer.state for layer in text.rows.cache])

    def _draft(self, rows: BatchRows[_DraftedText], jobs: list[_Job]) -> None:
        """Run the passes of the drafts of a batch, to which all texts of the jobs belong."""
        logits = self._forward(rows, {job.text: job.fed for job in jobs})
        for job in jobs:
            job.text.processed += len(job.fed)
        first = jobs[0]
        if len(jobs) == 1 and not can_trim(rows.cache, first.most_tokens):
            # The cache could not drop the draft again: a copy takes it.
            cache, rows, first.text = copy_cache(rows.cache), BatchRows(), copy(first.text)
            rows.add([first.text], cache)
        while True:
            mx.async_eval(logits)
            drawn = [(job, self._draw(job, own)) for job, own in zip(jobs, logits, strict=True)]
            mx.eval([proposal for _, proposal in drawn if proposal is not None])
            jobs = [
                job
                for job, proposal in drawn
                if proposal is not None and job.append(cast(int, proposal[0].item()), proposal[1])
            ]
            if not jobs:
                return
            logits = self._forward(rows, {job.text: job.fed for job in jobs})
            for job in jobs:
                job.text.propose(job.fed)

    def _draw(self, job: _Job, logits: mx.array) -> tuple[mx.array, mx.array | None] | None:
        """Draw a token; ``None`` if the mask of its position is slow."""
        self._key, key = mx.random.split(self._key)
        try:
            # The mask is computed again for verification, so the state must not change here.
            state = job.draft.state
            token = state.next_token(constraint=copy(state.constraint))
        except SlowMaskError:
            return None
        return token.draw_draft(NextLogits.known(logits), key)

    def _forward(
        self, rows: BatchRows[_DraftedText], fed: Mapping[_DraftedText, Sequence[int]]
    ) -> list[mx.array]:
        """Dispatch a pass over some tokens of some texts of a batch.

        Returns:
            Lazy logits behind the last token of each text, shape (1, width).
        """
        tokens = [fed.get(text, ()) for text in rows.sequences]
        lengths = [len(of_row) for of_row in tokens]
        padded = padded_tokens(tokens)
        if min(lengths) == max(lengths):
            logits = self._call(padded, cache=rows.cache)
        else:
            with right_padded(rows.cache, lengths):
                logits = self._call(padded, cache=rows.cache)
        return [
            _fitted(logits[text.row : text.row + 1, len(own) - 1], self._width)
            for text, own in fed.items()
        ]


def _fitted(logits: mx.array, width: int) -> mx.array:
    """Return logits of another width, without the ids of padding or with more of them."""
    missing = width - logits.shape[-1]
    if missing <= 0:
        return logits[..., :width]
    return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)
