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
from typing import Any, TypeAlias, cast

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from .model_checks import is_rounding, logits_error, pass_rounding

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

_LARGE = 30_000.0
"""A logit at which a soft-cap has reached its bound; float16 has it."""

_Function: TypeAlias = Callable[[mx.array], mx.array]


class OutputLayer:
    """A model whose output layer is split off. To be used on the thread that runs the model.

    Create it with :meth:`of`.
    """

    def __init__(
        self, model: Module, output_layer: _Recorder, state_layers: Sequence[int] = ()
    ) -> None:
        self._state_layers = [_Recorder(_decoder_layers(model)[n]) for n in state_layers]
        self._model = _with_layers(model, {id(found.layer): found for found in self._state_layers})
        self._recorder = output_layer
        self._layer: Module = output_layer.layer
        self._finish: _Function | None = _find_finish(model, output_layer)
        self._project = _projection(self._layer, self._finish)

    @staticmethod
    def of(model: Module, state_layers: Sequence[int] = ()) -> OutputLayer | None:
        """Split off a model's output layer, and compare its logits with the model's.

        Args:
            model: The model.
            state_layers: Layers whose outputs are the hidden states of a pass, in ascending order.

        Returns:
            ``None`` if the model has no output layer that is applied last, or if its logits of
            some tokens differ from the model's.
        """
        try:
            split = OutputLayer(*_record_output_layer(model), state_layers)
            split._check()
        except Exception as error:
            _log.info("this model's logits are computed for all tokens at once: %s", error)
            return None
        return split

    @property
    def nbytes(self) -> int:
        """Size of the layer's weights."""
        return sum(value.nbytes for value in self._layer.values() if isinstance(value, mx.array))

    def forward(
        self, tokens: mx.array, cache: list[Any], arguments: Mapping[str, Any]
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Run a pass. Nothing is evaluated.

        Args:
            tokens: Shape (rows, tokens).
            cache: The model's cache.
            arguments: Other arguments of the model's call.

        Returns:
            The inputs of the output layer, shape (rows, tokens, hidden); the logits as the model
            computes them, shape (rows, tokens, vocabulary); and the hidden states, shape (rows,
            tokens, width): the outputs of the state layers, concatenated, or those inputs.
        """
        logits: mx.array = self._model(tokens, cache=cache, **arguments)
        calls, self._recorder.calls = self._recorder.calls, []
        # Earlier calls are those of a pass that has failed.
        states = hidden = calls[-1][0]
        if self._state_layers:
            outputs = [layer.calls[-1][1] for layer in self._state_layers]
            for layer in self._state_layers:
                layer.calls = []
            states = mx.concatenate(outputs, axis=-1)
        return hidden, logits, states

    def logits(self, hidden: mx.array) -> mx.array:
        """Return the logits of all tokens.

        Args:
            hidden: Inputs of the output layer, shape (n, hidden).

        Returns:
            Shape (n, vocabulary), not evaluated.
        """
        return self._project(hidden)

    def logits_of(self, hidden: mx.array, ids: mx.array) -> mx.array:
        """Return the logits of some tokens, for which only their rows of the weight are read.

        Args:
            hidden: Inputs of the output layer, shape (n, hidden).
            ids: Token ids, integers, shape (m,).

        Returns:
            Shape (n, m), not evaluated.
        """
        width = self._layer.weight.shape[0]
        arrays = {
            name: mx.take(value, ids, axis=0)
            for name, value in self._layer.items()
            if isinstance(value, mx.array) and value.shape[:1] == (width,)
        }
        return _projection(_copy(self._layer, arrays), self._finish)(hidden)

    def _check(self) -> None:
        hidden, logits, _ = self.forward(*_short_prompt(self._model), {})
        if hidden.shape[:-1] != logits.shape[:-1]:
            raise ValueError("not all tokens of a pass reach the output layer")
        width = logits.shape[-1]
        numbers = range(_CHECKED_TOKENS)
        ids = mx.array(sorted({n * (width - 1) // (_CHECKED_TOKENS - 1) for n in numbers}))
        for apart, expected in (
            (self.logits(hidden[0]), logits[0]),
            (self.logits_of(hidden[0], ids), mx.take(logits[0], ids, axis=-1)),
        ):
            if apart.shape != expected.shape or apart.dtype != expected.dtype:
                raise ValueError("logits apart have another shape or type")
            error = logits_error(*(np.array(part.astype(mx.float32)) for part in (apart, expected)))
            if not is_rounding("the output layer apart", error, pass_rounding(self._model)):
                raise ValueError("logits apart differ from the model's")


class _Recorder:
    """Records the calls of a layer, in place of the layer in a copy of the model.

    A tied output layer is an embedding, which is called to embed tokens, and projects by
    ``as_linear``. Of such a layer, projections alone are recorded.

    Attributes:
        layer: The layer.
        calls: The input and the output of each call.
        result: Returned in place of recorded outputs, unless it is ``None``.
    """

    def __init__(self, layer: Module) -> None:
        self.layer = layer
        self.calls: list[tuple[Any, Any]] = []
        self.result: mx.array | None = None
        self._is_embedding = hasattr(layer, "as_linear")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.layer, name)

    def __call__(self, inputs: Any, *arguments: Any, **named: Any) -> Any:
        output = self.layer(inputs, *arguments, **named)
        if self._is_embedding:
            return output
        self.calls.append((inputs, output[0] if isinstance(output, tuple) else output))
        return output if self.result is None else self.result

    def as_linear(self, inputs: mx.array) -> mx.array:
        output: mx.array = self.layer.as_linear(inputs)
        self.calls.append((inputs, output))
        return output if self.result is None else self.result


def _projection(layer: Module, finish: _Function | None) -> _Function:
    """Return the function from hidden states to logits."""
    project = cast("_Function", getattr(layer, "as_linear", layer))
    return project if finish is None else lambda hidden: finish(project(hidden))


def _record_output_layer(model: Module) -> tuple[Module, _Recorder]:
    """Return a copy of a model that records the calls of its output layer, and the recorder.

    Raises:
        ValueError: No layer or several layers may be the output layer.
    """
    found = []
    for candidate in _matrices(model):
        recorder = _Recorder(candidate)
        twin = _with_layers(model, {id(candidate): recorder})
        # Nothing is evaluated.
        width = twin(*_short_prompt(model)).shape[-1]
        if len(recorder.calls) == 1 and candidate.weight.shape[0] == width:
            found.append((twin, recorder))
    if len(found) != 1:
        raise ValueError(f"{len(found)} layers may be the output layer")
    return found[0]


def _matrices(module: Module) -> Iterator[Module]:
    """Return the modules with a matrix; modules in lists and of unknown code are left out."""
    if not type(module).__module__.startswith(_KNOWN_CODE):
        return
    weight = module.get("weight")
    if isinstance(weight, mx.array) and weight.ndim == 2:
        yield module
    for child in module.values():
        if isinstance(child, Module):
            yield from _matrices(child)


def _with_layers(module: Module, others: Mapping[int, Any]) -> Module:
    """Return a copy of a module tree with other layers; the same one if it has none of them.

    Args:
        module: The tree. Lists of modules are replaced as wholes.
        others: The layers in place of those with these identities.
    """
    changes: dict[str, Any] = {}
    for name, child in module.items():
        if isinstance(child, list):
            twins = [others.get(id(item), item) for item in child]
            if any(id(item) in others for item in child):
                changes[name] = twins
        elif id(child) in others:
            changes[name] = others[id(child)]
        elif isinstance(child, Module):
            twin = _with_layers(child, others)
            if twin is not child:
                changes[name] = twin
    return _copy(module, changes) if changes else module


def _decoder_layers(model: Module) -> Sequence[Module]:
    """Return the layers of a language model."""
    whole: Any = getattr(model, "multimodal", model)
    return cast("Sequence[Module]", getattr(whole, "language_model", whole).layers)


def _copy(module: Module, changes: Mapping[str, Any]) -> Module:
    """Return a copy with other arrays or children."""
    twin = type(module).__new__(type(module))
    # Some modules keep arrays of their first pass, in attributes or items: each copy has its own.
    twin.__dict__.update(module.__dict__)
    dict.update(twin, {**module, **changes})
    return twin


def _find_finish(model: Module, output_layer: _Recorder) -> _Function | None:
    """Return the function that a model applies to logits: a factor or a soft-cap.

    The model is run with known numbers in place of the projection.

    Args:
        model: The model with ``output_layer``.
        output_layer: Its output layer.

    Returns:
        ``None`` if it applies none.

    Raises:
        ValueError: It is another function, or not applied to each logit alone.
    """
    width = model(*_short_prompt(model)).shape[-1]
    projected = output_layer.calls[-1][1]
    samples = mx.linspace(-100, 100, 2 * width)
    # In another order: large values are not those of the last tokens.
    samples = samples[(mx.arange(2 * width) * 7919) % (2 * width)].reshape(1, 2, width)
    samples[0, 0, :2] = mx.array([1.0, _LARGE])
    samples = samples.astype(projected.dtype)
    output_layer.result = samples
    finished: mx.array = model(*_short_prompt(model))
    output_layer.result = None
    of_one, bound = finished[0, 0, 0], finished[0, 0, 1]
    factor = (mx.arctanh(of_one / bound) * bound).astype(bound.dtype)
    finishes: tuple[_Function | None, ...] = (
        None,
        lambda logits: logits * of_one,
        lambda logits: mx.tanh(logits / bound) * bound,
        lambda logits: mx.tanh(logits * factor / bound) * bound,
    )
    tolerance = 8 * mx.finfo(finished.dtype).eps
    for finish in finishes:
        found = samples if finish is None else finish(samples)
        if found.dtype == finished.dtype and mx.allclose(found, finished, tolerance, 0).item():
            return finish
    raise ValueError("the model's function of logits is not known")


def _short_prompt(model: Module) -> tuple[mx.array, list[Any]]:
    """Return two tokens, shape (1, 2), and an empty cache."""
    return mx.array([[0, 1]], mx.int32), make_prompt_cache(model)
