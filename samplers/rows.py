"""Sampling for several sequences at once."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from samplers.random_keys import KeyRow
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
    pairs = mx.vmap(mx.random.split)(_stacked_keys([sampler.key_row for sampler in samplers]))
    following = pairs[:, 0]
    for row, sampler in enumerate(samplers):
        sampler.key_row = KeyRow(following, row)
    return mx.vmap(_draw)(scaled, pairs[:, 1])


def _stacked_keys(rows: Sequence[KeyRow]) -> mx.array:
    """Return the keys as one array, shape (rows, 2)."""
    shared = rows[0].keys
    # After a call with the same samplers, their keys are one array already.
    if len(rows) == len(shared) and all(
        keys is shared and row == place for place, (keys, row) in enumerate(rows)
    ):
        return shared
    return mx.stack([row.key for row in rows])


def _draw(scaled: mx.array, key: mx.array) -> mx.array:
    return mx.random.categorical(scaled, key=key)
