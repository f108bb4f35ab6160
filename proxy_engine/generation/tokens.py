"""Tokens of the loop: sampled on the device, then read by the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import mlx.core as mx
import numpy as np

from samplers import TopLogprobs, log_sum, top_logprobs
from state_machines.root import Part

from ..errors import InvalidOptionError
from ..results.parts import Logprob, LogprobVectors, TokenLogprobs


@dataclass(frozen=True, slots=True)
class Token:
    """A generated token.

    Attributes:
        token_id: Its id in the vocabulary.
        finish_reason: Set on the last token of a sequence: ``"stop"`` for an end token,
            ``"length"`` where a limit was reached.
        is_forced: The grammar left one continuation, so the token was not sampled.
        part: The part of a composed answer that the token most likely belongs to.
        logprobs: Log-probabilities, where the request asks for them.
        is_drafted: The token was drafted and accepted.
        logprob_vectors: Log-probabilities of all tokens, where the request asks for them.
    """

    token_id: int
    finish_reason: Literal["stop", "length"] | None = None
    is_forced: bool = False
    part: Part | None = None
    logprobs: TokenLogprobs | None = None
    is_drafted: bool = False
    logprob_vectors: LogprobVectors | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a limit first changed an output, or a value that repeated was ended.

    Attributes:
        offset: Length of the output before it, in bytes; special tokens by their names.
        refused: The text that follows without the limit; empty if it is not known.
        reason: The limit.
    """

    offset: int
    refused: bytes
    reason: Literal["max_tokens", "max_seconds", "repetition"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A drafted token.

    Attributes:
        token_id: Its id.
        log_q: The distribution that it was drawn from, as log-probabilities: float32, shape
            (vocabulary,). ``None``: the token is a function of the past and the random key.
    """

    token_id: int
    log_q: mx.array | None = None


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token that the device is going to sample.

    Attributes:
        token: The token id as a lazy array of shape (1,).
        log_weight: Its importance weight, a lazy float32 of shape (), where weights are recorded.
        has_alternatives: Whether several tokens were allowed.
        returned: The id that a sampler of the caller returned, as a lazy array of shape (1,). It
            differs from ``token`` if it is invalid.
        without_limit: The token that the same random key selects where the token budget excludes
            none, as a lazy array of shape (1,). ``None`` if it is ``token``.
    """

    token: mx.array
    log_weight: mx.array | None = None
    has_alternatives: bool = True
    returned: mx.array | None = None
    without_limit: mx.array | None = None
    _logprobs: _LazyLogprobs | None = None
    _vectors: tuple[mx.array, mx.array] | None = None

    def with_logprobs(
        self, unmasked: mx.array, masked: mx.array, top: int | None, *, vectors: bool
    ) -> SampledToken:
        """Add the log-probabilities of the token and of the most likely tokens.

        Args:
            unmasked: Logits as the model computed them, shape (1, vocabulary).
            masked: The same logits under the grammar's mask.
            top: How many of the most likely tokens are reported, before and after the mask;
                ``None``: not even the token's own.
            vectors: Whether the log-probabilities of all tokens are reported.
        """
        logits = [array.reshape(-1).astype(mx.float32) for array in (unmasked, masked)]
        before, after = logits
        return replace(
            self,
            _logprobs=None if top is None else _LazyLogprobs.of(self.token, before, after, top),
            _vectors=(before - log_sum(before), after - log_sum(after)) if vectors else None,
        )

    @property
    def arrays(self) -> list[mx.array]:
        """Arrays to evaluate."""
        arrays = [self.token] if self.log_weight is None else [self.token, self.log_weight]
        arrays += [one for one in (self.returned, self.without_limit) if one is not None]
        arrays += () if self._vectors is None else self._vectors
        return arrays if self._logprobs is None else [*arrays, *self._logprobs.arrays]

    def check(self, vocabulary: int) -> None:
        """Check the id that a sampler of the caller returned. Waits for the device.

        Args:
            vocabulary: The number of tokens.

        Raises:
            InvalidOptionError: It is no token, or the mask excludes it.
        """
        if self.returned is None:
            return
        returned = cast(int, self.returned.item())
        if returned == self.token.item():
            return
        reason = "the mask excludes"
        if not 0 <= returned < vocabulary:
            reason = f"is not in the vocabulary of {vocabulary} tokens"
        raise InvalidOptionError(
            f"the sampler returned token {returned}, which {reason}",
            option="sampler",
            hint="Select a token whose log-probability is above -inf.",
        )

    def logprobs(self) -> TokenLogprobs | None:
        """Return the log-probabilities if they were requested. Waits for the device."""
        return None if self._logprobs is None else self._logprobs.read()

    def logprob_vectors(self) -> LogprobVectors | None:
        """Return all log-probabilities if they were requested. Waits for the device."""
        return None if self._vectors is None else LogprobVectors(*map(np.array, self._vectors))


@dataclass(frozen=True, slots=True)
class _LazyLogprobs:
    """Log-probabilities before and after the mask, as lazy arrays."""

    token: mx.array
    before: TopLogprobs
    after: TopLogprobs
    before_of_after: mx.array
    after_of_before: mx.array

    @classmethod
    def of(cls, token: mx.array, before: mx.array, after: mx.array, top: int) -> _LazyLogprobs:
        tops = top_logprobs(before, token, top), top_logprobs(after, token, top)
        # A logit less its log-probability is the logsumexp that normalizes all of them.
        totals = [
            mx.take(array, token) - of.chosen
            for array, of in zip((before, after), tops, strict=True)
        ]
        return cls(
            token,
            *tops,
            before_of_after=mx.take(before, tops[1].ids) - totals[0],
            after_of_before=mx.take(after, tops[0].ids) - totals[1],
        )

    @property
    def arrays(self) -> list[mx.array]:
        return [*self.before, *self.after, self.before_of_after, self.after_of_before]

    def read(self) -> TokenLogprobs:
        before, after = self.before, self.after
        top_after = _read(after.ids, self.before_of_after, after.logprobs)
        return TokenLogprobs(
            _read(self.token, before.chosen, after.chosen)[0],
            tuple(_read(before.ids, before.logprobs, self.after_of_before)),
            tuple(entry for entry in top_after if entry.after_mask > -math.inf),
        )


def _read(ids: mx.array, before: mx.array, after: mx.array) -> Sequence[Logprob]:
    columns = (cast("list[float]", array.tolist()) for array in (ids, before, after))
    return [Logprob(int(i), b, a) for i, b, a in zip(*columns, strict=True)]
