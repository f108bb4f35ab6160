"""A prompt's keys and values as the shared prefix of the rows of one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import (
    BatchRotatingKVCache,
    KVCache,
    RotatingKVCache,
    create_attention_mask,
)


@dataclass(frozen=True, slots=True)
class PrefixLayer:
    """The keys and values of one layer, of the tokens before a choice that the layer can see.

    Attributes:
        keys: Shape (1, heads, tokens, width).
        values: Shape (1, heads, tokens, width).
        first: Number of tokens before the first of them, which a sliding window has left behind.
        window: Number of tokens that a token sees, itself included; ``None``: no limit.
    """

    keys: mx.array
    values: mx.array
    first: int = 0
    window: int | None = None

    @property
    def end(self) -> int:
        """Position behind the last token."""
        return self.first + int(self.keys.shape[2])


Layers = list[PrefixLayer]


class PrefixCache(KVCache):
    """A layer's cache of a pass whose rows share the keys and values of their prefix.

    The prefix is repeated for the rows while the layer is computed, and not stored repeated.

    Args:
        prefix: The prefix.

    Attributes:
        keys: Keys of the pass, shape (rows, heads, tokens of the pass, width); ``None`` before.
        values: Values of the pass, of the same shape.
    """

    def __init__(self, prefix: PrefixLayer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._prefix = prefix
        self.offset = prefix.end

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Store the keys and values of the pass; return keys and values of prefix and pass."""
        # Where mlx-lm's pipelines expect what a pass adds.
        self.keys, self.values = keys, values
        self.offset += keys.shape[2]
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """Return keys and values of all tokens, shape (rows, heads, all tokens, width)."""
        pair = self._prefix.keys, self._prefix.values
        if self.keys is None:
            return pair
        joined = [
            mx.concatenate([mx.broadcast_to(old, (new.shape[0], *old.shape[1:])), new], axis=2)
            for old, new in zip(pair, (self.keys, self.values), strict=True)
        ]
        return joined[0], joined[1]

    @property  # type: ignore[misc]
    def state(self) -> tuple[mx.array, mx.array]:
        """The keys and values of all tokens, which layers without their own read."""
        return self.keys_and_values()

    def make_mask(
        self, count: int, return_array: bool = False, window_size: int | None = None
    ) -> Any:
        """Return the mask of a pass over ``count`` tokens, as mlx-lm's caches do.

        Of a sliding window, only the stored tokens count.
        """
        window = window_size or self._prefix.window
        stored = self.offset - self._prefix.first
        return create_attention_mask(count, stored, return_array, window)

    def row(self, row: int, length: int) -> tuple[mx.array, mx.array]:
        """Return the keys and values that the pass added to a row, without padding."""
        if self.keys is None or self.values is None:
            raise AssertionError("the pass has run")
        rows = slice(row, row + 1)
        return self.keys[rows, :, :length], self.values[rows, :, :length]


def prefix_layers(cache: Sequence[Any], row: int, length: int, behind: int = 0) -> Layers:
    """Return the keys and values of one row of a cache.

    Args:
        cache: The cache.
        row: The row.
        length: Tokens of the row.
        behind: Columns behind them, which are left out. None if the cache rotates: such caches take
            no padding, and drafts in them are withdrawn first.
    """
    layers = []
    for layer in cache:
        keys, values, end, window = _in_order(layer)
        end -= behind
        # A rotating cache may have left the first tokens behind.
        columns = slice(max(0, end - length), end)
        kept = columns.stop - columns.start
        rows = slice(row, row + 1)
        layers.append(
            PrefixLayer(keys[rows, :, columns], values[rows, :, columns], length - kept, window)
        )
    return layers


def _in_order(layer: Any) -> tuple[mx.array, mx.array, int, int | None]:
    """Return a layer's keys and values in the order of the tokens, their number, and its window."""
    keys, values, size = layer.keys, layer.values, int(layer.size())
    if not isinstance(layer, RotatingKVCache | BatchRotatingKVCache):
        return keys, values, size, None
    # The column of the next token: the oldest one is there once the buffer is full.
    following = layer._idx
    if following < min(keys.shape[2], size):
        keys, values = (mx.roll(array, -following, 2) for array in (keys, values))
        following = keys.shape[2]
    return keys, values, following, layer.max_size


def prefix_caches(layers: Layers) -> list[PrefixCache]:
    """Return the cache of a pass whose rows begin with a prefix."""
    return [PrefixCache(layer) for layer in layers]


def row_layers(prefix: Layers, caches: Sequence[PrefixCache], row: int, length: int) -> Layers:
    """Return the keys and values of a row of a pass and of its prefix.

    Args:
        prefix: The prefix.
        caches: The cache after the pass.
        row: The row.
        length: Tokens of the row without padding.
    """
    found = []
    for layer, cache in zip(prefix, caches, strict=True):
        keys, values = cache.row(row, length)
        found.append(
            replace(
                layer,
                keys=mx.concatenate([layer.keys, keys], axis=2),
                values=mx.concatenate([layer.values, values], axis=2),
            )
        )
    return found
