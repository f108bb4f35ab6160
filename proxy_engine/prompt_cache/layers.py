"""Operations on mlx-lm's prompt caches: a list with one cache per layer, of any type.

``is_trimmable`` and ``trim`` are mlx-lm's. Three types need more: a ``ConcatenateKVCache`` appends
to the entries it has trimmed, a ``ChunkedKVCache`` can be trimmed to a position whose window it has
dropped, and a ``KVCache`` keeps the full buffer after a trim.
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
    BatchKVCache,
    BatchRotatingKVCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    _BaseCache,
)

_BUFFERED = (KVCache, QuantizedKVCache, ConcatenateKVCache)


def copy_cache(cache: Sequence[Any]) -> list[Any]:
    """Return a copy that can be extended independently. Arrays are shared until written to."""
    return copy.deepcopy(list(cache))


def evaluate(cache: Sequence[Any], wait: bool = True) -> None:
    """Evaluate the arrays, so that they no longer refer to the graph that computes them.

    A recurrent state may be a view of a larger array. It is copied, so that it occupies no more
    than ``nbytes``.

    Args:
        cache: The cache, changed in place.
        wait: Wait for the device. ``False``: only dispatch the work.
    """
    for layer in flat(cache):
        if isinstance(layer, ArraysCache):
            layer.cache = [None if a is None else mx.contiguous(a) for a in layer.cache]
    (mx.eval if wait else mx.async_eval)([layer.state for layer in cache])


def nbytes(cache: Sequence[Any]) -> int:
    """Return the size of all layers in bytes."""
    return sum(int(layer.nbytes) for layer in cache)


def token_counts(cache: Sequence[Any]) -> set[int]:
    """Return how many tokens the layers hold: one number unless a forward pass failed.

    Recurrent layers do not count tokens and are left out.
    """
    counts = (getattr(layer, "offset", None) for layer in flat(cache))
    return {count for count in counts if isinstance(count, int)}


def is_trimmable(cache: Sequence[Any]) -> bool:
    """Whether the cache can be trimmed to every prefix of its text."""
    return all(_is_trimmable(layer) for layer in cache)


def max_trimmable_length(cache: Sequence[Any]) -> int:
    """Return how many tokens an empty cache can take while it stays trimmable.

    0 if it never is; ``sys.maxsize`` if it always is.
    """
    return min(map(_max_trimmable_length, flat(cache)), default=sys.maxsize)


def max_scorable_length(cache: Sequence[Any]) -> int:
    """Return the length of the longest text whose keys and values can be a shared prefix.

    0 if some layers keep none; ``sys.maxsize`` if there is no limit. A sliding window is no limit,
    but a rotating cache that keeps the first tokens has no equivalent window once it drops others.

    Args:
        cache: The cache of a sequence or a batch.
    """
    return min(map(_max_scorable_length, cache), default=0)


def trim_to(cache: Sequence[Any], length: int) -> None:
    """Trim a trimmable cache to its first ``length`` tokens, in place.

    Layers with fewer tokens are left as they are.
    """
    for layer in flat(cache):
        excess = layer.offset - length
        if excess > 0:
            layer.trim(excess)
        if isinstance(layer, _BUFFERED) and layer.keys is not None:
            layer.keys, layer.values = tree_map(
                lambda array: array[..., :length, :], (layer.keys, layer.values)
            )


def flat(cache: Sequence[Any]) -> Iterator[Any]:
    """Iterate over all caches, including those inside a ``CacheList``."""
    for layer in cache:
        if isinstance(layer, CacheList):
            yield from flat(layer.caches)
        else:
            yield layer


def _is_trimmable(layer: Any) -> bool:
    if isinstance(layer, CacheList):
        return is_trimmable(layer.caches)
    if isinstance(layer, ChunkedKVCache):
        return layer.start_position == 0
    return bool(layer.is_trimmable()) and isinstance(getattr(layer, "offset", None), int)


def _max_scorable_length(layer: Any) -> int:
    if type(layer) is RotatingKVCache and layer.keep:
        return int(layer.max_size)
    has_keys = type(layer) in (KVCache, BatchKVCache, RotatingKVCache, BatchRotatingKVCache)
    return sys.maxsize if has_keys else 0


def _max_trimmable_length(layer: Any) -> int:
    if isinstance(layer, RotatingKVCache):
        return int(layer.max_size) - 1
    if isinstance(layer, ChunkedKVCache):
        return int(layer.chunk_size)
    return sys.maxsize if layer.is_trimmable() else 0


def quantize_cache(cache: list[Any], start: int, group_size: int, bits: int | None) -> None:
    """Quantize the layers of a cache that have at least ``start`` tokens, as mlx-lm does, in place.

    Args:
        cache: One entry per layer.
        start: The number of tokens.
        group_size: As in ``mx.quantize``.
        bits: As in ``mx.quantize``; ``None``: nothing is quantized.
    """
    for index, layer in enumerate(cache if bits is not None else ()):
        if hasattr(layer, "to_quantized") and layer.offset >= start:
            cache[index] = layer.to_quantized(group_size=group_size, bits=bits)


def to_mlx_lm(layer: Any) -> Any:
    """Return the cache of mlx-lm that corresponds to an empty cache of mlx-vlm's.

    Raises:
        ValueError: There is none.
    """
    kind = type(layer).__name__
    if isinstance(layer, _BaseCache):
        return layer
    if kind == "KVCache":
        return KVCache()
    if kind == "RotatingKVCache":
        return RotatingKVCache(max_size=layer.max_size, keep=layer.keep)
    if kind == "ArraysCache":
        return ArraysCache(len(layer.cache))
    if kind == "ChunkedKVCache":
        return ChunkedKVCache(layer.chunk_size)
    if kind == "CacheList":
        return CacheList(*map(to_mlx_lm, layer.caches))
    raise ValueError(f"its cache has an unknown type, {kind}")
