"""Logits of few tokens, computed apart from the pass, are those of the model."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from architectures import ARCHITECTURES, VOCABULARY, small_model
from cached_models import KINDS, model_of
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.generation import ForwardPass
from proxy_engine.generation.forward_pass import PassOutput
from proxy_engine.generation.output_layer import OutputLayer

_IDS = mx.array([0, 7, 31, 319], mx.int32)

PECULIARITIES: dict[str, tuple[str, dict[str, Any]]] = {
    "tied": ("llama", {"tie_word_embeddings": True}),
    "untied": ("llama", {}),
    "bias": ("phi", {}),
    "soft-cap": ("gemma2", {}),
    "soft-cap, compiled": ("nanochat", {}),
    "scaled": ("cohere", {"logit_scale": 0.3}),
    "divided": ("granite", {"logits_scaling": 3.0}),
    "divided, tied": ("granite", {"logits_scaling": 3.0, "tie_word_embeddings": True}),
    "scaled, tied": ("falcon_h1", {"tie_word_embeddings": True, "lm_head_multiplier": 0.3}),
    "scaled inputs": ("minicpm", {"dim_model_base": 16}),
    "scaled, soft-cap": ("muse_glimmer", {"output_multiplier": 0.3}),
    "in a wrapper": ("gemma4", {"final_logit_softcapping": 20.0}),
    "called by the body": ("lille-130m", {}),
}
SPLIT = tuple(
    name
    for name in ARCHITECTURES
    # Dummy tokens are masked; the weight is no module; passes over several tokens fail.
    if name not in {"phi3small", "talkie", "minicpm3", "phixtral"}
)


def quantize(model: Module, bits: int, mode: str = "affine") -> None:
    def fits(_: str, module: Module) -> bool:
        return hasattr(module, "to_quantized") and module.weight.shape[-1] % 32 == 0

    nn.quantize(model, group_size=32, bits=bits, mode=mode, class_predicate=fits)


def peculiar_model(name: str) -> Module:
    architecture, options = PECULIARITIES[name]
    return small_model(architecture, **options)


def assert_same_logits(model: Module, *, rows: int = 2, bound: float = 1e-4) -> None:
    layer = OutputLayer.of(model)
    assert layer is not None
    tokens = mx.array([[5, 9, 33, 70], [1, 2, 3, 4]])[:rows]
    expected = model(tokens, cache=make_prompt_cache(model))
    hidden, logits, _ = layer.forward(tokens, make_prompt_cache(model), {})
    assert mx.array_equal(logits, expected).item()
    scale = mx.abs(expected).max()
    for row in range(rows):
        every, few = layer.logits(hidden[row]), layer.logits_of(hidden[row], _IDS)
        assert few.shape == (4, 4)
        assert few.dtype == every.dtype == expected.dtype
        assert (mx.abs(every - expected[row]).max() <= bound * scale).item()
        assert (mx.abs(few - expected[row][:, _IDS]).max() <= bound * scale).item()


@pytest.mark.parametrize("name", PECULIARITIES)
def test_logits_of_few_tokens_are_those_of_the_model(name: str) -> None:
    assert_same_logits(peculiar_model(name))


@pytest.mark.parametrize("architecture", SPLIT)
def test_logits_of_every_architecture_are_those_of_the_model(architecture: str) -> None:
    assert_same_logits(small_model(architecture), rows=1)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("name", ["tied", "untied", "bias", "soft-cap", "divided"])
def test_rows_of_quantized_layers_have_the_logits_of_the_model(name: str, bits: int) -> None:
    model = peculiar_model(name)
    quantize(model, bits)
    assert_same_logits(model)


@pytest.mark.parametrize("mode", ["mxfp4", "mxfp8"])
def test_rows_of_layers_quantized_without_biases(mode: str) -> None:
    model = peculiar_model("tied")
    quantize(model, 4 if mode == "mxfp4" else 8, mode)
    assert_same_logits(model)


@pytest.mark.parametrize("kind", [mx.bfloat16, mx.float16])
@pytest.mark.parametrize("name", ["tied", "soft-cap", "divided"])
def test_logits_keep_the_type_of_the_model(name: str, kind: mx.Dtype) -> None:
    model = peculiar_model(name)
    model.set_dtype(kind)
    assert_same_logits(model, bound=0.02)


def test_model_is_not_changed() -> None:
    model = peculiar_model("tied")
    before = [(name, id(value)) for name, value in tree_flatten(model)]
    children = {name: id(value) for name, value in model.items()}
    layer = OutputLayer.of(model)
    assert layer is not None
    layer.forward(mx.array([[1, 2]]), make_prompt_cache(model), {})
    assert [(name, id(value)) for name, value in tree_flatten(model)] == before
    assert {name: id(value) for name, value in model.items()} == children


def test_weights_are_shared_with_the_model() -> None:
    model = peculiar_model("untied")
    layer = OutputLayer.of(model)
    assert layer is not None
    model.lm_head.weight = model.lm_head.weight * 2
    tokens = mx.array([[5, 9]])
    hidden, *_ = layer.forward(tokens, make_prompt_cache(model), {})
    expected = model(tokens, cache=make_prompt_cache(model))[0][:, _IDS]
    assert mx.allclose(layer.logits_of(hidden[0], _IDS), expected, atol=1e-4).item()


class Steered(Module):
    """A module of a caller, whose logits depend on its state."""

    def __init__(self, inner: Module) -> None:
        super().__init__()
        self.inner = inner
        self.steered = None

    @property
    def layers(self) -> Any:
        return self.inner.layers

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        logits: mx.array = self.inner(tokens, cache=cache)
        if self.steered is not None:
            logits = logits.at[..., self.steered].add(1000.0)
        return logits


def test_model_with_code_of_the_caller_keeps_its_own_logits() -> None:
    model = Steered(peculiar_model("tied"))
    assert OutputLayer.of(model) is None
    forward = ForwardPass(model)
    assert forward.split_output_layer() is None
    model.steered = 7
    logits = forward(mx.array([[1]]), make_prompt_cache(model)).at(0, 0)
    assert mx.argmax(logits.of(_IDS)).item() == 1


class Centred(Module):
    """Logits from which the mean of all tokens is subtracted."""

    def __init__(self, inner: Module) -> None:
        super().__init__()
        self.inner = inner

    @property
    def layers(self) -> Any:
        return self.inner.layers

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        logits: mx.array = self.inner(tokens, cache=cache)
        return logits - logits.mean(axis=-1, keepdims=True)


class Padded(Centred):
    """Logits whose last tokens are masked."""

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        logits: mx.array = self.inner(tokens, cache=cache)
        return mx.where(mx.arange(VOCABULARY) < VOCABULARY - 5, logits, -mx.inf)


@pytest.mark.parametrize("wrapper", [Centred, Padded])
def test_functions_of_several_logits_are_not_split_off(
    wrapper: type[Centred], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the class were part of mlx-lm.
    monkeypatch.setattr(wrapper, "__module__", "mlx_lm.models.other")
    assert OutputLayer.of(wrapper(peculiar_model("tied"))) is None


@pytest.mark.parametrize("architecture", ["kimi_k3", "plamo3", "gemma3n"])
def test_arrays_that_a_model_keeps_are_not_taken_from_it(architecture: str) -> None:
    model, other = small_model(architecture), small_model(architecture)
    OutputLayer.of(model)
    logits, expected = (
        each(mx.array([[1, 2]]), cache=make_prompt_cache(each)) for each in (model, other)
    )
    assert mx.allclose(logits, expected, atol=1e-5).item()


@pytest.mark.parametrize("kind", KINDS)
def test_pass_has_the_logits_of_the_model_with_every_kind_of_cache(kind: str) -> None:
    model = model_of(kind)
    forward = ForwardPass(model)
    tokens, ids = mx.array([[3, 5, 8, 13]]), mx.array([2, 40, 63])
    cache, other = make_prompt_cache(model), make_prompt_cache(model)
    expected = model(tokens, cache=other)[0]
    output = forward(tokens, cache)
    at = [output.at(0, column) for column in (1, 3)]
    few = [one.of(ids) for one in at]
    for column, one, own in zip((1, 3), at, few, strict=True):
        assert mx.allclose(own, expected[column][ids][None], atol=1e-3).item()
        assert mx.allclose(one.all(), expected[column][None], atol=1e-3).item()
        # Once all logits are computed, few of them are the same ones.
        assert mx.array_equal(one.of(ids), one.all()[:, ids]).item()
    assert at[0].width == expected.shape[-1]


def test_logits_that_are_not_used_are_not_computed() -> None:
    used: list[int] = []

    class Counting:
        def logits(self, hidden: mx.array) -> mx.array:
            used.append(hidden.shape[0])
            return mx.zeros((hidden.shape[0], 8))

        def logits_of(self, hidden: mx.array, ids: mx.array) -> mx.array:
            return mx.zeros((hidden.shape[0], ids.size))

    output = PassOutput(mx.zeros((2, 3, 8)), mx.zeros((2, 3, 4)), Counting())  # type: ignore[arg-type]
    at = [output.at(row, column) for row in range(2) for column in (0, 2)]
    assert output.inputs.shape == (4, 4)
    at[0].of(mx.array([1, 2]))
    assert used == []
    at[1].all()
    at[3].all()
    assert used == [4]
