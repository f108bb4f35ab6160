"""Prompt caches of a batch: operations on mlx-lm's batch caches, one cache per layer.

Sequences of different lengths are padded on the left. Sequences that take different numbers of
tokens in one pass are padded on the right for that pass; the caches then move the padding to the
left.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    BatchRotatingKVCache,
    KVCache,
    RotatingKVCache,
)

from ..prompt_cache.layers import flat

_MIN_PADDING_COLUMNS = 64
"""Common padding columns from which on dropping them is worth a copy of the cache."""


def can_merge(cache: Sequence[Any]) -> bool:
    """Whether the cache of one sequence can be merged into a batch cache.

    Quantized and chunked caches have no batch form. Rotating caches that keep the first tokens
    would lose these in mlx-lm's batch form.
    """
    return all(
        hasattr(layer, "merge") and not (isinstance(layer, RotatingKVCache) and layer.keep)
        for layer in flat(cache)
    )


def can_pad(cache: Sequence[Any]) -> bool:
    """Whether rows of a batch cache can take different numbers of tokens in any pass.

    Args:
        cache: A batch cache, or a plain cache that is to be a row of one.
    """
    return all(type(layer) in (KVCache, BatchKVCache) for layer in cache)


def can_retract(cache: Sequence[Any]) -> bool:
    """Whether rows can take, and drop again, different numbers of tokens of a prepared pass.

    See :class:`RowsRollback`. Models with recurrent states differ in how they treat padding, which
    :class:`ModelChecks` determines.

    Args:
        cache: A batch cache, or a plain cache that is to be a row of one.
    """
    kinds = KVCache, BatchKVCache, RotatingKVCache, BatchRotatingKVCache, ArraysCache
    return can_merge(cache) and all(type(layer) in kinds for layer in cache)


def merge(caches: Sequence[Sequence[Any]]) -> list[Any]:
    """Return a batch cache with one row per cache."""
    return [layers[0].merge(list(layers)) for layers in zip(*caches, strict=True)]


def extend(cache: list[Any], other: Sequence[Any]) -> None:
    """Append the rows of another batch cache, in place."""
    for layer, more in zip(cache, other, strict=True):
        layer.extend(more)


def keep_rows(cache: Sequence[Any], rows: Sequence[int]) -> None:
    """Keep some rows of a batch cache, at least one, in place."""
    for layer in cache:
        layer.filter(list(rows))


def extract_row(cache: Sequence[Any], row: int) -> list[Any]:
    """Return one row of a batch cache as the cache of a single sequence."""
    return [layer.extract(row) for layer in cache]


def extract_kv_row(cache: Sequence[Any], row: int, length: int) -> list[Any]:
    """Return one row of a cache of ``BatchKVCache`` layers, with its last ``length`` tokens.

    Same as :func:`extract_row`, but it does not wait for the device to learn the length.
    """
    layers = []
    for layer in cache:
        single = KVCache()
        columns = slice(layer.size() - length, layer.size())
        single.keys = mx.contiguous(layer.keys[row : row + 1, :, columns])
        single.values = mx.contiguous(layer.values[row : row + 1, :, columns])
        single.offset = length
        layers.append(single)
    return layers


def padded_tokens(rows: Sequence[Sequence[int]]) -> mx.array:
    """Return the tokens of a pass, padded on the right: int32, shape (rows, longest row)."""
    longest = max(map(len, rows))
    return mx.array([[*row, *[0] * (longest - len(row))] for row in rows], mx.int32)


@contextmanager
def right_padded(cache: Sequence[Any], lengths: Sequence[int]) -> Iterator[None]:
    """Run a forward pass inside the block whose rows are padded on the right.

    Args:
        cache: The batch cache of the pass.
        lengths: Tokens of each row without the padding.
    """
    _begin_padding(cache, lengths)
    yield
    _end_padding(cache)


def _begin_padding(cache: Sequence[Any], lengths: Sequence[int]) -> None:
    longest = max(lengths)
    for layer in cache:
        layer.prepare(lengths=list(lengths), right_padding=[longest - n for n in lengths])


def _end_padding(cache: Sequence[Any]) -> None:
    for layer in cache:
        layer.finalize()


def drop_padding(cache: Sequence[Any], longest: int) -> None:
    """Drop columns that are padding in every row, if they are many.

    Such columns remain after passes with right padding.

    Args:
        cache: The batch cache.
        longest: Tokens of the longest row.
    """
    for layer in flat(cache):
        if isinstance(layer, BatchKVCache) and layer.size() - longest >= _MIN_PADDING_COLUMNS:
            layer.filter(list(range(len(layer.left_padding))))


def can_trim(cache: Sequence[Any], count: int) -> bool:
    """Whether the next ``count`` tokens can be trimmed again once they are in the cache."""
    for layer in flat(cache):
        if isinstance(layer, RotatingKVCache):
            fits = layer.offset + count < layer.max_size
        elif isinstance(layer, BatchRotatingKVCache):
            fits = layer.size() + count < layer.max_size
        else:
            fits = layer.is_trimmable()
        if not fits:
            return False
    return True


def trim(cache: Sequence[Any], count: int) -> None:
    """Remove the last ``count`` tokens of every row."""
    for layer in cache:
        layer.trim(count)


def trim_rows(cache: Sequence[Any], counts: Sequence[int]) -> None:
    """Remove the last tokens of each row, different numbers of them if the cache can be padded.

    The device is not waited for. The columns of a row that loses more tokens than others move to
    the right, so that all rows still end at the same column.

    Args:
        cache: A batch cache of layers with keys and values, or any cache if all counts are equal,
            such as that of a single sequence.
        counts: Tokens to remove from each row; no row has fewer.
    """
    common = min(counts)
    for layer in cache:
        # To mlx-lm, the tokens to remove are right padding.
        if isinstance(layer, BatchRotatingKVCache):
            layer._temporal_order()
            parts: list[Any] = [layer.keys, layer.values]
            layer.keys, layer.values = (part[:, :, : layer._idx] for part in parts)
            layer.prepare(lengths=[-count for count in counts], right_padding=list(counts))
            layer.finalize()
            continue
        if common:
            trim([layer], common)
        if max(counts) > common:
            layer.prepare(right_padding=[count - common for count in counts])
            layer.finalize()


class Rollback:
    """The state of the cache of one sequence before a pass.

    Use :meth:`before` to create it, run the pass, then call :meth:`drop` once.
    """

    def __init__(self, cache: list[Any], lengths: Sequence[int]) -> None:
        _sort_entries(cache)
        self._cache = cache
        self._length = lengths[0]
        self._states = {
            index: _state(layer)
            for index, layer in enumerate(flat(cache))
            if not _is_trimmable(layer, self._length)
        }

    @staticmethod
    def before(cache: list[Any], lengths: Sequence[int]) -> Rollback:
        """Return to the state of a cache before a pass with this.

        Args:
            cache: The cache of a single sequence, or of rows that drop the same. The pass may
                replace its layers by quantized ones.
            lengths: Tokens of each row in the pass, all equal.
        """
        return Rollback(cache, lengths)

    def drop(self, counts: Sequence[int]) -> list[int]:
        """Remove the last tokens of the pass. The device is not waited for.

        Args:
            counts: The tokens to remove from each row, all equal.

        Returns:
            How many tokens of each row are to be processed again, because the cache could only be
            restored to the state before the pass.
        """
        layers, dropped = list(flat(self._cache)), counts[0]
        if dropped and not all(_keeps_pass(layers[index]) for index in self._states):
            dropped = self._length
        for index, layer in enumerate(layers if dropped else ()):
            if index not in self._states:
                trim([layer], dropped)
            elif dropped < self._length:
                _drop_last(layer, dropped)
            else:
                vars(layer).update(self._states[index])
        return [dropped - count for count in counts]


class RowsRollback:
    """The state of a batch cache before a pass whose rows may drop tokens.

    Keys and values of dropped tokens move behind the left edge: a rotating cache keeps as many
    entries before a pass as its window has, so that none is lost. A recurrent state cannot drop
    tokens: it is restored to that before the pass.

    Use :meth:`before` to create it, run the pass, then call :meth:`drop` once.
    """

    def __init__(self, cache: list[Any], lengths: Sequence[int]) -> None:
        self._cache = cache
        self._lengths = lengths
        self._width = max(lengths)
        self._states = [
            (layer, _shared(layer.cache)) for layer in cache if isinstance(layer, ArraysCache)
        ]
        if min(lengths) < self._width:
            for layer, _ in self._states:
                layer.prepare(lengths=list(lengths))
        _sort_entries(cache)

    @staticmethod
    def before(cache: list[Any], lengths: Sequence[int]) -> RowsRollback:
        """Return to the state of a cache before a pass with this.

        Args:
            cache: A batch cache, see :func:`can_retract`.
            lengths: Tokens of each row in the pass, without padding.
        """
        return RowsRollback(cache, lengths)

    def drop(self, counts: Sequence[int]) -> list[int]:
        """Remove the last columns of each row. The device is not waited for.

        Args:
            counts: The columns to remove, padding included.

        Returns:
            How many tokens of each row are to be processed again, because its states could only be
            restored.
        """
        refused = [
            count - (self._width - length)
            for count, length in zip(counts, self._lengths, strict=True)
        ]
        is_restored = [bool(self._states) and count > 0 for count in refused]
        for layer, states in self._states:
            layer.finalize()
            if any(is_restored):
                layer.cache = _chosen_rows(is_restored, states, layer.cache)
        dropped = [
            self._width if restored else count
            for restored, count in zip(is_restored, counts, strict=True)
        ]
        trim_rows([layer for layer in self._cache if not isinstance(layer, ArraysCache)], dropped)
        return [
            length - count if restored else 0
            for restored, length, count in zip(is_restored, self._lengths, refused, strict=True)
        ]


def _chosen_rows(is_first: Sequence[bool], first: Sequence[Any], second: Sequence[Any]) -> Any:
    """Choose each row of some arrays from two lists of arrays."""
    chosen = mx.array(list(is_first))
    return [
        mx.where(chosen.reshape(-1, *[1] * (two.ndim - 1)), one, two)
        for one, two in zip(first, second, strict=True)
    ]


def _sort_entries(cache: Sequence[Any]) -> None:
    """Order the entries of rotating batch caches, as masks of passes over several tokens expect."""
    for layer in flat(cache):
        if isinstance(layer, BatchRotatingKVCache):
            layer._temporal_order()


def must_replay(cache: Sequence[Any]) -> bool:
    """Whether a refused token makes the model process accepted tokens again."""
    return any(not (_is_trimmable(layer, 1) or _keeps_pass(layer)) for layer in flat(cache))


def _is_trimmable(layer: Any, count: int) -> bool:
    """Whether the last ``count`` tokens of the next pass can be trimmed again."""
    if isinstance(layer, RotatingKVCache):
        return bool(layer.offset + count < layer.max_size)
    if isinstance(layer, BatchRotatingKVCache):
        return bool(layer._offset + count < layer.max_size)
    return bool(layer.is_trimmable())


def _keeps_pass(layer: Any) -> bool:
    """Whether a cache that is not trimmable can drop all tokens of the last pass but the first."""
    return isinstance(layer, RotatingKVCache)


def _drop_last(layer: Any, count: int) -> None:
    """Remove the last ``count`` tokens of the last pass, which had more, from a rotating cache.

    A pass over several tokens leaves the entries in their order, and the ``max_size - 1`` entries
    before its first token.
    """
    layer.keys = layer.keys[..., :-count, :]
    layer.values = layer.values[..., :-count, :]
    layer.offset -= count
    layer._idx -= count


def _state(layer: Any) -> dict[str, Any]:
    return {name: _shared(value) for name, value in vars(layer).items()}


def _shared(value: Any) -> Any:
    """Copy containers, and arrays such that an assignment to a slice leaves the copy as it is."""
    if isinstance(value, list | tuple):
        return type(value)(_shared(item) for item in value)
    return copy.copy(value) if isinstance(value, mx.array) else value
