"""Biases and penalties: the part of sampling that depends on the tokens so far."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import mlx.core as mx

from samplers.parameters import InvalidSamplingParameterError, SamplingParameters
from samplers.transforms import apply_logit_bias, apply_penalties


class Adjustments:
    """Applies the biases and penalties of a request.

    Args:
        parameters: The sampling parameters.

    Attributes:
        has_penalties: Whether the results depend on the tokens so far.
    """

    def __init__(self, parameters: SamplingParameters) -> None:
        self.parameters = parameters
        self._bias = parameters.bias_pairs
        self.has_penalties = (
            parameters.repetition_penalty != 1
            or parameters.presence_penalty != 0
            or parameters.frequency_penalty != 0
        )

    def of_all(self, logits: mx.array, tokens: Sequence[int], prompt_tokens: int) -> mx.array:
        """Return adjusted logits of all tokens.

        Args:
            logits: Shape (..., vocabulary), any float type.
            tokens: The token ids so far.
            prompt_tokens: Number of leading ``tokens`` that are the prompt.

        Returns:
            float32, the same shape.
        """
        return self._adjusted(logits, tokens, prompt_tokens, self._bias)

    def of_candidates(
        self, few: mx.array, tokens: Sequence[int], among: mx.array, prompt_tokens: int
    ) -> mx.array:
        """Return adjusted logits of some tokens.

        Args:
            few: Their logits, shape (..., n), any float type.
            tokens: The token ids so far.
            among: Ids of candidates, which passed :meth:`check`: ascending, shape (n,).
            prompt_tokens: Number of leading ``tokens`` that are the prompt.

        Returns:
            float32, the same shape.
        """
        # Positions among the candidates replace ids; both are in the same order.
        recent: list[int] = []
        bias: list[tuple[int, float]] = []
        if self._bias or self.has_penalties:
            start = max(0, len(tokens) - self.parameters.repetition_context_size)
            recent = list(tokens[start:])
            prompt_tokens = max(0, prompt_tokens - start)
            places = _places(among, {*recent, *(token_id for token_id, _ in self._bias)})
            # Other tokens keep their position in the window, with an id outside the vocabulary.
            recent = [places.get(token_id, -1) for token_id in recent]
            bias = [(places[token_id], x) for token_id, x in self._bias if token_id in places]
        return self._adjusted(few, recent, prompt_tokens, bias)

    def check(self, logits: mx.array, among: mx.array) -> None:
        """Check the ids of candidates.

        Raises:
            InvalidSamplingParameterError: ``among`` has another shape or type, or the bias of a
                token is outside the vocabulary.
        """
        if among.ndim != 1 or among.size == 0 or not mx.issubdtype(among.dtype, mx.integer):
            raise InvalidSamplingParameterError(
                "among", f"{among.dtype} of shape {among.shape}", "integers of shape (n,), n > 0"
            )
        size = logits.shape[-1]
        if self._bias and self._bias[-1][0] >= size:
            raise InvalidSamplingParameterError(
                "logit_bias", self._bias, f"of token ids below {size}"
            )

    def _adjusted(
        self,
        logits: mx.array,
        tokens: Sequence[int],
        prompt_tokens: int,
        bias: Iterable[tuple[int, float]],
    ) -> mx.array:
        """Return logits in float32 with biases and penalties."""
        parameters = self.parameters
        # Half precision would lose sums of penalties and of small probabilities.
        logits = apply_logit_bias(logits.astype(mx.float32), bias)
        return apply_penalties(
            logits,
            tokens,
            prompt_tokens=prompt_tokens,
            repetition_penalty=parameters.repetition_penalty,
            presence_penalty=parameters.presence_penalty,
            frequency_penalty=parameters.frequency_penalty,
            window=parameters.repetition_context_size,
        )


def _places(among: mx.array, ids: set[int]) -> dict[int, int]:
    """Return the positions of ids in an ascending array; ids that are not in it are left out."""
    held = memoryview(among)  # type: ignore[arg-type]  # mlx's stubs lack the buffer protocol
    places = {token_id: bisect_left(held, token_id) for token_id in ids}
    return {
        token_id: place
        for token_id, place in places.items()
        if place < len(held) and held[place] == token_id
    }
