"""Caches of mlx-lm for mlx-vlm's language models.

mlx-vlm defines its cache classes itself. Most have the same interface as mlx-lm's. The classes of
recurrent layers have two more methods, and the state of others has no room for later tokens. During
a call, a view provides both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx_lm.models import cache as caches


@contextmanager
def viewed(cache: list[Any] | None, *, shares_keys: bool = False) -> Iterator[list[Any] | None]:
    """Return a cache for one call of a model of mlx-vlm, with a view of each recurrent layer.

    Some models replace layers of a batch cache. They are replaced in ``cache`` as well.

    Args:
        cache: One entry per layer.
        shares_keys: Whether layers read the keys and values of others as the state of their caches.
    """
    if cache is None:
        yield None
        return
    views = [_viewed(layer, shares_keys=shares_keys) for layer in cache]
    passed = list(views)
    yield passed
    for index, (before, after) in enumerate(zip(views, passed, strict=True)):
        if after is not before:
            cache[index] = after.layer if isinstance(after, _View) else after


def _viewed(layer: Any, *, shares_keys: bool) -> Any:
    if isinstance(layer, caches.ArraysCache):
        return _RecurrentView(layer)
    if shares_keys:
        return _SharedKeysView(layer)
    if isinstance(layer, caches.CacheList):
        viewed = [_viewed(inner, shares_keys=False) for inner in layer.caches]
        if any(new is not old for new, old in zip(viewed, layer.caches, strict=True)):
            return caches.CacheList(*viewed)
    return layer


class _View:
    """The cache of a layer. Attributes that it does not have belong to the cache."""

    def __init__(self, layer: Any) -> None:
        self.__dict__["layer"] = layer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["layer"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self.layer, name):
            setattr(self.layer, name, value)
        else:
            self.__dict__[name] = value


class _SharedKeysView(_View):
    """A cache for layers that read the keys and values of other layers as its state.

    The state of mlx-lm's caches has room for later tokens, and zeros there are no keys. The offset
    of the cache is behind the tokens of the call as soon as it has their keys, while their queries
    need the position of the first one in every layer.
    """

    @property
    def offset(self) -> Any:
        """The number of tokens before the call."""
        before = self.__dict__.get("before")
        return self.layer.offset if before is None else before

    @property
    def state(self) -> Any:
        """The keys and values that the layer attends to in the call."""
        return self.fetched

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        """Append keys and values, and return all."""
        # An array is changed in place by the cache.
        offset = self.layer.offset
        self.__dict__["before"] = mx.array(offset) if isinstance(offset, mx.array) else offset
        self.__dict__["fetched"] = self.layer.update_and_fetch(keys, values)
        return self.fetched


class _RecurrentView(_View):
    """An ``ArraysCache`` of mlx-lm with the methods of mlx-vlm's.

    Attributes that a model sets are the view's own, except those of the cache. They describe rows
    of one call.
    """

    is_speculating = False
    history_capacity = 0

    def __getitem__(self, index: int) -> Any:
        return self.layer[index]

    def __setitem__(self, index: int, value: mx.array) -> None:
        self.layer[index] = value

    def extract(self, row: int) -> _RecurrentView:
        """Return a view of one row of a batch."""
        return _RecurrentView(self.layer.extract(row))

    @classmethod
    def merge(cls, views: Sequence[_RecurrentView]) -> _RecurrentView:
        """Return a view of a batch with a row for each of the layers."""
        return cls(caches.ArraysCache.merge([view.layer for view in views]))

    def update_recurrent(
        self, index: int, length: int, update: Callable[..., tuple[mx.array, ...]]
    ) -> tuple[mx.array, mx.array]:
        """Replace a state by the state that ``update`` returns after its output."""
        output, state = update(self.layer[index], None)[:2]
        self.layer[index] = state
        return output, state

    def update_window(
        self, index: int, source: mx.array, width: int, *, lengths: mx.array | None = None
    ) -> mx.array:
        """Keep the last ``width`` columns, in each row before its padding on the right."""
        length = source.shape[1] - width
        if lengths is None:
            state = mx.contiguous(source[:, length:])
        else:
            columns = mx.clip(lengths, 0, length)[:, None] + mx.arange(width)
            columns = columns.reshape(*columns.shape, *([1] * (source.ndim - 2)))
            state = mx.take_along_axis(source, columns, axis=1)
        self.layer[index] = state
        return state
