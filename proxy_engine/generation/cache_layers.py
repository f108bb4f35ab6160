"""What a model remembers of several rows, in mlx-lm's batch caches: one entry a layer.

Rows of different lengths are padded on the left. Where rows go on by different numbers of tokens,
they are padded on the right for that pass, and the caches move the padding to the left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mlx_lm.models.cache import (
    BatchKVCache,
    BatchRotatingKVCache,
    RotatingKVCache,
)

from ..prompt_cache.layers import flat

__all__ = [
    "can_be_merged",
    "can_be_spread",
    "can_forget",
    "extended",
    "extracted",
    "forget",
    "merged",
    "only_rows",
    "spread",
    "without_padding",
]


def can_be_merged(layers: Sequence[Any]) -> bool:
    """Whether the caches of one row can be put together with others.

    Not quantized ones, those in chunks, and rotating ones that hold on to the first tokens, which
    mlx-lm's batch caches would lose.
    """
    return all(
        hasattr(layer, "merge") and not (isinstance(layer, RotatingKVCache) and layer.keep)
        for layer in flat(layers)
    )


def can_be_spread(layers: Sequence[Any]) -> bool:
    """Whether rows in batch caches can go on by different numbers of tokens in one pass.

    Models differ in what they make of padding in recurrent states, and rotating caches lose what
    lies behind it.
    """
    return all(isinstance(layer, BatchKVCache) for layer in layers)


def merged(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return batch caches of rows that each have caches of their own."""
    return [layers[0].merge(list(layers)) for layers in zip(*rows, strict=True)]


def extended(layers: list[Any], others: Sequence[Any]) -> list[Any]:
    """Return batch caches with the rows of others behind their own; changes ``layers``."""
    for layer, other in zip(layers, others, strict=True):
        layer.extend(other)
    return layers


def only_rows(layers: Sequence[Any], kept: Sequence[int]) -> None:
    """Keep some rows, in place; at least one."""
    for layer in layers:
        layer.filter(list(kept))


def extracted(layers: Sequence[Any], row: int) -> list[Any]:
    """Return one row's caches, as it would have them alone."""
    return [layer.extract(row) for layer in layers]


@contextmanager
def spread(layers: Sequence[Any], lengths: Sequence[int]) -> Iterator[None]:
    """Within it, a pass is described in which rows go on by so many tokens each.

    Its tokens are padded on the right, to the longest.
    """
    longest = max(lengths)
    for layer in layers:
        layer.prepare(lengths=list(lengths), right_padding=[longest - n for n in lengths])
    yield
    for layer in layers:
        layer.finalize()


def without_padding(layers: Sequence[Any], longest: int, *, at_least: int) -> None:
    """Drop columns that are padding in all rows, the longest of which has ``longest`` tokens.

    They come of passes in which rows went on by different numbers of tokens. Only where they are
    ``at_least`` so many, for it costs a copy.
    """
    for layer in flat(layers):
        if isinstance(layer, BatchKVCache) and layer.size() - longest >= at_least:
            layer.filter(list(range(len(layer.left_padding))))


def can_forget(layers: Sequence[Any], count: int) -> bool:
    """Whether the next ``count`` tokens that are read can be forgotten again."""
    for layer in flat(layers):
        if isinstance(layer, RotatingKVCache):
            fits = layer.offset + count < layer.max_size
        elif isinstance(layer, BatchRotatingKVCache):
            fits = layer.size() + count < layer.max_size
        else:
            fits = layer.is_trimmable()
        if not fits:
            return False
    return True


def forget(layers: Sequence[Any], count: int) -> None:
    """Forget the last ``count`` tokens of all rows."""
    for layer in layers:
        layer.trim(count)
