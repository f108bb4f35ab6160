"""What drafts of a model have in common: their tokens are drawn under the masks of the target.

Logits of a draft model or head are masked, penalised and filtered like those of the target, so a
drafted token is one that the target could sample. A sampled token is drafted in one of two ways.
With a seed, it is drawn with the random keys that the target uses at the same positions, so that a
seed gives the same tokens with any drafts: common random numbers (Daliri, Musco & Suresh 2024,
"Coupling without communication and drafter-invariant speculative decoding"). Without a seed, it is
drawn with independent keys, and verified by :meth:`samplers.Sampler.verify`, which accepts more
often.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

import mlx.core as mx
from mlx.nn.layers.base import Module

from state_machines.budgets import step_limit

from ..batch_rows import BatchRows, CachedText
from ..forward_pass import NextLogits
from ..restrictions import ADVANCE_STEPS, SlowMaskError
from ..sequence import GeneratedSequence
from .drafts import MAX_TOKENS_PER_STEP, Draft


class DraftedText(CachedText):
    """The text of a sequence, as far as a model that drafts has read it. Its tail is a draft.

    Attributes:
        rows: The batch that has its cache.
    """

    def __init__(self, sequence: GeneratedSequence, processed: int) -> None:
        # The sequence appends its tokens to the same list.
        super().__init__(sequence.tokens, processed)
        self.rows: BatchRows[DraftedText] = BatchRows()

    def move_to(self, rows: BatchRows[DraftedText]) -> None:
        """Move the cache to another batch."""
        cache = self.rows.remove(self, wants_cache=True) or []
        self.rows = rows
        rows.add(self, cache)


_TextT = TypeVar("_TextT", bound=DraftedText)


@dataclass(slots=True)
class DraftJob(Generic[_TextT]):
    """The extension of one draft.

    Attributes:
        draft: The draft.
        text: The text of its sequence.
        left: How many more tokens may be drafted.
        fed: Tokens to read before the next one is drawn.
    """

    draft: Draft
    text: _TextT
    left: int
    fed: Sequence[int]

    @property
    def most_tokens(self) -> int:
        """The largest number of tokens of the draft."""
        return MAX_TOKENS_PER_STEP * self.left


class ModelDrafter(ABC):
    """Extends drafts with the tokens of a model. To be used on the model thread.

    A failed pass ends its drafts for the requests that take part. They continue without.

    Attributes:
        source: Names its proposals in acceptance rates.
        reads_states: Whether it reads hidden states of the target; see :meth:`observe`.
        state_layers: Layers of the target whose outputs these are; see :class:`ForwardPass`.
        model: The model.
        token_bytes: Bytes that it reads for each drafted token.
    """

    source: ClassVar[str]
    reads_states: ClassVar[bool] = False
    state_layers: Sequence[int] = ()
    model: Module
    token_bytes: int

    def __init__(self) -> None:
        # The texts that draft together.
        self._batch: BatchRows[DraftedText] = BatchRows()
        self._key = mx.random.key(secrets.randbits(64))

    def probe(self) -> None:  # noqa: B027
        """Determine which batches the model computes correctly."""

    def extend(self, drafts: Mapping[Draft, int], target: BatchRows[GeneratedSequence]) -> None:
        """Append tokens to drafts. A draft stays as it is where the model is not ready.

        Args:
            drafts: The maximum number of tokens to append to each draft.
            target: The sequences with their cache.

        Raises:
            Exception: A pass of the model fails. The drafts remain valid, and the caches of all
                sequences are freed.
        """
        states = {draft: draft.sequence.random_state for draft in drafts}
        try:
            # No grammar makes other requests wait.
            with step_limit(ADVANCE_STEPS):
                self._extend(drafts, target)
        except Exception:
            # A pass that failed may have changed some layers of a cache.
            self.clear()
            raise
        finally:
            # Verification uses the same random keys.
            for draft, state in states.items():
                draft.sequence.random_state = state

    def observe(  # noqa: B027
        self, sequence: GeneratedSequence, states: mx.array, end: int
    ) -> None:
        """Take the hidden states of a pass of the target.

        Args:
            sequence: The sequence.
            states: Those of the sequence's tokens in the pass.
            end: Where these tokens end in the sequence, with those on trial.
        """

    @abstractmethod
    def remove(self, sequence: GeneratedSequence, *, keeps_cache: bool = True) -> None:
        """Free the cache of a sequence that has left the batch.

        Args:
            sequence: The sequence.
            keeps_cache: Insert it into the prompt caches.
        """

    @abstractmethod
    def clear_prompt_cache(self) -> None:
        """Remove the cached texts."""

    @abstractmethod
    def clear(self) -> None:
        """Free the caches of all sequences."""

    @abstractmethod
    def _extend(self, drafts: Mapping[Draft, int], target: BatchRows[GeneratedSequence]) -> None:
        """Append tokens to drafts."""

    def _gather(self, texts: Collection[DraftedText]) -> None:
        """Move texts that draft together into one batch, and all others out of it."""
        for text in self._batch.sequences.copy():
            if text not in texts:
                text.move_to(BatchRows())
        for text in texts:
            if text.rows is not self._batch:
                text.move_to(self._batch)

    def _draw(self, draft: Draft, logits: mx.array) -> tuple[mx.array, mx.array | None] | None:
        """Draw a token; ``None`` if the mask of its position is slow.

        Args:
            draft: The draft, behind which the token is drawn.
            logits: Shape (1, width of the target's logits).
        """
        self._key, key = mx.random.split(self._key)
        try:
            state = draft.state.draft_state()
            state.prepare()
        except SlowMaskError:
            return None
        return state.draw_draft(NextLogits.known(logits), key)

    def _append(self, job: DraftJob[Any], proposal: tuple[mx.array, mx.array | None]) -> bool:
        """Append a drawn token to a draft; return whether another one is to be drafted."""
        token_id = cast(int, proposal[0].item())
        if not job.draft.append(token_id, self.source, proposal[1]):
            return False
        job.left -= 1
        job.fed = [token_id, *job.draft.steps[-1].forced]
        return job.left > 0 and not job.draft.is_closed


def fitted(logits: mx.array, width: int) -> mx.array:
    """Return logits of another width, without the ids of padding or with more of them."""
    missing = width - logits.shape[-1]
    if missing <= 0:
        return logits[..., :width]
    return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)
