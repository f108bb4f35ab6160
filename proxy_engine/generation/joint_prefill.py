"""Several short prompts read in one pass, as mlx-lm's ``prefill_batch_size`` does.

A pass over few tokens takes nearly as long as one over more of them, since it goes through all
weights. Prompts that take one pass each are therefore padded on the right and read together.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from ..models.dense import has_fast_blas
from .cache_layers import merged, spread, without_padding
from .prefill import MOST_WITH_LOGITS, Prefill

__all__ = [
    "can_join_prefill",
    "extract_row",
    "is_joint_prefill_worthwhile",
    "joint_prefill_tokens",
    "prefill_together",
]

_STEPS_ON_GPU = 4
_MOST_PADDING = 64
_MOST_WASTE = 1.5
"""How many times as many tokens as there are may be computed because of padding."""


def can_join_prefill(reading: Prefill) -> bool:
    """Whether a prompt can be read with others: in one pass, its cache takes padding."""
    return (
        reading.left <= reading.step_size
        and reading.quantize is None
        and not any(reading.read < length for length in reading.checkpoints)
        and all(type(layer) is KVCache for layer in reading.cache)
    )


def is_joint_prefill_worthwhile(lengths: Sequence[int], most: int) -> bool:
    """Whether texts of such lengths should be read in one pass, of ``most`` tokens with padding."""
    padded = len(lengths) * max(lengths)
    return padded <= most and padded <= _MOST_WASTE * sum(lengths)


def joint_prefill_tokens(step_size: int, *, others_wait: bool) -> int:
    """How many tokens a pass over several prompts may have, with padding.

    On a GPU more than one prompt's step, unless other rows wait for the pass. None with MLX's own
    CPU kernels, whose time is proportional to the tokens.
    """
    if mx.default_device().type == mx.DeviceType.gpu:
        return step_size if others_wait else step_size * _STEPS_ON_GPU
    return step_size if has_fast_blas() else 0


def prefill_together(readings: Sequence[Prefill]) -> list[Any]:
    """Read the rest of several prompts, and return the batch caches that have read them.

    Leaves the ``logits`` of every row, which are only begun. Rows and caches are unchanged where it
    raises.
    """
    started = time.perf_counter()
    rows = [reading.row for reading in readings]
    model = readings[0].model
    layers = merged([reading.cache for reading in readings])
    texts = [row.tokens[reading.read :] for row, reading in zip(rows, readings, strict=True)]
    if max(map(len, texts)) > MOST_WITH_LOGITS:
        # Where only the caches are asked for, logits are not computed.
        _padded_pass(model, layers, [text[:-1] for text in texts])
        texts = [text[-1:] for text in texts]
    lengths = [len(text) for text in texts]
    logits = _padded_pass(model, layers, texts)
    last = logits[mx.arange(len(rows)), mx.array([length - 1 for length in lengths])]
    mx.async_eval(last, [layer.state for layer in layers])
    without_padding(layers, max(len(row.tokens) for row in rows), at_least=_MOST_PADDING)
    mx.clear_cache()
    ended = time.perf_counter()
    for index, (row, reading) in enumerate(zip(rows, readings, strict=True)):
        row.logits = last[index : index + 1]
        row.pending.clear()
        reading.read = len(row.tokens)
        row.timings.add("prompt", started, ended)
    return layers


def extract_row(layers: Sequence[Any], index: int, length: int) -> list[Any]:
    """Return one row's caches, of ``length`` tokens, as it would have them alone.

    As mlx-lm's ``extract``, which would wait for the device to learn the length.
    """
    rows = []
    for layer in layers:
        own = KVCache()
        columns = slice(layer.size() - length, layer.size())
        own.keys = mx.contiguous(layer.keys[index : index + 1, :, columns])
        own.values = mx.contiguous(layer.values[index : index + 1, :, columns])
        own.offset = length
        rows.append(own)
    return rows


def _padded_pass(model: Any, layers: list[Any], texts: Sequence[Sequence[int]]) -> mx.array:
    lengths = [len(text) for text in texts]
    longest = max(lengths)
    tokens = mx.array([[*text, *[0] * (longest - len(text))] for text in texts], mx.int32)
    with spread(layers, lengths):
        logits: mx.array = model(tokens, cache=layers)
    return logits
