"""The output layer of a model, apart from its body: logits are computed on demand.

A forward pass of mlx-lm's models ends with the vocabulary projection: a matrix product with the
weight of the output layer, of shape (vocabulary, hidden). Where a grammar allows few tokens, only
their logits are needed, which are products with the rows of these tokens. For small models with
large vocabularies the projection is 20 to 60% of a pass over one token.

The pass runs on a copy of the module tree whose output layer records its input. The copy shares the
weights with the model, which is not changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

_log = logging.getLogger(__name__)

_KNOWN_CODE = (
    "mlx_lm.models.",
    "mlx_vlm.models.",
    "mlx_audio.stt.models.",
    "mlx.nn.",
    "proxy_engine.multimodal.",
    "proxy_engine.transcription.",
)
"""Packages whose modules compute equal logits for equal inputs. The module of a caller could change
logits by a state that a check on some tokens does not see."""

_CHECKED_TOKENS = 64
"""Tokens of the vocabulary whose logits are compared."""

_Head: TypeAlias = Callable[[mx.array], mx.array]


class _UnsupportedError(Exception):
    """The output layer of a model cannot be split off."""


class OutputLayer:
    """A model whose output layer is split off. To be used on the thread that runs the model.

    Create it with :meth:`of`.
    """

    def __init__(self, model: Module, layer: _RecordedLayer, finish: _Head | None) -> None:
        self._model = model
        self._layer = layer
        self._finish = finish

    @classmethod
    def of(cls, model: Module) -> OutputLayer | None:
        """Split off a model's output layer, and compare its logits with the model's.

        Returns:
            ``None`` if the model has no output layer that is applied last, or if its logits of
            some tokens differ from the model's.
        """
        try:
            path = _path(model)
            layer = _RecordedLayer(path[-1])
            twin = _with_layer(model, path[-1], layer)
            own = cls(twin, layer, _finish(twin, path, layer))
            own._check()
        except Exception as error:
            _log.info("this model's logits are computed for all tokens at once: %s", error)
            return None
        return own

    def forward(
        self, tokens: mx.array, cache: list[Any], **arguments: Any
    ) -> tuple[mx.array, mx.array]:
        """Run a pass. Nothing is evaluated.

        Args:
            tokens: Shape (rows, tokens).
            cache: The model's cache.
            **arguments: Other arguments of the model's call.

        Returns:
            The inputs of the output layer, shape (rows, tokens, hidden), and the logits as the
            model computes them, shape (rows, tokens, vocabulary).
        """
        with self._layer.recording() as inputs:
            logits: mx.array = self._model(tokens, cache=cache, **arguments)
        (hidden,) = inputs
        return hidden, logits

    def logits(self, hidden: mx.array) -> mx.array:
        """Return the logits of all tokens.

        Args:
            hidden: Inputs of the output layer, shape (n, hidden).

        Returns:
            Shape (n, vocabulary), not evaluated.
        """
        return self._finished(self._layer.project(hidden))

    def logits_of(self, hidden: mx.array, ids: mx.array) -> mx.array:
        """Return the logits of some tokens, for which only their rows of the weight are read.

        Args:
            hidden: Inputs of the output layer, shape (n, hidden).
            ids: Token ids, integers, shape (m,).

        Returns:
            Shape (n, m), not evaluated.
        """
        return self._finished(self._layer.rows(ids)(hidden))

    def _finished(self, projected: mx.array) -> mx.array:
        return projected if self._finish is None else self._finish(projected[None])[0]

    def _check(self) -> None:
        hidden, logits = self.forward(*_short_prompt(self._model))
        if hidden.shape[:-1] != logits.shape[:-1]:
            raise _UnsupportedError("not all tokens of a pass reach the output layer")
        hidden, logits = hidden[0], logits[0]
        ids = _checked_ids(logits.shape[-1])
        # What differs by more than rounding differs by about the largest logit.
        bound = mx.finfo(logits.dtype).eps ** 0.5 * mx.abs(logits).max()
        for own, expected in (
            (self.logits(hidden), logits),
            (self.logits_of(hidden, ids), mx.take(logits, ids, axis=-1)),
        ):
            if own.shape != expected.shape or own.dtype != expected.dtype:
                raise _UnsupportedError("logits apart have another shape or type")
            if not (mx.abs(own - expected).max() <= bound).item():
                raise _UnsupportedError("logits apart differ from the model's")


class _RecordedLayer:
    """An output layer that records its inputs, in place of the layer in a copy of the model.

    A tied output layer is an embedding, which is called to embed tokens, and projects by
    ``as_linear``.
    """

    def __init__(self, layer: Module) -> None:
        self._layer = layer
        self._is_tied = hasattr(layer, "as_linear")
        self._inputs: list[mx.array] | None = None
        self._result: mx.array | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def __call__(self, inputs: mx.array) -> mx.array:
        return self._layer(inputs) if self._is_tied else self._recorded(inputs)

    def as_linear(self, inputs: mx.array) -> mx.array:
        return self._recorded(inputs)

    def project(self, hidden: mx.array) -> mx.array:
        return _projection(self._layer)(hidden)

    def rows(self, ids: mx.array) -> _Head:
        """Return the projection to some tokens."""
        width = self._layer.weight.shape[0]
        arrays = {
            name: mx.take(value, ids, axis=0)
            for name, value in self._layer.items()
            if isinstance(value, mx.array) and value.shape[:1] == (width,)
        }
        return _projection(_copy(self._layer, arrays))

    @contextmanager
    def recording(self) -> Iterator[list[mx.array]]:
        """Record the inputs of calls inside the block in the list that is returned."""
        self._inputs = []
        try:
            yield self._inputs
        finally:
            self._inputs = None

    @contextmanager
    def returning(self, result: mx.array) -> Iterator[None]:
        """Return this array from calls inside the block."""
        self._result = result
        try:
            yield
        finally:
            self._result = None

    def _recorded(self, inputs: mx.array) -> mx.array:
        if self._inputs is not None:
            self._inputs.append(inputs)
        return self.project(inputs) if self._result is None else self._result


class _Stub:
    """Stands in for a module: its attributes, and a constant in place of its calls."""

    def __init__(self, module: Any, result: mx.array) -> None:
        self._module = module
        self._result = result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def __call__(self, *_: Any, **__: Any) -> mx.array:
        return self._result


def _projection(layer: Module) -> _Head:
    return cast("_Head", getattr(layer, "as_linear", layer))


def _copy(module: Module, changes: Mapping[str, Any]) -> Module:
    """Return a copy with other arrays or children."""
    twin = type(module).__new__(type(module))
    # Some modules keep arrays of their first pass, in attributes or items: each copy has its own.
    twin.__dict__.update(module.__dict__)
    dict.update(twin, {**module, **changes})
    return twin


def _path(model: Module) -> list[Module]:
    """Return the modules from the model to its output layer.

    Raises:
        _UnsupportedError: No layer or several layers may be the output layer.
    """
    paths = [path for path in _paths([model]) if _is_known(path)]
    layers = [_RecordedLayer(path[-1]) for path in paths]
    twin = model
    for path, layer in zip(paths, layers, strict=True):
        twin = _with_layer(twin, path[-1], layer)
    with ExitStack() as stack:
        inputs = [stack.enter_context(layer.recording()) for layer in layers]
        width = twin(*_short_prompt(model)).shape[-1]
    found = [
        path
        for path, own in zip(paths, inputs, strict=True)
        if len(own) == 1 and path[-1].weight.shape[0] == width
    ]
    if len(found) != 1:
        raise _UnsupportedError(f"{len(found)} layers may be the output layer")
    return found[0]


def _paths(path: list[Module]) -> Iterator[list[Module]]:
    """Return the paths to modules with a matrix, through modules that are single attributes."""
    weight = path[-1].get("weight")
    if isinstance(weight, mx.array) and weight.ndim == 2:
        yield path
    for child in path[-1].values():
        if isinstance(child, Module):
            yield from _paths([*path, child])


def _is_known(path: Sequence[Module]) -> bool:
    return all(type(module).__module__.startswith(_KNOWN_CODE) for module in path)


def _with_layer(module: Module, layer: Module, other: _RecordedLayer) -> Module:
    """Return a copy of a module tree with another output layer; the same one if it has none."""
    changes: dict[str, Any] = {}
    for name, child in module.items():
        if child is layer:
            changes[name] = other
        elif isinstance(child, Module):
            twin = _with_layer(child, layer, other)
            if twin is not child:
                changes[name] = twin
    return _copy(module, changes) if changes else module


def _finish(model: Module, path: Sequence[Module], layer: _RecordedLayer) -> _Head | None:
    """Return the function that a model applies to logits, such as a scale or a soft-cap.

    It is the model's own code, run with a constant in place of the body.

    Args:
        model: The model with ``layer``.
        path: The modules from the original model to its output layer.
        layer: The recorded output layer.

    Returns:
        A function of projections, shape (1, n, m); ``None``: the identity.

    Raises:
        _UnsupportedError: The function is not found, or not applied to each logit alone.
    """
    with layer.recording() as inputs:
        projected = model(*_short_prompt(model))
    width = projected.shape[-1]
    (hidden,) = inputs
    samples = mx.linspace(-100, 100, 2 * width).astype(layer.project(hidden).dtype)
    # In another order: large values are not those of the last tokens.
    samples = samples[(mx.arange(2 * width) * 7919) % (2 * width)].reshape(1, 2, width)
    with layer.returning(samples):
        finished: mx.array = model(*_short_prompt(model))
    if _equal(finished, samples):
        return None
    ids = _checked_ids(width)
    rolled = mx.roll(samples, 1, -1)
    for calls in range(1, len(path)):
        head = _head(path[:calls], path[calls:], layer, mx.zeros_like(hidden))
        try:
            own, of_rolled = head(samples), head(rolled)
        except Exception as error:
            _log.debug("module %d does not call the output layer: %s", calls, error)
            continue
        # Before fewer logits are computed: a model that assigns to tokens of its vocabulary would
        # write out of bounds, which mlx does not check.
        if not (_equal(own, finished) and _equal(of_rolled, mx.roll(finished, 1, -1))):
            continue
        if _equal(head(mx.take(samples, ids, axis=-1)), mx.take(finished, ids, axis=-1)):
            return head
    raise _UnsupportedError("what follows the output layer is not applied to each logit alone")


def _head(
    callers: Sequence[Module], others: Sequence[Module], layer: _RecordedLayer, hidden: mx.array
) -> _Head:
    """Return the function of a model with its body replaced.

    Args:
        callers: The modules whose code is run, from the outermost one.
        others: The modules on the path from there to the output layer, which only hold it.
        layer: The recorded output layer.
        hidden: What replaced modules return.
    """
    originals = [*callers, *others]
    node: Any = layer
    for depth in range(len(originals) - 2, -1, -1):
        module, below = originals[depth], originals[depth + 1]
        changes = {
            name: node if child is below else _Stub(child, hidden)
            for name, child in module.items()
            if isinstance(child, Module)
        }
        node = _copy(module, changes)
        if depth >= len(callers):
            node = _Stub(node, hidden)
    tokens = mx.zeros(hidden.shape[:-1], mx.int32)

    def head(projected: mx.array) -> mx.array:
        with layer.returning(projected):
            finished: mx.array = node(tokens)
        return finished

    return head


def _short_prompt(model: Module) -> tuple[mx.array, list[Any]]:
    """Return two tokens, shape (1, 2), and an empty cache."""
    return mx.array([[0, 1]], mx.int32), make_prompt_cache(model)


def _checked_ids(width: int) -> mx.array:
    """Return ascending ids from the whole vocabulary."""
    return mx.array(
        sorted({n * (width - 1) // (_CHECKED_TOKENS - 1) for n in range(_CHECKED_TOKENS)})
    )


def _equal(left: mx.array, right: mx.array) -> bool:
    return (
        left.shape == right.shape
        and left.dtype == right.dtype
        and bool(mx.array_equal(left, right, equal_nan=True).item())
    )
