"""What the caches of mlx-lm's models can do: a list of layers' caches, of whatever types.

``is_trimmable`` and ``trim`` are mlx-lm's, but for three types: a ``ConcatenateKVCache`` still
appends to what it has trimmed, a ``ChunkedKVCache`` can be trimmed to where it has forgotten what
is needed, and a ``KVCache`` that was trimmed keeps a buffer for all that it once held.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)

__all__ = [
    "can_be_cut",
    "copied",
    "cut",
    "evaluate",
    "flat",
    "lengths",
    "longest_to_cut",
    "nbytes",
]

_WITH_BUFFER = (KVCache, QuantizedKVCache, ConcatenateKVCache)


def copied(layers: Sequence[Any]) -> list[Any]:
    """Return the same contents as caches of one's own. The arrays are shared until written to."""
    return copy.deepcopy(list(layers))


def evaluate(layers: Sequence[Any], *, wait: bool = True) -> None:
    """Compute what is only described, so that nothing keeps what it was computed from.

    A recurrent state may be a part of a larger array; it gets memory of its own, and then takes
    no more than ``nbytes``. ``wait=False`` only starts the work, or leaves it to go on.
    """
    for layer in flat(layers):
        if isinstance(layer, ArraysCache):
            layer.cache = [None if a is None else mx.contiguous(a) for a in layer.cache]
    (mx.eval if wait else mx.async_eval)([layer.state for layer in layers])


def nbytes(layers: Sequence[Any]) -> int:
    """The memory of all layers, in bytes."""
    return sum(int(layer.nbytes) for layer in layers)


def lengths(layers: Sequence[Any]) -> set[int]:
    """How many tokens the layers have read, by those that count: one number, if all is well."""
    counts = (getattr(layer, "offset", None) for layer in flat(layers))
    return {count for count in counts if isinstance(count, int)}


def can_be_cut(layers: Sequence[Any]) -> bool:
    """Whether the layers can go back to any shorter text."""
    return all(_can_be_cut(layer) for layer in layers)


def longest_to_cut(layers: Sequence[Any]) -> int:
    """How long a text may become before the layers, empty as yet, cannot be cut any more.

    0 where they never can; ``sys.maxsize`` where they always can.
    """
    return min(map(_longest_to_cut, flat(layers)), default=sys.maxsize)


def cut(layers: Sequence[Any], length: int) -> None:
    """Shorten layers that can be cut, in place, to the first ``length`` tokens.

    A layer that has read fewer stays as it is.
    """
    for layer in flat(layers):
        excess = layer.offset - length
        if excess > 0:
            layer.trim(excess)
        if isinstance(layer, _WITH_BUFFER) and layer.keys is not None:
            layer.keys, layer.values = tree_map(
                lambda array: array[..., :length, :], (layer.keys, layer.values)
            )


def flat(layers: Sequence[Any]) -> Iterator[Any]:
    """All caches, those within others one by one."""
    for layer in layers:
        if isinstance(layer, CacheList):
            yield from flat(layer.caches)
        else:
            yield layer


def _can_be_cut(layer: Any) -> bool:
    if isinstance(layer, CacheList):
        return can_be_cut(layer.caches)
    if isinstance(layer, ChunkedKVCache):
        return layer.start_position == 0
    return bool(layer.is_trimmable()) and isinstance(getattr(layer, "offset", None), int)


def _longest_to_cut(layer: Any) -> int:
    if isinstance(layer, RotatingKVCache):
        return int(layer.max_size) - 1
    if isinstance(layer, ChunkedKVCache):
        return int(layer.chunk_size)
    return sys.maxsize if layer.is_trimmable() else 0
