"""Sampling for several sequences at once."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from samplers.random_keys import RandomKeys, draw_rows
from samplers.sampler import Sampler
from samplers.transforms import apply_filters, apply_temperature


def sample_rows(samplers: Sequence[Sampler], logits: mx.array) -> mx.array:
    """Select a token for each row of logits, by the row's sampler.

    Each token is the one that the sampler's own call selects, and each sampler takes its next
    random key.

    Args:
        samplers: Distinct samplers with equal ``row_parameters`` that are not ``None``, one for
            each row.
        logits: Shape (rows, vocabulary), any float type; ``-inf`` for masked tokens.

    Returns:
        Token ids, uint32, shape (rows,), not evaluated.
    """
    parameters = samplers[0].parameters
    logits = logits.astype(mx.float32)
    if parameters.temperature == 0:
        return mx.argmax(logits, axis=-1)
    filtered = apply_filters(logits, parameters) if parameters.has_filters else logits
    scaled = apply_temperature(filtered, parameters.temperature)
    return draw_rows(scaled, RandomKeys.take_rows(sampler.keys for sampler in samplers))
