"""Options of one sequence, and the interface of its samplers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.tokenizer_utils import TokenizerWrapper

from samplers import Sampler
from state_machines import Vocabulary

from .sampler_schedule import SamplerSchedule


class TokenSampler(Protocol):
    """Samples a token; see :class:`samplers.Sampler`."""

    def __call__(
        self,
        logits: mx.array,
        tokens: Sequence[int],
        among: mx.array | None = None,
        /,
        *,
        prompt_tokens: int = 0,
    ) -> mx.array:
        """Return a token id, from ``among`` if given, without waiting for it."""


class Schedule(Protocol):
    """Chooses the sampler of each token; see :class:`SamplerSchedule`."""

    def next_sampler(self, generated: int, /) -> TokenSampler:
        """Return the sampler of the next token. Called before each mask."""


class DraftCounts(Protocol):
    """Counts the draft tokens of a sequence; see :class:`Drafting`.

    Attributes:
        drafted_tokens: Proposed tokens that the model has verified.
        accepted_tokens: Those of them that were accepted.
    """

    drafted_tokens: int
    accepted_tokens: int


@dataclass(frozen=True, slots=True)
class SequenceOptions:
    """Options of one sequence.

    Attributes:
        end_token_ids: Tokens that end the sequence. The first of them is used for a forced end.
        max_tokens: Maximum number of generated tokens.
        min_tokens: End tokens are masked before this many tokens, if other tokens are allowed.
        soft_max_tokens: From here on, tokens that bring the end nearer are boosted.
        logprobs: Number of most likely tokens that are reported; ``None``: no log-probabilities.
        logprob_vectors: Report the log-probabilities of all tokens.
        usable_tokens: Mask of unconstrained text, bool, shape (vocabulary,): excludes ids that are
            no tokens. ``None``: all tokens are usable.
        stop_repetition: End arrays and strings of JSON that repeat themselves and have no bound.
        weighs: Record the importance weights of tokens. The schedule has to be a
            ``SamplerSchedule``.
    """

    end_token_ids: Sequence[int]
    max_tokens: int
    min_tokens: int = 0
    soft_max_tokens: int | None = None
    logprobs: int | None = None
    logprob_vectors: bool = False
    usable_tokens: npt.NDArray[np.bool_] | None = None
    weighs: bool = False
    stop_repetition: bool = False

    @property
    def samples_all(self) -> bool:
        """Whether forced tokens are sampled, too, since their logits are needed under a mask."""
        reports = self.logprobs is not None or self.logprob_vectors
        return reports or (self.weighs and self.soft_max_tokens is not None)


def end_token_ids(vocabulary: Vocabulary, tokenizer: TokenizerWrapper) -> list[int]:
    """Return the end tokens, the tokenizer's own first."""
    own = tokenizer.eos_token_id
    return sorted(vocabulary.end_token_ids, key=lambda token_id: (token_id != own, token_id))


def xtc_special_tokens(vocabulary: Vocabulary) -> tuple[int, ...]:
    """Return the tokens that XTC never excludes: line feeds and end tokens, as in mlx-lm."""
    line_feeds = (i for i, form in enumerate(vocabulary.token_bytes) if form == b"\n")
    return (*line_feeds, *sorted(vocabulary.end_token_ids))


def own_sampler(sampler: TokenSampler) -> Sampler:
    """Return the sampler of a sequence with weights or drafts, which knows its distribution."""
    if not isinstance(sampler, Sampler):
        raise AssertionError("the sampler of a sequence with weights or drafts is a Sampler")
    return sampler


def own_schedule(schedule: Schedule) -> SamplerSchedule:
    """Return the schedule of a sequence that is forked or weighed."""
    if not isinstance(schedule, SamplerSchedule):
        raise AssertionError("a sequence that is forked or weighed has a SamplerSchedule")
    return schedule
