"""The distribution of one next token: a sampler, under a mask and a boost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import mlx.core as mx

from samplers import (
    Sampler,
    SamplingParameters,
    apply_mask,
    apply_token_boost,
    sample_rows,
)

from .device_masks import DeviceMask
from .forward_pass import NextLogits
from .sequence_samplers import CustomSampler
from .tokens import Proposal, SampledToken

Boost: TypeAlias = tuple[mx.array, float]
"""Tokens that are boosted, and the boost in nats."""


@dataclass(frozen=True, slots=True)
class TokenDistribution:
    """How the next token of a sequence is sampled from its logits.

    Attributes:
        sampler: Applies biases, penalties, filters and temperature.
        boost: Tokens whose logits are boosted.
        mask: The allowed tokens; ``None``: all of them.
        tokens: The tokens so far.
        prompt_tokens: Length of the prompt.
        is_redrawn: The token replaces one that was not accepted.
    """

    sampler: Sampler | CustomSampler
    boost: Boost | None
    mask: DeviceMask | None
    tokens: Sequence[int]
    prompt_tokens: int
    is_redrawn: bool = False

    @property
    def row_parameters(self) -> SamplingParameters | None:
        """Distributions with equal values can be sampled by :func:`sample_distributions`.

        ``None``: it cannot. The few logits of a small mask are computed for the sequence alone.
        """
        is_small = self.mask is not None and self.mask.ids is not None
        if self.boost is not None or is_small or not isinstance(self.sampler, Sampler):
            return None
        return self.sampler.row_parameters

    def sample(self, logits: NextLogits, proposed: Proposal | None = None) -> SampledToken:
        """Sample a token on the device, without waiting for it.

        Args:
            logits: Logits of the token.
            proposed: A proposed token. The sampled token equals it exactly if it is accepted.
        """
        sampler, mask, count = self.sampler, self.mask, self.prompt_tokens
        is_drawn = proposed is not None and proposed.log_q is not None
        few = None if mask is None or self.boost is not None or is_drawn else mask.ids
        if few is not None and isinstance(sampler, Sampler):
            # Only the logits of the allowed tokens are computed.
            token = sampler.sample_among(logits.of(few), self.tokens, few, prompt_tokens=count)
            return SampledToken(token.reshape(1))
        given, among = self._masked(logits)
        if proposed is None or proposed.log_q is None:
            token = sampler(given, self.tokens, among, prompt_tokens=count)
            if isinstance(sampler, CustomSampler):
                return SampledToken(token.reshape(1), returned=sampler.returned)
        else:
            token = _plain(sampler).verify(
                given, self.tokens, proposed.token_id, proposed.log_q, among, prompt_tokens=count
            )
        return SampledToken(token.reshape(1))

    def sample_weighted(
        self, logits: NextLogits, *, wide: DeviceMask | None = None
    ) -> SampledToken:
        """Sample a token with its importance weight.

        Args:
            logits: Logits of the token.
            wide: The allowed tokens without a token budget, if it excludes any.
        """
        mask, without_limit = self.mask, None
        if wide is not None:
            sampler = _plain(self.sampler)
            key = sampler.random_state
            without_limit = replace(self, mask=wide).sample(logits).token
            sampler.random_state = key
        among = None if mask is None else mask.ids
        token, log_weight = _plain(self.sampler).sample_weighted(
            self._boosted(logits),
            self.tokens,
            mask=None if mask is None or among is not None else mask.mask,
            among=among,
            prompt_tokens=self.prompt_tokens,
        )
        if self.is_redrawn:
            # The first draw stands for all tokens, accepted or not: it has the whole weight.
            log_weight = mx.array(-mx.inf)
        return SampledToken(token.reshape(1), log_weight, without_limit=without_limit)

    def draw_draft(self, logits: NextLogits, key: mx.array) -> tuple[mx.array, mx.array | None]:
        """Draw a token for a draft; see :meth:`Sequence.draw_draft`."""
        sampler = _plain(self.sampler)
        parameters = sampler.parameters
        if parameters.temperature == 0 or parameters.seed is not None:
            return self.sample(logits).token, None
        given, among = self._masked(logits)
        log_q = sampler.log_distribution(
            given, self.tokens, among, prompt_tokens=self.prompt_tokens
        )
        return mx.random.categorical(log_q, key=key).reshape(1), log_q

    def _boosted(self, logits: NextLogits) -> mx.array:
        every = logits.all()
        return every if self.boost is None else apply_token_boost(every, *self.boost)

    def _masked(self, logits: NextLogits) -> tuple[mx.array, mx.array | None]:
        """Return masked logits, or the logits and the ids of the few allowed tokens."""
        boosted, mask = self._boosted(logits), self.mask
        if mask is None or mask.ids is not None:
            return boosted, None if mask is None else mask.ids
        return apply_mask(boosted, mask.mask), None


def sample_distributions(distributions: Sequence[TokenDistribution], logits: mx.array) -> mx.array:
    """Sample a token from each of several distributions with equal ``row_parameters``.

    Args:
        distributions: The distributions.
        logits: Logits of their tokens, shape (distributions, vocabulary).

    Returns:
        Token ids, uint32, shape (distributions,), not evaluated.
    """
    masks = [distribution.mask for distribution in distributions]
    first = masks[0]
    if any(mask is not first for mask in masks):
        every = mx.ones(logits.shape[-1:], mx.bool_)
        rows = mx.stack([every if mask is None else mask.mask for mask in masks])
        logits = mx.where(rows, logits, -mx.inf)
    elif first is not None:
        logits = apply_mask(logits, first.mask)
    return sample_rows([_plain(distribution.sampler) for distribution in distributions], logits)


def _plain(sampler: Sampler | CustomSampler) -> Sampler:
    if not isinstance(sampler, Sampler):
        raise AssertionError("the sampler of a sequence with weights or drafts is a Sampler")
    return sampler
