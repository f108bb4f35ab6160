"""Functions from logits to logits, each with one meaning.

``logits`` have the shape ``(vocabulary,)`` or ``(1, vocabulary)`` and any float type, which the
result shares. ``-inf`` stands for a token that cannot be chosen, and every function here leaves it
so. Each result is a new array; nothing is evaluated and no argument is changed.

Those that filter by probability take *log-probabilities*: logits minus their logsumexp. They give
what mlx-lm's ``sample_utils`` gives but are not compiled: ``mx.compile`` builds each of them anew
for every value of its parameter, and where mlx runs on the CPU calls a C++ compiler for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import mlx.core as mx

from samplers.parameters import InvalidSamplingParameterError

__all__ = [
    "apply_logit_bias",
    "apply_mask",
    "apply_min_p",
    "apply_penalties",
    "apply_temperature",
    "apply_token_boost",
    "apply_top_k",
    "apply_top_p",
]


def apply_mask(logits: mx.array, mask: mx.array) -> mx.array:
    """Forbid tokens: ``-inf`` where ``mask`` is false, whatever was there (NaN too).

    ``mask`` is boolean, of the shape ``(vocabulary,)`` or that of ``logits``. Raises
    :class:`InvalidSamplingParameterError` otherwise. At least one entry should be true: from
    ``-inf`` alone no token can be drawn in earnest.
    """
    fits = mask.ndim == 1 and mask.shape == logits.shape[-1:]
    if mask.dtype != mx.bool_ or not (fits or mask.shape == logits.shape):
        raise InvalidSamplingParameterError(
            "mask", f"{mask.dtype} of shape {mask.shape}", f"bool of shape {logits.shape[-1:]}"
        )
    return mx.where(mask, logits, _lowest(logits))


def apply_logit_bias(logits: mx.array, bias: Iterable[tuple[int, float]]) -> mx.array:
    """Add a finite number to the logits of some tokens, given as (token id, number) pairs.

    A token at ``-inf`` stays there. Raises :class:`InvalidSamplingParameterError` for a token id
    outside the vocabulary or given twice.
    """
    pairs = list(bias)
    if not pairs:
        return logits
    size = logits.shape[-1]
    ids = [token_id for token_id, _ in pairs]
    if len(set(ids)) < len(ids) or not all(0 <= token_id < size for token_id in ids):
        raise InvalidSamplingParameterError(
            "logit_bias", tuple(pairs), f"of token ids below {size}, each once"
        )
    numbers = mx.array([number for _, number in pairs], logits.dtype)
    indices = mx.array(ids, mx.uint32)
    return _put(logits, indices, mx.take(logits, indices, axis=-1) + numbers)


def apply_token_boost(logits: mx.array, ids: mx.array, strength: float) -> mx.array:
    """Lean towards some tokens: add ``strength``, the same for all of them, to their logits.

    ``ids`` are an array of integers of any shape, each below the vocabulary; one that is given
    twice counts once. ``strength`` is a number in ``[-10000, 10000]``; below 0 it leans away. A
    token at ``-inf`` stays there. Unlike with biases, the tokens may be others at every step: they
    are an array, which is not evaluated. In half precision a small strength is lost on a large
    logit; whoever means one casts before.

    Raises :class:`InvalidSamplingParameterError` for ids of another type, and for a ``strength``
    out of range.
    """
    if not -10_000 <= strength <= 10_000:
        raise InvalidSamplingParameterError("strength", strength, "a number in [-10000, 10000]")
    if not mx.issubdtype(ids.dtype, mx.integer):
        raise InvalidSamplingParameterError("ids", str(ids.dtype), "an array of integers")
    if ids.size == 0 or strength == 0:
        return logits
    ids = ids.reshape(-1)
    return _put(logits, ids, mx.take(logits, ids, axis=-1) + mx.array(strength, logits.dtype))


def apply_penalties(
    logits: mx.array,
    tokens: Sequence[int],
    *,
    prompt_tokens: int = 0,
    repetition_penalty: float = 1.0,
    presence_penalty: float = 0.0,
    frequency_penalty: float = 0.0,
    window: int = 64,
) -> mx.array:
    """Make the tokens of the last ``window`` ones less likely (more, where a penalty is reversed).

    The repetition penalty (Keskar et al. 2019, "CTRL") divides positive logits and multiplies
    negative ones, once however often a token occurs. Presence and frequency penalties are then
    subtracted, once and once per occurrence. As in the OpenAI API they count the tokens of the
    answer alone: those after the first ``prompt_tokens``. Ids outside the vocabulary cannot be
    chosen and are passed over.
    """
    if repetition_penalty == 1 and presence_penalty == 0 and frequency_penalty == 0:
        return logits
    recent = tokens[max(0, len(tokens) - window) :]
    written = recent[max(0, prompt_tokens - (len(tokens) - len(recent))) :]
    size = logits.shape[-1]
    if repetition_penalty != 1:
        seen = {token_id for token_id in recent if 0 <= token_id < size}
        if seen:
            ids = mx.array(sorted(seen), mx.uint32)
            selected = mx.take(logits, ids, axis=-1)
            scaled = selected * (1 / repetition_penalty)
            logits = _put(
                logits, ids, mx.where(selected < 0, selected * repetition_penalty, scaled)
            )
    counts = Counter(token_id for token_id in written if 0 <= token_id < size)
    if not counts or (presence_penalty == 0 and frequency_penalty == 0):
        return logits
    ids = mx.array(list(counts), mx.uint32)
    occurrences = mx.array(list(counts.values()), mx.float32)
    subtracted = presence_penalty + frequency_penalty * occurrences
    selected = mx.take(logits, ids, axis=-1)
    return _put(logits, ids, selected - subtracted.astype(logits.dtype))


def apply_top_k(logprobs: mx.array, top_k: int) -> mx.array:
    """Keep the ``top_k`` likeliest tokens; all, where ``top_k`` is 0 or not below the vocabulary.

    Among equals at the border, any may be kept.
    """
    if not 0 < top_k < logprobs.shape[-1]:
        return logprobs
    dropped = mx.argpartition(-logprobs, kth=top_k - 1, axis=-1)[..., top_k:]
    return mx.put_along_axis(logprobs, dropped, _lowest(logprobs), axis=-1)


def apply_top_p(logprobs: mx.array, top_p: float) -> mx.array:
    """Keep the fewest likeliest tokens whose probability reaches ``top_p``; all, where it is 1.

    Nucleus sampling (Holtzman et al. 2020, "The curious case of neural text degeneration").
    Probabilities are normalised here; tokens as likely as the last one kept are kept too.
    """
    if top_p >= 1:
        return logprobs
    ascending = mx.sort(logprobs, axis=-1)
    likelihoods = mx.exp(ascending.astype(mx.float32) - ascending[..., -1:].astype(mx.float32))
    likelier = mx.cumsum(likelihoods, axis=-1, reverse=True, inclusive=False)
    total = likelihoods.sum(axis=-1, keepdims=True)
    # The likeliest token has nothing above it, so the sum stays below the length.
    dropped = (likelier >= top_p * total).sum(axis=-1, keepdims=True)
    least_kept = mx.take_along_axis(ascending, dropped, axis=-1)
    return mx.where(logprobs < least_kept, _lowest(logprobs), logprobs)


def apply_min_p(logprobs: mx.array, min_p: float, min_tokens_to_keep: int = 1) -> mx.array:
    """Keep tokens with at least ``min_p`` of the likeliest one's probability; all, where it is 0.

    The ``min_tokens_to_keep`` likeliest are kept in any case (Nguyen et al. 2024, "Turning up
    the heat: min-p sampling"). Tokens at ``-inf`` stay there, also if that leaves fewer.
    """
    if min_p <= 0:
        return logprobs
    least_kept = mx.max(logprobs, axis=-1, keepdims=True) + math.log(min_p)
    if min_tokens_to_keep > 1:
        rank = logprobs.shape[-1] - min(min_tokens_to_keep, logprobs.shape[-1])
        ranked = mx.partition(logprobs, kth=rank, axis=-1)[..., rank : rank + 1]
        least_kept = mx.minimum(least_kept, ranked)
    return mx.where(logprobs < least_kept, _lowest(logprobs), logprobs)


def apply_temperature(logits: mx.array, temperature: float) -> mx.array:
    """Divide by a temperature above 0, with the largest logit shifted to 0.

    The shift changes no probability and keeps small temperatures from overflowing.
    """
    if temperature == 1:
        return logits
    # In half precision, 1 / temperature can be infinite and small temperatures zero.
    wide = logits.astype(mx.float32)
    scaled = (wide - mx.max(wide, axis=-1, keepdims=True)) / temperature
    return scaled.astype(logits.dtype)


def _lowest(logits: mx.array) -> mx.array:
    return mx.array(-mx.inf, logits.dtype)


def _put(logits: mx.array, ids: mx.array, values: mx.array) -> mx.array:
    return mx.put_along_axis(logits, mx.broadcast_to(ids, values.shape), values, axis=-1)
