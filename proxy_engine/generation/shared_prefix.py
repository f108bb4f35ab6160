"""A prompt's keys and values as the shared prefix of the rows of one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache

from ..replication import replicated


class PrefixCache(KVCache):
    """A layer's cache of a pass whose rows share the keys and values of their prefix.

    The prefix is repeated for the rows while the layer is computed, and not stored repeated.

    Args:
        keys: Shape (1, heads, tokens, width).
        values: Shape (1, heads, tokens, width).

    Attributes:
        keys: Keys of the pass, shape (rows, heads, tokens of the pass, width); ``None`` before.
        values: Values of the pass, of the same shape.
    """

    def __init__(self, keys: mx.array, values: mx.array) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._prefix = keys, values
        self.offset = keys.shape[2]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Take the keys and values of the pass; return those of the prefix and the pass."""
        # Where mlx-lm's pipelines expect what a pass adds.
        self.keys, self.values = keys, values
        self.offset += keys.shape[2]
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """Return keys and values of all tokens, shape (rows, heads, all tokens, width)."""
        if self.keys is None:
            return self._prefix
        joined = [
            mx.concatenate([mx.broadcast_to(old, (new.shape[0], *old.shape[1:])), new], axis=2)
            for old, new in zip(self._prefix, (self.keys, self.values), strict=True)
        ]
        return joined[0], joined[1]

    def row(self, row: int, length: int) -> tuple[mx.array, mx.array]:
        """Return the keys and values that the pass added to a row, without padding."""
        if self.keys is None or self.values is None:
            raise AssertionError("the pass has run")
        rows = slice(row, row + 1)
        return self.keys[rows, :, :length], self.values[rows, :, :length]


Layers = list[tuple[mx.array, mx.array]]
"""Keys and values of each layer, shape (1, heads, tokens, width)."""


def can_share_prefix(cache: Sequence[Any]) -> bool:
    """Whether the options behind a cache can be scored: all layers are plain KV caches."""
    return all(type(layer) in (KVCache, BatchKVCache) for layer in cache)


@replicated(creates=True)
def prefix_layers(cache: Sequence[Any], row: int, length: int, behind: int = 0) -> Layers:
    """Return the keys and values of one row of a cache: ``length`` tokens, then ``behind`` more."""
    layers = []
    for layer in cache:
        end = layer.size() - behind
        columns = slice(end - length, end)
        layers.append(
            (layer.keys[row : row + 1, :, columns], layer.values[row : row + 1, :, columns])
        )
    return layers


@replicated(creates=True)
def prefix_caches(layers: Layers) -> list[PrefixCache]:
    """Return the cache of a pass whose rows begin with a prefix."""
    return [PrefixCache(keys, values) for keys, values in layers]


@replicated(creates=True)
def row_layers(
    prefix: Layers, caches: Sequence[PrefixCache], row: int, length: int, start: int = 0
) -> Layers:
    """Return the keys and values of a row of a pass and of its prefix.

    Args:
        prefix: The prefix.
        caches: The cache after the pass.
        row: The row.
        length: Tokens of the row without padding.
        start: Tokens that are left out at the beginning.
    """
    added = [cache.row(row, length) for cache in caches]
    return [
        (
            mx.concatenate([old[0], new[0]], axis=2)[:, :, start:],
            mx.concatenate([old[1], new[1]], axis=2)[:, :, start:],
        )
        for old, new in zip(prefix, added, strict=True)
    ]


@replicated()
def append_layers(cache: Sequence[Any], layers: Layers) -> None:
    """Append keys and values to the cache of a single sequence."""
    for layer, (keys, values) in zip(cache, layers, strict=True):
        layer.update_and_fetch(keys, values)
