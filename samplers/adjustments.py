"""Biases and penalties: the part of sampling that depends on the tokens so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import mlx.core as mx

from samplers.parameters import SamplingParameters
from samplers.transforms import apply_logit_bias, apply_penalties


def adjust_logits(
    logits: mx.array,
    parameters: SamplingParameters,
    tokens: Sequence[int],
    prompt_tokens: int,
    among: mx.array | None = None,
) -> mx.array:
    """Apply the biases and penalties of a request.

    Args:
        logits: Shape (..., n), any float type: of all tokens, or of the candidates ``among``.
        parameters: The sampling parameters.
        tokens: The token ids so far.
        prompt_tokens: Number of leading ``tokens`` that are the prompt.
        among: Ids of candidates, ascending integers, shape (n,). Evaluated if there are biases or
            penalties.

    Returns:
        float32, the same shape.
    """
    bias: Iterable[tuple[int, float]] = parameters.bias_pairs
    if among is not None and (bias or parameters.has_penalties):
        # Positions among the candidates replace ids; both are in the same order.
        ids = cast("list[int]", among.tolist())
        places = {token_id: place for place, token_id in enumerate(ids)}
        start = max(0, len(tokens) - parameters.repetition_context_size)
        prompt_tokens = max(0, prompt_tokens - start)
        # Other tokens keep their position in the window, with an id outside the vocabulary.
        tokens = [places.get(token_id, -1) for token_id in tokens[start:]]
        bias = [(places[token_id], number) for token_id, number in bias if token_id in places]
    # Half precision would lose sums of penalties and of small probabilities.
    return apply_penalties(
        apply_logit_bias(logits.astype(mx.float32), bias),
        tokens,
        prompt_tokens=prompt_tokens,
        repetition_penalty=parameters.repetition_penalty,
        presence_penalty=parameters.presence_penalty,
        frequency_penalty=parameters.frequency_penalty,
        window=parameters.repetition_context_size,
    )
