"""Drafts of a model: their tokens are drawn under the masks of the target.

Logits of a draft model or head are masked, penalised and filtered like those of the target, so a
drafted token is one that the target could sample. A sampled token is drafted in one of two ways.
With a seed, it is drawn with the random keys that the target uses at the same positions, so that a
seed gives the same tokens with any drafts: common random numbers (Daliri, Musco & Suresh 2024,
"Coupling without communication and drafter-invariant speculative decoding"). Without a seed, it is
drawn with independent keys, and verified by :meth:`samplers.Sampler.verify`, which accepts more
often.

A draft model (Leviathan et al. 2023; Chen et al. 2023, "Accelerating large language model decoding
with speculative sampling") runs once per drafted token, for all sequences together if its caches
can be batched with padding. Forced tokens behind a drafted token are part of the draft, and are
processed with it in the next pass.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import ClassVar, cast

import mlx.core as mx
from mlx.nn.layers.base import Module

from state_machines.budgets import step_limit

from ...prompt_cache.layers import copy_cache
from ...prompt_cache.prompt_caches import PromptCaches
from ...runtime.device_memory import model_bytes
from ..batch_rows import BatchRows
from ..cache_layers import can_pad, can_trim, padded_tokens, right_padded
from ..forward_pass import NextLogits
from ..model_checks import ModelChecks
from ..prefill import MAX_TOKENS_WITH_LOGITS, default_prefill_step_size
from ..restrictions import ADVANCE_STEPS, SlowMaskError
from ..sequence import GeneratedSequence
from .drafting import DraftedText
from .drafts import MAX_TOKENS_PER_STEP, Draft


class ModelDrafter(ABC):
    """Extends drafts with the tokens of a model. To be used on the model thread.

    Its text of a sequence is the ``text`` of the sequence's :class:`Drafting`. A failed pass ends
    its drafts for the requests that take part. They continue without.

    Args:
        model: The model.
        caches: Its prompt caches.
        width: Size of the target's vocabulary. Logits of another width are cut off or padded.
        step_size: Maximum number of tokens of a pass; ``None``: a default for the device.

    Attributes:
        source: Names its proposals in acceptance rates.
        reads_states: Whether it reads hidden states of the target; see :meth:`observe`.
        state_layers: Layers of the target whose outputs these are; see :class:`ForwardPass`.
        model: The model.
        token_bytes: Bytes that it reads for each drafted token.
        step_size: Maximum number of tokens of a pass.
    """

    source: ClassVar[str]
    reads_states: ClassVar[bool] = False
    state_layers: Sequence[int] = ()

    def __init__(
        self, model: Module, caches: PromptCaches, *, width: int, step_size: int | None
    ) -> None:
        self.model = model
        self.token_bytes = model_bytes(model)
        self._caches = caches
        self._width = width
        self.step_size = step_size or default_prefill_step_size()
        # The texts that draft together.
        self._batch: BatchRows[DraftedText] = BatchRows()
        self._key = mx.random.key(secrets.randbits(64))

    def probe(self) -> None:  # noqa: B027
        """Determine which batches the model computes correctly."""

    def extend(
        self, drafts: Mapping[GeneratedSequence, Draft], target: BatchRows[GeneratedSequence]
    ) -> None:
        """Append up to ``at_most`` tokens to drafts; none where the model is not ready.

        Args:
            drafts: The drafts of sequences.
            target: The sequences with their cache.

        Raises:
            Exception: A pass of the model fails. The drafts remain valid, and the caches of all
                sequences are freed.
        """
        states = {sequence: sequence.random_state for sequence in drafts}
        try:
            # No grammar makes other requests wait.
            with step_limit(ADVANCE_STEPS):
                self._extend(drafts, target)
        except Exception:
            # A pass that failed may have changed some layers of a cache.
            self.clear()
            for sequence in target.sequences:
                if sequence.drafting is not None:
                    sequence.drafting.text = None
            raise
        finally:
            # Verification uses the same random keys.
            for sequence, state in states.items():
                sequence.random_state = state

    def observe(  # noqa: B027
        self, sequence: GeneratedSequence, states: mx.array, end: int
    ) -> None:
        """Take the hidden states of a pass of the target.

        Args:
            sequence: The sequence.
            states: Those of the sequence's tokens in the pass, shape (tokens, width).
            end: Where these tokens end in the sequence, with those on trial.
        """

    def remove(self, sequence: GeneratedSequence, *, keeps_cache: bool = True) -> None:
        """Free the cache of a sequence that has left the batch.

        Args:
            sequence: The sequence.
            keeps_cache: Insert it into the prompt caches.
        """
        drafting = sequence.drafting
        if drafting is None or drafting.text is None:
            return
        text, drafting.text = drafting.text, None
        cache = text.rows.remove(text, wants_cache=keeps_cache)
        if cache is not None and text.processed:
            self._caches.insert(self._cache_key(text.tokens), cache, processed=text.processed)

    def clear_prompt_cache(self) -> None:
        """Remove the cached texts."""
        self._caches.clear()

    def clear(self) -> None:
        """Free the caches of the texts that draft together, which are not used any more."""
        self._batch = BatchRows()

    @abstractmethod
    def _extend(
        self, drafts: Mapping[GeneratedSequence, Draft], target: BatchRows[GeneratedSequence]
    ) -> None:
        """Append tokens to drafts."""

    def _cache_key(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the key of a text in the prompt caches."""
        return tokens

    def _gather(self, texts: Collection[DraftedText]) -> None:
        """Move texts into the batch that drafts together, and all other texts out of it."""
        for text in self._batch.sequences.copy():
            if text not in texts:
                text.move_to(BatchRows())
        for text in texts:
            if text.rows is not self._batch:
                text.move_to(self._batch)

    def _append(
        self, drafts: Mapping[GeneratedSequence, Draft], logits: Sequence[mx.array]
    ) -> dict[GeneratedSequence, Draft]:
        """Draw a token behind each draft, and append it.

        Args:
            drafts: The drafts.
            logits: Logits behind each of them, shape (1, width).

        Returns:
            The drafts to extend further. Other drafts are closed, or the next mask is slow.
        """
        drawn = [
            self._draw(sequence, draft, row)
            for (sequence, draft), row in zip(drafts.items(), logits, strict=True)
        ]
        mx.eval([proposal for proposal in drawn if proposal is not None])
        going = {}
        for (sequence, draft), proposal in zip(drafts.items(), drawn, strict=True):
            if proposal is None:
                continue
            token, log_q = proposal
            token_id = cast(int, token.item())
            if draft.append(token_id, self.source, log_q) and not draft.is_closed:
                going[sequence] = draft
        return going

    def _draw(
        self, sequence: GeneratedSequence, draft: Draft, logits: mx.array
    ) -> tuple[mx.array, mx.array | None] | None:
        """Draw a token behind a draft; ``None`` if the mask of its position is slow."""
        self._key, key = mx.random.split(self._key)
        try:
            # The mask is computed again for verification, so the state must not change here.
            sequence.prepare(draft.constraint.draft())
        except SlowMaskError:
            return None
        return sequence.draw_draft(NextLogits.known(logits), key, draft.text)


def fitted(logits: mx.array, width: int) -> mx.array:
    """Return logits of another width, without the ids of padding or with more of them."""
    missing = width - logits.shape[-1]
    if missing <= 0:
        return logits[..., :width]
    return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)


class DraftModel(ModelDrafter):
    """Extends drafts with the tokens of a draft model.

    Args:
        model: The draft model.
        caches: Its prompt caches.
        width: Size of the target's vocabulary.
        context_length: Longest sequence of the draft model in tokens; ``None``: no limit.
        step_size: Maximum number of tokens of a pass; ``None``: a default for the device.
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
        super().__init__(model, caches, width=width, step_size=step_size)
        self._call: Callable[..., mx.array] = model
        self._context_length = context_length
        self._probe = ModelChecks(model)

    def probe(self) -> None:
        """Determine which batches the draft model computes correctly."""
        self._probe.can_pad()

    def _extend(
        self, drafts: Mapping[GeneratedSequence, Draft], target: BatchRows[GeneratedSequence]
    ) -> None:
        texts: dict[GeneratedSequence, DraftedText] = {}
        is_prefilled = False
        for sequence, draft in drafts.items():
            text = self._text(sequence) if self._has_room(draft) else None
            missing = 0 if text is None else len(text.pending)
            if text is None or not missing or (missing > self.step_size and is_prefilled):
                continue
            if missing > MAX_TOKENS_WITH_LOGITS:
                # A separate pass computes no logits and no padding for these tokens.
                self._read(text, min(self.step_size, missing - 1))
            if missing > self.step_size:
                is_prefilled = True
            else:
                texts[sequence] = text
        together = [text for text in texts.values() if len(texts) > 1 and self._can_batch(text)]
        self._gather(together)
        for rows in dict.fromkeys(text.rows for text in texts.values()):
            of_rows = {one: text for one, text in texts.items() if text.rows is rows}
            self._draft(rows, of_rows, {sequence: drafts[sequence] for sequence in of_rows})

    def _has_room(self, draft: Draft) -> bool:
        length = len(draft.text) + draft.at_most
        return self._context_length is None or length <= self._context_length

    def _can_batch(self, text: DraftedText) -> bool:
        return can_pad(text.rows.cache) and self._probe.can_pad()

    def _text(self, sequence: GeneratedSequence) -> DraftedText | None:
        """Return the text of a sequence, without refused tokens of earlier drafts."""
        drafting = sequence.drafting
        if drafting is None:
            return None
        text = drafting.text
        if text is None:
            fetched = self._caches.fetch(sequence.tokens)
            text = drafting.text = DraftedText(sequence.tokens, fetched.cached_tokens)
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

    def _draft(
        self,
        rows: BatchRows[DraftedText],
        texts: dict[GeneratedSequence, DraftedText],
        drafts: Mapping[GeneratedSequence, Draft],
    ) -> None:
        """Run the passes of the drafts of a batch, to which all texts belong."""
        pending = {text: text.pending for text in texts.values()}
        logits = self._forward(rows, pending)
        for text, tokens in pending.items():
            text.processed += len(tokens)
        if len(drafts) == 1:
            ((sequence, draft),) = drafts.items()
            if not can_trim(rows.cache, MAX_TOKENS_PER_STEP * draft.at_most):
                # The cache could not drop the draft again: a copy takes it.
                cache, rows, twin = copy_cache(rows.cache), BatchRows(), copy(texts[sequence])
                texts = {sequence: twin}
                rows.add(twin, cache)
        while True:
            mx.async_eval(logits)
            drafts = self._append(drafts, logits)
            if not drafts:
                return
            drafted = {texts[one]: draft.steps[-1].tokens for one, draft in drafts.items()}
            logits = self._forward(rows, drafted)
            for text, tokens in drafted.items():
                text.propose(tokens)

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
