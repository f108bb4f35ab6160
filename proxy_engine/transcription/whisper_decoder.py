"""Whisper's decoder as a language model whose cache holds the encoder's output.

The weights and layers are mlx-audio's. Its decoder keeps keys and values as tuples and computes one
sequence; here they are in mlx-lm's cache layers, so that the engine's loop can batch, trim and copy
them. Radford et al. 2023, "Robust Speech Recognition via Large-Scale Weak Supervision".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeAlias, cast

import mlx.core as mx
from mlx.nn.layers.activations import gelu
from mlx.nn.layers.base import Module
from mlx_lm.models.base import create_attention_mask, scaled_dot_product_attention
from mlx_lm.models.cache import BatchKVCache, KVCache

CrossAttention: TypeAlias = tuple[mx.array, mx.array]
"""Keys and values of the encoder's output, shape (rows, heads, positions, width)."""


class WhisperDecoder(Module):
    """The decoder of a Whisper model. Without an encoder's output it attends to text alone.

    Args:
        whisper: The model, ``mlx_audio.stt.models.whisper.Model``.
    """

    def __init__(self, whisper: Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.whisper = whisper

    def __call__(self, tokens: mx.array, cache: Sequence[Any] | None = None) -> mx.array:
        """Run a forward pass.

        Args:
            tokens: Shape (rows, tokens).
            cache: Layers as :meth:`make_cache` returns them, or their batch form; updated.

        Returns:
            Logits, shape (rows, tokens, vocabulary).
        """
        layers = self.make_cache() if cache is None else cache
        decoder = cast(Any, self.whisper).decoder
        x = decoder.token_embedding(tokens) + self._positions(layers[0].offset, tokens.shape[1])
        mask = create_attention_mask(x, layers[0])
        for block, layer in zip(decoder.blocks, layers, strict=True):
            x = x + _self_attention(block.attn, block.attn_ln(x), mask, layer)
            if layer.cross is not None:
                x = x + _cross_attention(block.cross_attn, block.cross_attn_ln(x), layer.cross)
            x = x + block.mlp2(gelu(block.mlp1(block.mlp_ln(x))))
        logits: mx.array = decoder.token_embedding.as_linear(decoder.ln(x))
        return logits

    def make_cache(self) -> list[Any]:
        """Return an empty cache, one layer for each of the decoder's."""
        return [DecoderLayerCache() for _ in cast(Any, self.whisper).decoder.blocks]

    def attend_to(self, states: mx.array, cache: Sequence[DecoderLayerCache]) -> None:
        """Store the keys and values of an encoder's output in a cache.

        Args:
            states: Shape (1, positions, width).
            cache: The cache of one sequence; changed in place.
        """
        for block, layer in zip(cast(Any, self.whisper).decoder.blocks, cache, strict=True):
            attention = block.cross_attn
            keys = _heads(attention.key(states), attention.n_head)
            layer.cross = keys, _heads(attention.value(states), attention.n_head)

    def _positions(self, offset: int | mx.array, length: int) -> mx.array:
        """Return the embeddings of the next positions, by row if offsets differ."""
        embeddings = cast(mx.array, cast(Any, self.whisper).decoder.positional_embedding)
        if isinstance(offset, int):
            return embeddings[offset : offset + length]
        # Padding is before position 0, or behind the last one.
        rows = offset[:, None] + mx.arange(length)
        return embeddings[mx.clip(rows, 0, embeddings.shape[0] - 1)]


class DecoderLayerCache(KVCache):
    """Keys and values of one layer: of the text, and of the encoder's output.

    Attributes:
        cross: Keys and values of the encoder's output, which no operation on tokens changes;
            ``None`` before they are stored.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cross: CrossAttention | None = None

    @property
    def state(self) -> tuple[Any, ...]:
        """The arrays of the layer, which are evaluated together."""
        return (self.keys, self.values, self.offset, *(self.cross or ()))

    @state.setter
    def state(self, value: tuple[Any, ...]) -> None:
        self.keys, self.values, self.offset, *cross = value
        self.cross = (cross[0], cross[1]) if cross else None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return _nbytes(self.keys, self.values, *(self.cross or ()))

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> Any:
        """Raise ``ValueError``: the loop would quantize the text alone, which is short."""
        raise ValueError("the cache of a Whisper decoder is not quantized")

    @classmethod
    def merge(cls, caches: Sequence[DecoderLayerCache]) -> BatchDecoderLayerCache:
        """Return the batch form, with one row per cache."""
        return BatchDecoderLayerCache.merge(caches)


class BatchDecoderLayerCache(BatchKVCache):
    """:class:`DecoderLayerCache` of several sequences."""

    cross: CrossAttention | None = None

    @classmethod
    def merge(cls, caches: Sequence[DecoderLayerCache]) -> Self:
        """Return a batch cache with one row per cache."""
        merged = cls([0] * len(caches))
        # The base class creates its own type for empty caches.
        vars(merged).update(vars(BatchKVCache.merge(caches)))
        merged.cross = _stacked([cache.cross for cache in caches])
        return merged

    @property
    def state(self) -> tuple[Any, ...]:
        """The arrays of the layer, which are evaluated together."""
        own = (self.keys, self.values, self.offset, self.left_padding, self._idx)
        return (*own, *(self.cross or ()))

    @state.setter
    def state(self, value: tuple[Any, ...]) -> None:
        self.keys, self.values, self.offset, self.left_padding, self._idx, *cross = value
        self.cross = (cross[0], cross[1]) if cross else None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return _nbytes(self.keys, self.values, *(self.cross or ()))

    def filter(self, batch_indices: Sequence[int]) -> None:
        """Keep some rows."""
        super().filter(batch_indices)  # type: ignore[no-untyped-call]
        if self.cross is not None:
            rows = mx.array(list(batch_indices))
            self.cross = self.cross[0][rows], self.cross[1][rows]

    def extend(self, other: BatchDecoderLayerCache) -> None:
        """Append the rows of another batch cache."""
        super().extend(other)  # type: ignore[no-untyped-call]
        self.cross = _stacked([self.cross, other.cross])

    def extract(self, idx: int) -> DecoderLayerCache:
        """Return one row as the cache of a single sequence."""
        single = DecoderLayerCache()
        own = super().extract(idx)  # type: ignore[no-untyped-call]
        vars(single).update(vars(own))
        if self.cross is not None:
            keys, values = (mx.contiguous(array[idx : idx + 1]) for array in self.cross)
            single.cross = keys, values
        return single


def _nbytes(*arrays: mx.array | None) -> int:
    return sum(array.nbytes for array in arrays if array is not None)


def _stacked(rows: Sequence[CrossAttention | None]) -> CrossAttention | None:
    """Return keys and values of several rows; ``None`` if no row attends to an encoder's output."""
    found = [row for row in rows if row is not None]
    if not found:
        return None
    if len(found) < len(rows):
        raise ValueError("rows with and without an encoder's output cannot share a batch")
    return mx.concatenate([row[0] for row in found]), mx.concatenate([row[1] for row in found])


def _self_attention(attention: Any, x: mx.array, mask: Any, cache: Any) -> mx.array:
    heads = attention.n_head
    keys, values = cache.update_and_fetch(
        _heads(attention.key(x), heads), _heads(attention.value(x), heads)
    )
    return _attended(attention, x, keys, values, mask)


def _cross_attention(attention: Any, x: mx.array, cross: CrossAttention) -> mx.array:
    return _attended(attention, x, *cross, None)


def _attended(attention: Any, x: mx.array, keys: mx.array, values: mx.array, mask: Any) -> mx.array:
    queries = _heads(attention.query(x), attention.n_head)
    scale = queries.shape[-1] ** -0.5
    found = scaled_dot_product_attention(queries, keys, values, None, scale, mask)
    output: mx.array = attention.out(found.transpose(0, 2, 1, 3).reshape(x.shape))
    return output


def _heads(x: mx.array, count: int) -> mx.array:
    """Split the last axis: (rows, tokens, width) to (rows, heads, tokens, width of a head)."""
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)
