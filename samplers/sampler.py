"""The composition of all transforms, drawing from a random key of its own."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import mlx.core as mx

from samplers.parameters import SamplingParameters
from samplers.transforms import (
    apply_logit_bias,
    apply_min_p,
    apply_penalties,
    apply_temperature,
    apply_top_k,
    apply_top_p,
)

__all__ = ["Sampler", "make_sampler"]


class Sampler:
    """Chooses the tokens of *one* request.

    ``sampler(logits, tokens)`` takes logits of shape ``(vocabulary,)`` or ``(1, vocabulary)`` and
    any float type, and the tokens so far as integers (what penalties look back at; that may
    include the prompt). It returns a token id as a ``uint32`` array of shape ``()`` or ``(1,)``
    that is *not evaluated*, so that the caller may run ahead. Arguments are not changed.

    The order is that of mlx-lm: (mask) → logit bias → penalties → top-p → min-p → top-k →
    temperature. The caller applies the mask, by :func:`~samplers.apply_mask`, before the call, so
    probabilities are over allowed tokens, and a token at ``-inf`` is never chosen as long as one
    finite logit is left. Filters look at the probabilities the model gave, untempered.

    Every call but a greedy one takes the next of the request's random keys, so equal seeds and
    equal logits give equal tokens whatever other requests do. mlx's global random state is
    neither read nor written. Not to be shared by threads.
    """

    def __init__(self, parameters: SamplingParameters) -> None:
        self.parameters = parameters
        seed = secrets.randbits(64) if parameters.seed is None else int(parameters.seed)
        self._key = mx.random.key(seed)
        self._bias = parameters.bias_pairs

    def __call__(self, logits: mx.array, tokens: Sequence[int]) -> mx.array:
        parameters = self.parameters
        # In half precision, sums of penalties and of small probabilities would be lost.
        logits = logits.astype(mx.float32)
        logits = apply_logit_bias(logits, self._bias)
        logits = apply_penalties(
            logits,
            tokens,
            repetition_penalty=parameters.repetition_penalty,
            presence_penalty=parameters.presence_penalty,
            frequency_penalty=parameters.frequency_penalty,
            window=parameters.penalty_window,
        )
        if parameters.temperature == 0:
            return mx.argmax(logits, axis=-1)
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        logprobs = apply_top_p(logprobs, parameters.top_p)
        logprobs = apply_min_p(logprobs, parameters.min_p, parameters.min_tokens_to_keep)
        logprobs = apply_top_k(logprobs, parameters.top_k)
        logprobs = apply_temperature(logprobs, parameters.temperature)
        self._key, key = mx.random.split(self._key)
        return mx.random.categorical(logprobs, axis=-1, key=key)


def make_sampler(parameters: SamplingParameters | None = None) -> Sampler:
    """Make the sampler of one request; greedy without parameters."""
    return Sampler(parameters or SamplingParameters())
