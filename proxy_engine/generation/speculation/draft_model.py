"""Drafts of a draft model (Leviathan et al. 2023; Chen et al. 2023, "Accelerating large language
model decoding with speculative sampling").

The draft model runs once per drafted token, for all sequences together if its caches can be batched
with padding. Forced tokens behind a drafted token are part of the draft, and are processed with it
in the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

import mlx.core as mx
from mlx.nn.layers.base import Module

from ...prompt_cache.layers import copy_cache
from ...prompt_cache.prompt_caches import PromptCaches
from ..batch_rows import BatchRows
from ..cache_layers import can_pad, can_trim, padded_tokens, right_padded
from ..model_checks import ModelChecks
from ..prefill import MAX_TOKENS_WITH_LOGITS, default_prefill_step_size
from ..sequence import GeneratedSequence
from ..wired_memory import model_bytes
from .drafts import Draft
from .model_drafter import DraftedText, DraftJob, ModelDrafter, fitted


class DraftModel(ModelDrafter):
    """Extends drafts with the tokens of a draft model. To be used on the model thread.

    Args:
        model: The draft model.
        caches: Its prompt caches.
        width: Size of the target's vocabulary. Logits of another width are cut off or padded.
        context_length: Longest sequence of the draft model in tokens; ``None``: no limit.
        step_size: Maximum number of tokens of a pass; ``None``: a default for the device.

    Attributes:
        model: The draft model.
    """

    source = "draft_model"

    def __init__(
        self,
        model: Module,
        caches: PromptCaches,
        *,
        width: int,
        context_length: int | None = None,
        step_size: int | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.token_bytes = model_bytes(model)
        self._call: Callable[..., mx.array] = model
        self._caches = caches
        self._width = width
        self._context_length = context_length
        self._step_size = step_size or default_prefill_step_size()
        self._probe = ModelChecks(model)
        self._texts: dict[GeneratedSequence, DraftedText] = {}

    def probe(self) -> None:
        """Determine which batches the draft model computes correctly."""
        self._probe.can_pad()

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

    def _extend(self, drafts: Mapping[Draft, int], target: BatchRows[GeneratedSequence]) -> None:
        jobs: list[DraftJob[DraftedText]] = []
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
                jobs.append(DraftJob(draft, text, at_most, text.pending))
        together = [job.text for job in jobs if len(jobs) > 1 and self._can_batch(job)]
        self._gather(together)
        for rows in dict.fromkeys(job.text.rows for job in jobs):
            self._draft(rows, [job for job in jobs if job.text.rows is rows])

    def _has_room(self, draft: Draft, at_most: int) -> bool:
        length = len(draft.sequence.tokens)
        return self._context_length is None or length + at_most <= self._context_length

    def _can_batch(self, job: DraftJob[DraftedText]) -> bool:
        return can_pad(job.text.rows.cache) and self._probe.can_pad()

    def _text(self, sequence: GeneratedSequence) -> DraftedText:
        """Return the text of a sequence, without refused tokens of earlier drafts."""
        text = self._texts.get(sequence)
        if text is None:
            fetched = self._caches.fetch(sequence.tokens)
            text = self._texts[sequence] = DraftedText(sequence, fetched.cached_tokens)
            text.rows.add(text, fetched.cache)
        rows = text.rows
        rows.settle()
        if not text.pending and can_trim(rows.cache, 0):
            # The last token is processed again, for its logits.
            text.processed, text.padding = text.processed - 1, 1
            rows.settle()
        return text

    def _read(self, text: DraftedText, count: int) -> None:
        """Dispatch a pass over some pending tokens; its logits are not computed."""
        if len(text.rows.sequences) > 1:
            text.move_to(BatchRows())
        self._forward(text.rows, {text: text.pending[:count]})
        text.processed += count
        mx.async_eval([layer.state for layer in text.rows.cache])

    def _draft(self, rows: BatchRows[DraftedText], jobs: list[DraftJob[DraftedText]]) -> None:
        """Run the passes of the drafts of a batch, to which all texts of the jobs belong."""
        logits = self._forward(rows, {job.text: job.fed for job in jobs})
        for job in jobs:
            job.text.processed += len(job.fed)
        first = jobs[0]
        if len(jobs) == 1 and not can_trim(rows.cache, first.most_tokens):
            # The cache could not drop the draft again: a copy takes it.
            cache, rows, first.text = copy_cache(rows.cache), BatchRows(), copy(first.text)
            rows.add(first.text, cache)
        while True:
            mx.async_eval(logits)
            drawn = [
                (job, self._draw(job.draft, row)) for job, row in zip(jobs, logits, strict=True)
            ]
            mx.eval([proposal for _, proposal in drawn if proposal is not None])
            jobs = [
                job
                for job, proposal in drawn
                if proposal is not None and self._append(job, proposal)
            ]
            if not jobs:
                return
            logits = self._forward(rows, {job.text: job.fed for job in jobs})
            for job in jobs:
                job.text.propose(job.fed)

    def _forward(
        self, rows: BatchRows[DraftedText], fed: Mapping[DraftedText, Sequence[int]]
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
            fitted(logits[text.row : text.row + 1, len(pending) - 1], self._width)
            for text, pending in fed.items()
        ]
