"""Language models of mlx-vlm in the interface of mlx-lm's: caches, positions and batches."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest
from architecture_configs import ADDITIONS, COMMON
from architectures import small_model
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_vlm.models.gemma3n import LanguageModel as Gemma3nLanguageModel
from mlx_vlm.models.gemma3n import TextConfig
from vision_models import VISION_ARCHITECTURES, sample_image
from vision_prompts import encoded, image, logits_behind, read_prompt

from proxy_engine import ImageContent, InferenceEngine, Interaction, TextContent
from proxy_engine.generation.cache_layers import merge, right_padded
from proxy_engine.generation.model_checks import ModelChecks
from proxy_engine.generation.output_layer import OutputLayer
from proxy_engine.models.loading import LoadedModel
from proxy_engine.multimodal.language_model import LanguageModel
from proxy_engine.prompt_cache.layers import flat
from state_machines import RegexStateMachine

Load = Callable[[str], LoadedModel]
ANSWERS = [[65, 66, 67, 68], [70, 71, 72, 73], [74, 75, 76, 77]]


def prompts(loaded: LoadedModel) -> list[tuple[list[Any], int]]:
    """Return the cache and rope delta of prompts of different lengths, with and without an image."""
    given = [
        encoded(loaded, [["<image>", "What is this, and why?"]], image(0)),
        encoded(loaded, [["Hi"]]),
        encoded(loaded, [["<image>", "a"]], image(1, (48, 96))),
    ]
    return [read_prompt(loaded, prompt)[:2] for prompt in given]


@pytest.mark.parametrize("name", VISION_ARCHITECTURES)
def test_caches_are_those_of_mlx_lm(loaded: Load, name: str) -> None:
    model = loaded(name).model
    layers = list(flat(make_prompt_cache(model)))
    assert {type(layer).__module__ for layer in layers} == {"mlx_lm.models.cache"}
    assert len(model.layers) >= len(make_prompt_cache(model))


@pytest.mark.parametrize(
    "name", ["qwen2_vl", "qwen3_vl", "qwen3_5", "gemma3", "lfm2_vl", "paligemma"]
)
@pytest.mark.parametrize("width", [1, 2])
def test_rows_of_a_batch_have_the_logits_of_single_sequences(
    loaded: Load, name: str, width: int
) -> None:
    model = loaded(name)
    rows = prompts(model)
    alone = [
        logits_behind(model, copy.deepcopy(cache), [answer], [delta])[0]
        for (cache, delta), answer in zip(rows, ANSWERS, strict=True)
    ]
    batch = merge([copy.deepcopy(cache) for cache, _ in rows])
    deltas = [delta for _, delta in rows]
    together = [
        logits_behind(model, batch, [answer[n : n + width] for answer in ANSWERS], deltas)
        for n in range(0, 4, width)
    ]
    np.testing.assert_allclose(np.concatenate(together, axis=1), alone, atol=1e-4)


def test_positions_behind_an_image_depend_on_the_rope_delta(loaded: Load) -> None:
    model = loaded("qwen2_vl")
    cache, delta = prompts(model)[0]
    assert delta < 0
    right, wrong = (
        logits_behind(model, copy.deepcopy(cache), ANSWERS[:1], [given]) for given in (delta, 0)
    )
    assert np.abs(right - wrong).max() > 0.01


def test_rows_that_are_padded_on_the_right_keep_their_positions(loaded: Load) -> None:
    model = loaded("qwen2_vl")
    rows = prompts(model)[:2]
    deltas = [delta for _, delta in rows]
    batch = merge([copy.deepcopy(cache) for cache, _ in rows])
    with right_padded(batch, [3, 1]):
        logits_behind(model, batch, [ANSWERS[0][:3], [ANSWERS[1][0], 0, 0]], deltas)
    together = logits_behind(model, batch, [ANSWERS[0][3:], ANSWERS[1][1:2]], deltas)
    for row, (count, (cache, delta)) in enumerate(zip((4, 2), rows, strict=True)):
        alone = logits_behind(model, copy.deepcopy(cache), [ANSWERS[row][:count]], [delta])
        np.testing.assert_allclose(together[row, -1], alone[0, -1], atol=1e-4)


def test_tokens_behind_a_prefix_attend_to_earlier_ones_only(loaded: Load) -> None:
    model = loaded("paligemma")
    cache, _ = prompts(model)[0]
    one, two = (
        logits_behind(model, copy.deepcopy(cache), [[*ANSWERS[0], last]], [0]) for last in (5, 6)
    )
    np.testing.assert_array_equal(one[:, :4], two[:, :4])


@pytest.mark.parametrize("name", VISION_ARCHITECTURES)
def test_engine_can_batch_rows_and_split_off_the_output_layer(loaded: Load, name: str) -> None:
    model = loaded(name).model
    assert ModelChecks(model).can_decode()
    assert OutputLayer.of(model) is not None


def test_all_weights_are_parameters(loaded: Load) -> None:
    model = loaded("gemma3")
    names = [name for name, _ in tree_flatten(model.model)]
    assert any("vision_tower" in name for name in names)
    assert any("language_model" in name for name in names)


# Layers that share keys and values: gemma3n, whose language model mlx-lm has as well.


TOKENS = list(range(1, 19))
"""More tokens than a sliding window has."""


def _models() -> tuple[Module, LanguageModel]:
    """Return mlx-lm's model, and mlx-vlm's with the same weights."""
    text = small_model("gemma3n")
    options = {
        **COMMON,
        **ADDITIONS["gemma3n"],
        "model_type": "gemma3n_text",
        "intermediate_size": [COMMON["intermediate_size"]] * 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }
    inner = Gemma3nLanguageModel(TextConfig.from_dict(options))
    prefix = "model.language_model."
    weights = {
        name.replace(prefix, "model."): weight for name, weight in tree_flatten(text.parameters())
    }
    inner.load_weights(list(weights.items()))
    multimodal: Any = Module()
    multimodal.language_model = inner
    multimodal.config = SimpleNamespace(text_config=None)
    return text, LanguageModel(multimodal, {"model_type": "gemma3n"})


def _logits(model: Module, passes: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
    cache = make_prompt_cache(model)
    found = [model(mx.array([tokens]), cache=cache) for tokens in passes]
    return np.array(mx.concatenate(found, axis=1))


@pytest.mark.parametrize("ends", [[], [5, 16, 17], [12], [1, 2, 3]])
def test_logits_are_those_of_mlx_lm_in_passes_of_any_width(ends: list[int]) -> None:
    text, model = _models()
    passes = [TOKENS[start:end] for start, end in zip([0, *ends], [*ends, None], strict=True)]

    np.testing.assert_allclose(_logits(model, passes), _logits(text, [TOKENS]), atol=1e-4)


# Forced text behind a prompt whose tokens attend to later ones.


def test_last_token_of_the_prompt_is_in_its_pass_if_forced_text_follows(
    checkpoint: Callable[[str], Path], loaded: Callable[[str], LoadedModel]
) -> None:
    model = loaded("paligemma")
    file = io.BytesIO()
    sample_image(0).save(file, "PNG")
    question = Interaction("user", [ImageContent(data=file.getvalue()), TextContent("n")])
    with InferenceEngine(checkpoint("paligemma")) as engine:
        result = engine.generate(
            [question],
            response_format=RegexStateMachine("The number is [0-9]{2}!"),
            temperature=0.0,
            max_tokens=40,
        )
    assert result.usage.forced_tokens > 0

    cache, _, _ = read_prompt(model, encoded(model, [["<image>", "n"]], image(0)))
    logits = logits_behind(model, cache, [result.token_ids], [0])[0]
    digits = [model.tokenizer.encode(digit)[-1] for digit in "0123456789"]
    places = [n for n, token in enumerate(result.token_ids) if token in digits]
    assert len(places) == 2
    for place in places:
        assert result.token_ids[place] == digits[int(np.argmax(logits[place - 1][digits]))]
