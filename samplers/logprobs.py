"""Log-probabilities of the chosen token and of the most likely tokens."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from samplers.parameters import InvalidSamplingParameterError

BLOCK = 512
"""Logits per block. Only the blocks with the largest maxima are sorted."""


class TopLogprobs(NamedTuple):
    """Natural logarithms of probabilities, as arrays that are not evaluated.

    Attributes:
        chosen: Of the chosen token; float32, shape (1,).
        ids: The most likely tokens, in descending order of probability, ties by ascending id;
            uint32, shape (top,).
        logprobs: Of ``ids``; float32, shape (top,).
    """

    chosen: mx.array
    ids: mx.array
    logprobs: mx.array


def top_logprobs(logits: mx.array, chosen: mx.array, top: int) -> TopLogprobs:
    """Return the log-probabilities of a token and of the ``top`` most likely tokens.

    Tokens are ordered by their logits, which resolve finer differences than log-probabilities: the
    first token is the one that greedy sampling selects. Masked tokens, at ``-inf``, have a
    log-probability of ``-inf`` and come last. At least one logit should be finite, and none NaN.

    Args:
        logits: Shape (1, vocabulary) or (vocabulary,), any float type. Computed in float32.
        chosen: An array of one id, any integer type, as a sampler returns it.
        top: Number of tokens; all of a smaller vocabulary.

    Raises:
        InvalidSamplingParameterError: ``top`` is negative.
    """
    if top < 0:
        raise InvalidSamplingParameterError("top", top, "an integer of 0 or more")
    wide = logits.reshape(-1).astype(mx.float32)
    blocks = _blocks(wide)
    total = _log_sum(blocks)
    ids = _largest(wide, blocks, min(top, wide.size))
    return TopLogprobs(
        chosen=mx.take(wide, chosen.reshape(1)) - total,
        ids=ids,
        logprobs=mx.take(wide, ids) - total,
    )


def log_sum(logits: mx.array) -> mx.array:
    """Return the logarithm of the sum of the exponentials of all ``logits``.

    Args:
        logits: Any shape, any float type; computed in float32.

    Returns:
        float32, shape (), not evaluated. The error is some 1e-6, whatever the number of logits.
    """
    return _log_sum(_blocks(logits.reshape(-1).astype(mx.float32)))


def _log_sum(blocks: mx.array) -> mx.array:
    # A single float32 sum of 150,000 terms would have errors of 1e-4.
    return mx.logsumexp(mx.logsumexp(blocks, axis=-1))


def _blocks(logits: mx.array) -> mx.array:
    """Split logits into blocks. The padding at ``-inf`` has the highest ids, so it comes last."""
    return mx.pad(logits, (0, -logits.size % BLOCK), constant_values=-mx.inf).reshape(-1, BLOCK)


def _largest(logits: mx.array, blocks: mx.array, count: int) -> mx.array:
    """Return the ids of the ``count`` largest logits: largest first, then lowest id.

    Each of them is in one of the ``count`` blocks with the largest maxima: for a token in another
    block, each of these blocks has a token that precedes it. So few logits are sorted.
    """
    if count * BLOCK >= logits.size:
        return _first(logits, count)
    # Sorted by id again: ties are resolved by the lowest index.
    best = mx.sort(_first(mx.max(blocks, axis=-1), count))
    ids = best[:, None] * BLOCK + mx.arange(BLOCK, dtype=mx.uint32)
    return mx.take(ids.reshape(-1), _first(mx.take(blocks, best, axis=0).reshape(-1), count))


def _first(values: mx.array, count: int) -> mx.array:
    """Return the indices of the ``count`` largest float32 values: largest first, then lowest.

    mlx's sort and partition do not specify the order of equal values. A value and its index are
    therefore packed into one integer: the bit patterns of floats of one sign are ordered.
    """
    if count == 0:
        return mx.zeros((0,), mx.uint32)
    # -0.0 equals 0.0, but their bit patterns differ.
    bits = mx.where(values == 0, mx.zeros_like(values), values).view(mx.int32)
    ascending = mx.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(mx.int64)
    keys = (-ascending << 32) + mx.arange(values.size, dtype=mx.int64)
    if count < values.size:
        keys = mx.partition(keys, kth=count - 1)[:count]
    return (mx.sort(keys) & 0xFFFFFFFF).astype(mx.uint32)
