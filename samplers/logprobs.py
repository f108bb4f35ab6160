"""How likely a chosen token was, and which were the likeliest in its place."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from samplers.parameters import InvalidSamplingParameterError

__all__ = ["TopLogprobs", "top_logprobs"]

ROW = 512
"""Tokens of which only the largest logit is looked at, unless it is among the largest."""


class TopLogprobs(NamedTuple):
    """Natural logarithms of probabilities, as arrays that are not evaluated.

    ``chosen``: of the token that was chosen; float32, shape (1,). ``ids``: the likeliest tokens,
    the likeliest first, of equals the lower id first; uint32, shape (top,). ``logprobs``: theirs;
    float32, shape (top,).
    """

    chosen: mx.array
    ids: mx.array
    logprobs: mx.array


def top_logprobs(logits: mx.array, chosen: mx.array, top: int) -> TopLogprobs:
    """Return the log-probabilities of a token and of the ``top`` likeliest ones.

    ``logits`` have the shape (1, vocabulary) or (vocabulary,) and any float type; the computation
    is in float32. ``chosen`` is an array of one id, any integer type, as a sampler returns it.
    Where the vocabulary has fewer tokens than ``top``, all of them are returned. Masked tokens, at
    ``-inf``, have a log-probability of ``-inf`` and come last, so among the likeliest only if
    nothing else is left. At least one logit should be finite, and none NaN.

    Tokens are ordered by their logits, which differ more finely than what is left of them in
    log-probabilities: the first is the one that greedy sampling takes.

    Raises :class:`InvalidSamplingParameterError` if ``top`` is negative.
    """
    if top < 0:
        raise InvalidSamplingParameterError("top", top, "an integer of 0 or more")
    wide = logits.reshape(-1).astype(mx.float32)
    rows = _in_rows(wide)
    # One sum of 150,000 terms in float32 would leave errors of 1e-4.
    total = mx.logsumexp(mx.logsumexp(rows, axis=-1))
    ids = _likeliest(wide, rows, min(top, wide.size))
    return TopLogprobs(
        chosen=mx.take(wide, chosen.reshape(1)) - total,
        ids=ids,
        logprobs=mx.take(wide, ids) - total,
    )


def _in_rows(logits: mx.array) -> mx.array:
    """Logits by ``ROW``; what fills up the last row comes after all: at -inf, with ids above."""
    return mx.pad(logits, (0, -logits.size % ROW), constant_values=-mx.inf).reshape(-1, ROW)


def _likeliest(logits: mx.array, rows: mx.array, count: int) -> mx.array:
    """The ids of the ``count`` largest logits: largest first, then lowest id.

    Each of them lies in one of the ``count`` rows whose largest logits are largest: for a token
    in another row, each of these rows has one that comes before it. So few logits are sorted.
    """
    if count * ROW >= logits.size:
        return _first(logits, count)
    # In order of their ids again, since of equal logits the first is taken.
    best = mx.sort(_first(mx.max(rows, axis=-1), count))
    ids = best[:, None] * ROW + mx.arange(ROW, dtype=mx.uint32)
    return mx.take(ids.reshape(-1), _first(mx.take(rows, best, axis=0).reshape(-1), count))


def _first(values: mx.array, count: int) -> mx.array:
    """The indices of the ``count`` largest of some float32 numbers: largest first, then lowest.

    mlx's own sorts and partitions do not say what becomes of equals. So that there are none, a
    number and its index are one integer: read as integers, floats of one sign are in order.
    """
    if count == 0:
        return mx.zeros((0,), mx.uint32)
    # -0.0 equals 0.0, but not as an integer.
    bits = mx.where(values == 0, mx.zeros_like(values), values).view(mx.int32)
    ascending = mx.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(mx.int64)
    keys = (-ascending << 32) + mx.arange(values.size, dtype=mx.int64)
    if count < values.size:
        keys = mx.partition(keys, kth=count - 1)[:count]
    return (mx.sort(keys) & 0xFFFFFFFF).astype(mx.uint32)
