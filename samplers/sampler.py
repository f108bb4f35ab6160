"""The composition of all transforms, with its own random key."""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Iterable, Sequence

import mlx.core as mx

from samplers.parameters import InvalidSamplingParameterError, SamplingParameters
from samplers.transforms import (
    apply_logit_bias,
    apply_min_p,
    apply_penalties,
    apply_temperature,
    apply_top_k,
    apply_top_p,
)


class Sampler:
    """Selects the tokens of one request. Not safe to share between threads.

    The order is that of mlx-lm: (mask) → logit bias → penalties → top-p → min-p → top-k →
    temperature. The caller applies the mask before the call, with :func:`~samplers.apply_mask`, so
    probabilities are over allowed tokens, and a token at ``-inf`` is never selected while another
    logit is finite. Filters use the model's own probabilities, before temperature.

    Every call but a greedy one takes the next of the request's random keys: equal seeds and equal
    logits give equal tokens, independent of other requests. mlx's global random state is neither
    read nor changed.

    Args:
        parameters: The sampling parameters.
    """

    def __init__(self, parameters: SamplingParameters) -> None:
        self.parameters = parameters
        seed = secrets.randbits(64) if parameters.seed is None else int(parameters.seed)
        self._key = mx.random.key(seed)
        self._bias = parameters.bias_pairs
        self._has_penalties = (
            parameters.repetition_penalty != 1
            or parameters.presence_penalty != 0
            or parameters.frequency_penalty != 0
        )

    def __call__(
        self,
        logits: mx.array,
        tokens: Sequence[int],
        among: mx.array | None = None,
        *,
        prompt_tokens: int = 0,
    ) -> mx.array:
        """Select a token.

        With ``among``, only these tokens can be selected, at a cost that depends on their number
        only. A single one is returned without using a random key or waiting for the logits. A
        mask instead gives the same distribution, but other tokens for the same seed.

        Args:
            logits: Shape (vocabulary,) or (1, vocabulary), any float type.
            tokens: The token ids so far, for penalties.
            among: Ids of candidates: ascending integers, shape (n,), n > 0. Evaluated if there are
                biases or penalties.
            prompt_tokens: Number of leading ``tokens`` that are the prompt, which presence and
                frequency penalties ignore.

        Returns:
            A token id, uint32, shape () or (1,), not evaluated.

        Raises:
            InvalidSamplingParameterError: ``logit_bias`` has an id outside the vocabulary, or
                ``among`` another shape or type.
        """
        if among is None:
            return self._choose(logits, tokens, prompt_tokens, self._bias)
        if among.ndim != 1 or among.size == 0 or not mx.issubdtype(among.dtype, mx.integer):
            raise InvalidSamplingParameterError(
                "among", f"{among.dtype} of shape {among.shape}", "integers of shape (n,), n > 0"
            )
        size = logits.shape[-1]
        if self._bias and self._bias[-1][0] >= size:
            raise InvalidSamplingParameterError(
                "logit_bias", self._bias, f"of token ids below {size}"
            )
        if among.size == 1:
            return among.astype(mx.uint32).reshape(logits.shape[:-1])
        # Positions among the candidates replace ids; both are in the same order.
        few = mx.take(logits, among, axis=-1)
        recent: list[int] = []
        bias: list[tuple[int, float]] = []
        if self._bias or self._has_penalties:
            start = max(0, len(tokens) - self.parameters.penalty_window)
            recent = list(tokens[start:])
            prompt_tokens = max(0, prompt_tokens - start)
            places = _places(among, {*recent, *(token_id for token_id, _ in self._bias)})
            # Other tokens keep their position in the window, with an id outside the vocabulary.
            recent = [places.get(token_id, -1) for token_id in recent]
            bias = [(places[token_id], x) for token_id, x in self._bias if token_id in places]
        return mx.take(among, self._choose(few, recent, prompt_tokens, bias)).astype(mx.uint32)

    def _choose(
        self,
        logits: mx.array,
        tokens: Sequence[int],
        prompt_tokens: int,
        bias: Iterable[tuple[int, float]],
    ) -> mx.array:
        parameters = self.parameters
        # Half precision would lose sums of penalties and of small probabilities.
        logits = logits.astype(mx.float32)
        logits = apply_logit_bias(logits, bias)
        logits = apply_penalties(
            logits,
            tokens,
            prompt_tokens=prompt_tokens,
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


def _places(among: mx.array, ids: set[int]) -> dict[int, int]:
    """Return the positions of ids in an ascending array; ids that are not in it are left out."""
    held = memoryview(among)  # type: ignore[arg-type]  # mlx's stubs lack the buffer protocol
    places = {token_id: bisect_left(held, token_id) for token_id in ids}
    return {
        token_id: place
        for token_id, place in places.items()
        if place < len(held) and held[place] == token_id
    }


def make_sampler(parameters: SamplingParameters | None = None) -> Sampler:
    """Return the sampler of a request; greedy without parameters."""
    return Sampler(parameters or SamplingParameters())
