"""Prefill of several short prompts in one pass, as mlx-lm's ``prefill_batch_size`` does.

A pass over few tokens reads all weights and therefore takes nearly as long as a pass over many.
Prompts that need a single pass each are padded on the right and processed together.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from ..runtime.blas import has_fast_blas
from .cache_layers import drop_padding, merge, right_padded
from .forward_pass import ForwardPass, PassOutput
from .prefill import MAX_TOKENS_WITH_LOGITS, Prefill
from .wired_memory import clear_cache

_STEPS_ON_GPU = 4
_MAX_PADDED_RATIO = 1.5
"""Tokens with padding over tokens without, up to which a joint pass is worthwhile."""


def can_join_prefill(prefill: Prefill) -> bool:
    """Whether the rest of a prompt fits one pass and its cache supports padding."""
    return (
        prefill.left <= prefill.step_size
        and prefill.inputs is None
        # Forced tokens are weighed by logits that a joint pass does not keep.
        and prefill.sequence.weights is None
        and prefill.quantize is None
        and not any(prefill.processed < length for length in prefill.checkpoints)
        and all(type(layer) is KVCache for layer in prefill.cache)
    )


def is_joint_prefill_worthwhile(lengths: Sequence[int], max_tokens: int) -> bool:
    """Whether prompts of such lengths should share a pass.

    Args:
        lengths: Tokens of each prompt that have to be processed.
        max_tokens: Bound on the tokens of the pass, padding included.
    """
    padded = len(lengths) * max(lengths)
    return padded <= max_tokens and padded <= _MAX_PADDED_RATIO * sum(lengths)


def joint_prefill_tokens(step_size: int, *, others_wait: bool) -> int:
    """Return the maximum number of tokens, with padding, of a pass over several prompts.

    On a GPU that is several steps, unless generating sequences wait for the pass. MLX's own CPU
    kernels take time in proportion to the tokens, so there it is 0.
    """
    if mx.default_device().type == mx.DeviceType.gpu:
        return step_size if others_wait else step_size * _STEPS_ON_GPU
    return step_size if has_fast_blas() else 0


def prefill_together(prefills: Sequence[Prefill]) -> list[Any]:
    """Process the rest of several prompts in one pass.

    Sets the ``logits`` of every sequence; they are dispatched, not evaluated. Sequences and caches
    are unchanged if this raises.

    Returns:
        The batch cache that holds the prompts, in their order.
    """
    started = time.perf_counter()
    sequences = [prefill.sequence for prefill in prefills]
    forward = prefills[0].forward
    cache = merge([prefill.cache for prefill in prefills])
    texts = [prefill.sequence.tokens[prefill.processed :] for prefill in prefills]
    if max(map(len, texts)) > MAX_TOKENS_WITH_LOGITS and not forward.computes_logits_on_demand:
        # Lazy evaluation: logits that are not used are not computed.
        _padded_pass(forward, cache, [text[:-1] for text in texts])
        texts = [text[-1:] for text in texts]
    lengths = [len(text) for text in texts]
    output = _padded_pass(forward, cache, texts)
    last = [output.at(row, length - 1) for row, length in enumerate(lengths)]
    mx.async_eval(output.inputs, [layer.state for layer in cache])
    drop_padding(cache, max(len(sequence.tokens) for sequence in sequences))
    clear_cache()
    ended = time.perf_counter()
    for row, (sequence, prefill) in enumerate(zip(sequences, prefills, strict=True)):
        sequence.logits = last[row]
        sequence.pending.clear()
        prefill.processed = len(sequence.tokens)
        sequence.timings.add("prompt", started, ended)
    return cache


def _padded_pass(
    forward: ForwardPass, cache: list[Any], texts: Sequence[Sequence[int]]
) -> PassOutput:
    lengths = [len(text) for text in texts]
    longest = max(lengths)
    tokens = mx.array([[*text, *[0] * (longest - len(text))] for text in texts], mx.int32)
    with right_padded(cache, lengths):
        return forward(tokens, cache)
