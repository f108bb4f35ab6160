"""Options of one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines import Vocabulary


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
        weighs: Record the importance weights of tokens.
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
