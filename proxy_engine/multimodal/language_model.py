"""The language model of a multimodal model, called as mlx-lm's models are.

mlx-vlm's language models return an object with logits, make caches of mlx-vlm's own classes, and
some keep the positions of the last prompt on the model. Here they return logits, make mlx-lm's
caches, and get the positions with every call, so that sequences can take turns.

Most of mlx-vlm's cache classes have the same interface as mlx-lm's. The classes of recurrent layers
have two more methods, and the state of others has no room for later tokens. During a call, a view
provides both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeAlias

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models import cache as caches
from mlx_lm.models.cache import KVCache

from ..models.kinds import UnsupportedModelError
from ..prompt_cache.layers import flat, to_mlx_lm

_STATE = ("_rope_deltas", "_position_ids")
"""Attributes in which mlx-vlm's language models keep positions from one call to the next."""

_SHARED_KEYS = frozenset({"gemma3n"})
"""Model types with layers that read the keys and values of others as the state of their caches."""

_Layout: TypeAlias = Callable[[mx.array], mx.array]


class LanguageModel(Module):
    """A multimodal model as a language model. Its parameters are those of the whole model.

    To be created and used on the thread that runs the model. It runs short passes when it is
    created.

    Args:
        multimodal: mlx-vlm's model.
        config: Its configuration.

    Attributes:
        multimodal: mlx-vlm's model.
        args: The configuration's entries.
        model_type: The architecture's name in the configuration.
        takes_rope_deltas: Whether positions depend on images, so that calls take ``rope_deltas``.

    Raises:
        UnsupportedModelError: It is not a language model that generates text token by token.
    """

    def __init__(self, multimodal: Module, config: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.multimodal = multimodal
        # A namespace: a dict would be taken for a module's parameters.
        self.args = SimpleNamespace(**config)
        self.model_type = str(config["model_type"])
        inner = multimodal.language_model
        _scale_each_row(inner)
        # Raises for a model whose caches have no counterpart in mlx-lm.
        self.make_cache()
        self.takes_rope_deltas = hasattr(inner, "_rope_deltas")
        self._layout = _layout(inner, self.make_cache) if self.takes_rope_deltas else None
        self._shares_keys = self.model_type in _SHARED_KEYS
        text_config = getattr(multimodal.config, "text_config", None)
        self._is_prefix_lm = getattr(text_config, "use_bidirectional_attention", None) is True

    def __call__(
        self,
        tokens: mx.array,
        cache: list[Any] | None = None,
        rope_deltas: mx.array | None = None,
        **arguments: Any,
    ) -> mx.array:
        """Return the logits behind each token, shape (rows, tokens, vocabulary).

        Args:
            tokens: Token ids, shape (rows, tokens).
            cache: The cache, which is updated.
            rope_deltas: Positions of the tokens minus their indexes, shape (rows, 1); ``None``: 0.
            **arguments: Arguments of the language model, such as ``inputs_embeds``.
        """
        if self._layout is not None and "position_ids" not in arguments:
            positions = self._layout(_positions(tokens, cache, rope_deltas))
            # Some models compute the positions of text from the deltas.
            arguments = {**arguments, "position_ids": positions, "rope_deltas": rope_deltas}
        if self._is_prefix_lm and "inputs_embeds" not in arguments:
            arguments = {**arguments, "mask": _causal_mask(tokens, cache)}
        inner = self.multimodal.language_model
        with without_state(inner), viewed(cache, shares_keys=self._shares_keys) as views:
            logits: mx.array = inner(tokens, cache=views, **arguments).logits
        return logits

    @property
    def layers(self) -> Sequence[Module]:
        """The layers of the language model."""
        layers: Sequence[Module] = self.multimodal.language_model.layers
        return layers

    def make_cache(self) -> list[Any]:
        """Return an empty cache of mlx-lm's classes, one entry per layer."""
        inner = self.multimodal.language_model
        if not hasattr(inner, "make_cache"):
            return [KVCache() for _ in inner.layers]
        try:
            return [to_mlx_lm(layer) for layer in inner.make_cache()]
        except ValueError as error:
            raise UnsupportedModelError(str(error)) from error


@contextmanager
def without_state(model: Module) -> Iterator[None]:
    """Forget the positions that mlx-vlm's language model keeps, before and after the block."""
    _forget(model)
    try:
        yield
    finally:
        _forget(model)


def _forget(model: Module) -> None:
    for name in _STATE:
        if getattr(model, name, None) is not None:
            setattr(model, name, None)


def _positions(
    tokens: mx.array, cache: Sequence[Any] | None, rope_deltas: mx.array | None
) -> mx.array:
    """Return the position of each token, shape (rows, tokens).

    The offset of a batch cache is an array with the number of tokens of each row, without padding.
    Layers with a recurrent state have no offset.
    """
    offsets = (getattr(layer, "offset", None) for layer in flat(cache or ()))
    offset = next((offset for offset in offsets if offset is not None), 0)
    start = offset.reshape(-1, 1) if isinstance(offset, mx.array) else offset
    positions = mx.arange(tokens.shape[1], dtype=mx.int32)[None] + start
    if rope_deltas is not None:
        positions = positions + rope_deltas
    return mx.broadcast_to(positions, tokens.shape)


def _causal_mask(tokens: mx.array, cache: Sequence[Any] | None) -> mx.array | None:
    """Return the mask of a pass over text for a model with bidirectional attention in prompts.

    Such models let the tokens of any pass attend to each other unless they are given a mask.

    Returns:
        Shape (rows or 1, 1, tokens, columns); ``None`` for a single token of one row.
    """
    length = tokens.shape[1]
    mask = (cache[0] if cache else KVCache()).make_mask(length, return_array=True, window_size=None)
    return mask[None, None] if isinstance(mask, mx.array) and mask.ndim == 2 else mask


def _of_axes(count: int) -> _Layout:
    return lambda positions: mx.broadcast_to(positions[None], (count, *positions.shape))


def _of_axes_last(positions: mx.array) -> mx.array:
    return mx.broadcast_to(positions[..., None], (*positions.shape, 3))


_LAYOUTS: tuple[_Layout, ...] = (
    _of_axes(3),
    _of_axes_last,
    lambda positions: positions,
    _of_axes(4),
)
"""Shapes of positions in multimodal rotary embeddings: (3, rows, tokens) for time, height and width
in most models, and those of others."""


def _layout(model: Module, make_cache: Callable[[], list[Any]]) -> _Layout:
    """Return the shape in which a language model takes positions, found by comparing logits.

    Raises:
        UnsupportedModelError: It takes no positions in a known shape.
    """

    def logits(layout: _Layout | None) -> mx.array:
        cache, found = make_cache(), []
        with without_state(model):
            for tokens in (mx.array([[1, 2, 3]]), mx.array([[4]])):
                positions = _positions(tokens, cache, None)
                arguments = {} if layout is None else {"position_ids": layout(positions)}
                with viewed(cache) as views:
                    found.append(model(tokens, cache=views, **arguments).logits)
        return mx.concatenate(found, axis=1)

    expected = logits(None)
    for layout in _LAYOUTS:
        try:
            difference = mx.abs(logits(layout) - expected).max()
            if difference <= _MAX_DIFFERENCE * mx.abs(expected).max():
                return layout
        except Exception:
            # Models fail in many ways on positions of another shape.
            continue
    raise UnsupportedModelError("it takes positions in an unknown shape")


_MAX_DIFFERENCE = 0.02
"""Relative to the largest logit. Rounding in half precision is less, other positions are more."""


def _scale_each_row(language_model: Module) -> None:
    """Scale the queries of each row of a batch by the row's own positions, in models that scale.

    Mistral 3 and 4 multiply queries by a scale that grows with the position (from Llama 4).
    mlx-vlm's models compute it for the positions of the first row and apply it to all rows.
    """
    config = getattr(language_model, "config", None)
    parameters = getattr(config, "rope_parameters", None) or {}
    if "llama_4_scaling_beta" not in parameters:
        return
    for layer in language_model.layers:
        attention = layer.self_attn
        if "attn_scale" in inspect.signature(type(attention).__call__).parameters:
            layer.self_attn = _ScaledByRow(
                attention,
                parameters["llama_4_scaling_beta"],
                parameters["original_max_position_embeddings"],
            )


class _ScaledByRow(Module):
    """An attention layer that gets the scale of each row.

    Args:
        attention: The layer, called with the scale as its second argument.
        beta: Factor of the logarithm in the scale.
        period: Number of positions with the same scale.
    """

    def __init__(self, attention: Module, beta: float, period: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.attention = attention
        self._beta = beta
        self._period = period

    def __call__(
        self, x: mx.array, attn_scale: mx.array, mask: Any = None, cache: Any = None
    ) -> Any:
        offset = getattr(cache, "offset", None)
        if isinstance(offset, mx.array) and offset.size > 1:
            positions = offset.reshape(-1, 1) + mx.arange(x.shape[1])
            scale = 1 + self._beta * mx.log(1 + mx.floor(positions / self._period))
            attn_scale = scale[:, None, :, None].astype(x.dtype)
        return self.attention(x, attn_scale, mask, cache)


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
