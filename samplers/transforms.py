"""Functions from logits to logits: a function for each sampling parameter, and compositions.

``logits`` have shape (vocabulary,) or (1, vocabulary) and any float type; results have the same
shape and type. ``-inf`` marks a token that cannot be selected; every function keeps it. Results
are new arrays that are not evaluated; arguments are not changed.

Filters take logits, which need not be normalised. They give the results of
mlx-lm's ``sample_utils`` but are not compiled: ``mx.compile`` compiles a function again for
every value of its parameter, with a C++ compiler if mlx runs on the CPU.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

import mlx.core as mx

from samplers.parameters import InvalidSamplingParameterError, SamplingParameters

# Any number below 1 / vocabulary keeps the most likely token alone.
_LEAST_TOP_P = 1e-30


def apply_mask(logits: mx.array, mask: mx.array) -> mx.array:
    """Set logits to ``-inf`` where ``mask`` is false, even if they are NaN.

    Args:
        logits: The logits.
        mask: bool, of shape (vocabulary,) or that of ``logits``; at least one entry should be true.

    Raises:
        InvalidSamplingParameterError: ``mask`` has another shape or type.
    """
    fits = mask.ndim == 1 and mask.shape == logits.shape[-1:]
    if mask.dtype != mx.bool_ or not (fits or mask.shape == logits.shape):
        raise InvalidSamplingParameterError(
            "mask", f"{mask.dtype} of shape {mask.shape}", f"bool of shape {logits.shape[-1:]}"
        )
    return mx.where(mask, logits, -mx.inf)


def apply_logit_bias(logits: mx.array, bias: Iterable[tuple[int, float]]) -> mx.array:
    """Add finite numbers to the logits of some tokens.

    Args:
        logits: The logits.
        bias: (token id, number) pairs.

    Raises:
        InvalidSamplingParameterError: An id is outside the vocabulary or occurs twice.
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
    """Make the tokens of the last ``window`` tokens less likely.

    The repetition penalty (Keskar et al. 2019, "CTRL") divides positive logits and multiplies
    negative ones, once per distinct token. Presence and frequency penalties are then subtracted,
    once per distinct token and once per occurrence; as in the OpenAI API, they ignore the prompt.
    Values on the other side of neutral make tokens more likely. Ids outside the vocabulary are
    ignored.

    Args:
        logits: The logits.
        tokens: The token ids so far.
        prompt_tokens: Number of leading ``tokens`` that are the prompt.
        repetition_penalty: 1 is neutral.
        presence_penalty: 0 is neutral.
        frequency_penalty: 0 is neutral.
        window: Number of latest tokens that count.
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
    """Keep the ``top_k`` most likely tokens; all if it is 0 or not below the vocabulary size.

    Ties at the border are resolved arbitrarily.
    """
    if not 0 < top_k < logprobs.shape[-1]:
        return logprobs
    dropped = mx.argpartition(-logprobs, kth=top_k - 1, axis=-1)[..., top_k:]
    return mx.put_along_axis(logprobs, dropped, _lowest(logprobs), axis=-1)


def apply_top_p(logprobs: mx.array, top_p: float) -> mx.array:
    """Keep the fewest most likely tokens whose probability reaches ``top_p``; all if it is 1.

    Nucleus sampling (Holtzman et al. 2020, "The curious case of neural text degeneration").
    Probabilities are normalised here. Tokens as likely as the last one kept are kept, too.
    """
    if top_p >= 1:
        return logprobs
    ascending = mx.sort(logprobs, axis=-1)
    likelihoods = mx.exp(ascending.astype(mx.float32) - ascending[..., -1:].astype(mx.float32))
    likelier = mx.cumsum(likelihoods, axis=-1, reverse=True, inclusive=False)
    total = likelihoods.sum(axis=-1, keepdims=True)
    # The likeliest token has nothing above it, so the sum stays below the length.
    # In float32, the smallest numbers are 0, which drops all tokens.
    dropped = (likelier >= max(top_p, _LEAST_TOP_P) * total).sum(axis=-1, keepdims=True)
    least_kept = mx.take_along_axis(ascending, dropped, axis=-1)
    return mx.where(logprobs < least_kept, _lowest(logprobs), logprobs)


def apply_min_p(logprobs: mx.array, min_p: float, min_tokens_to_keep: int = 1) -> mx.array:
    """Keep tokens with at least ``min_p`` of the highest probability; all if it is 0.

    The ``min_tokens_to_keep`` most likely tokens are always kept (Nguyen et al. 2024, "Turning up
    the heat: min-p sampling"). Tokens at ``-inf`` stay there, even if that leaves fewer.
    """
    if min_p <= 0:
        return logprobs
    least_kept = mx.max(logprobs, axis=-1, keepdims=True) + math.log(min_p)
    if min_tokens_to_keep > 1:
        rank = logprobs.shape[-1] - min(min_tokens_to_keep, logprobs.shape[-1])
        ranked = mx.partition(logprobs, kth=rank, axis=-1)[..., rank : rank + 1]
        least_kept = mx.minimum(least_kept, ranked)
    return mx.where(logprobs < least_kept, _lowest(logprobs), logprobs)


def apply_xtc(logprobs: mx.array, threshold: float, protected: mx.array | None = None) -> mx.array:
    """Exclude the tokens above ``threshold`` but the least likely of them.

    XTC, "exclude top choices": where several tokens are likely, the text continues with the least
    obvious one. Where at most one reaches the threshold, nothing changes. mlx-lm's
    ``sample_utils.apply_xtc`` draws whether to exclude tokens as well; here the caller does.

    Args:
        logprobs: The log-probabilities; normalised here.
        threshold: A probability.
        protected: Tokens that are never excluded: bool, shape (vocabulary,).
    """
    wide = logprobs.astype(mx.float32)
    probabilities = mx.softmax(wide, axis=-1)
    likely = mx.where(probabilities > threshold, probabilities, mx.inf)
    excluded = probabilities > likely.min(axis=-1, keepdims=True)
    if protected is not None:
        excluded = mx.logical_and(excluded, mx.logical_not(protected))
    return mx.where(excluded, _lowest(logprobs), logprobs)


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


def take_candidates(logits: mx.array, parameters: SamplingParameters, among: mx.array) -> mx.array:
    """Return the logits of candidates.

    Raises:
        InvalidSamplingParameterError: ``among`` has another shape or type than ids, or the bias of
            a token is outside the vocabulary.
    """
    if among.ndim != 1 or among.size == 0 or not mx.issubdtype(among.dtype, mx.integer):
        raise InvalidSamplingParameterError(
            "among", f"{among.dtype} of shape {among.shape}", "integers of shape (n,), n > 0"
        )
    size, bias = logits.shape[-1], parameters.bias_pairs
    if bias and bias[-1][0] >= size:
        raise InvalidSamplingParameterError("logit_bias", bias, f"of token ids below {size}")
    return mx.take(logits, among, axis=-1)


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


def apply_filters(
    logits: mx.array,
    parameters: SamplingParameters,
    excludes: mx.array | None = None,
    protected: tuple[int, ...] = (),
    ids: mx.array | None = None,
) -> mx.array:
    """Apply the filters of a request in mlx-lm's order: top-p → min-p → XTC → top-k.

    Args:
        logits: Shape (..., n), float32. They need not be normalised.
        parameters: The sampling parameters.
        excludes: Whether XTC excludes tokens, bool, shape (); ``None``: it does not.
        protected: Ids of the tokens that XTC never excludes.
        ids: Ids of the tokens that ``logits`` belong to, integers, shape (n,); ``None``: all.

    Returns:
        The logits, with those of excluded tokens at ``-inf``.
    """
    logits = apply_top_p(logits, parameters.top_p)
    logits = apply_min_p(logits, parameters.min_p, parameters.min_tokens_to_keep)
    if excludes is not None:
        among = mx.arange(logits.shape[-1]) if ids is None else ids
        special = mx.array(protected, among.dtype)
        is_protected = (among[:, None] == special).any(axis=-1) if protected else None
        rest = apply_xtc(logits, parameters.xtc_threshold, is_protected)
        logits = mx.where(excludes, rest, logits)
    return apply_top_k(logits, parameters.top_k)
