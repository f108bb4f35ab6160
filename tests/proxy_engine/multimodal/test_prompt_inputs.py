"""Inputs of prompts with media: passes of any size, cached prefixes, and the vision tower's runs."""

from __future__ import annotations

import copy
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from vision_models import VISION_ARCHITECTURES
from vision_prompts import encoded, image, read_prompt

from proxy_engine import PromptError
from proxy_engine.models.loading import LoadedModel, load_model
from proxy_engine.multimodal.prompt_inputs import MediaInputs, Segment

Load = Callable[[str], LoadedModel]
QUESTION = [["Look:", "<image>", "What is this?"]]
SPLIT = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "gemma3", "gemma4", "mistral3"]
"""Architectures whose processors' arrays can be split by image."""


def some_by_default(*left_out: str) -> Any:
    """Run a test with architectures that between them have every kind of cache and position."""
    some = ("qwen2_vl", "qwen3_5", "gemma4", "paligemma", "smolvlm")
    names = [name for name in VISION_ARCHITECTURES if name not in left_out]
    return pytest.mark.parametrize(
        "name", [pytest.param(n, marks=[] if n in some else pytest.mark.soak) for n in names]
    )


class CountingModel:
    """mlx-vlm's model, with a count of the prompts that it has embedded."""

    def __init__(self, model: Any) -> None:
        self.embedded = 0
        self.lengths: list[int] = []
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def get_input_embeddings(self, *arguments: Any, **keywords: Any) -> Any:
        self.embedded += 1
        self.lengths.append(arguments[0].shape[1])
        return self._model.get_input_embeddings(*arguments, **keywords)


def counted(prompt: Any) -> CountingModel:
    assert isinstance(prompt.inputs, MediaInputs)
    prompt.inputs.model = CountingModel(prompt.inputs.model)
    return prompt.inputs.model


@some_by_default()
def test_logits_do_not_depend_on_the_size_of_passes(loaded: Load, name: str) -> None:
    model = loaded(name)
    prompt = encoded(model, QUESTION, image(0))
    _, delta, expected = read_prompt(model, prompt)
    for step in (1, 3, 7):
        _, found, logits = read_prompt(model, prompt, step)
        assert found == delta
        np.testing.assert_allclose(logits, expected, atol=1e-4)


@some_by_default("paligemma")
def test_cached_media_are_not_read_again(loaded: Load, name: str) -> None:
    model = loaded(name)
    prompt = encoded(model, QUESTION, image(0))
    assert prompt.inputs is not None
    _, delta, expected = read_prompt(model, prompt)
    vision = counted(prompt)
    cut = prompt.inputs.media_end
    begun = copy.copy(prompt)
    cache, _, _ = read_prompt(model, _first_tokens(begun, cut))
    assert vision.embedded == 1
    _, found, logits = read_prompt(model, prompt, cache=cache, cached=cut)
    assert vision.embedded == 1
    assert found == delta
    np.testing.assert_allclose(logits, expected, atol=1e-4)


@pytest.mark.parametrize("name", ["qwen2_vl", "gemma4"])
def test_images_are_embedded_when_a_pass_reaches_them(loaded: Load, name: str) -> None:
    model = loaded(name)
    turns = [["<image>", "A?"], ["B."], ["<image>", "And?"], ["C."], ["<image>", "Why?"]]
    media = [image(0), image(1, (48, 96)), image(2)]
    expected = read_prompt(model, encoded(model, turns, *media))[2]
    prompt = encoded(model, turns, *media)
    assert prompt.inputs is not None
    (_, first), (_, second), _ = prompt.media_spans
    total = len(prompt.token_ids)
    vision = counted(prompt)
    prompt.inputs.prepare([], 0)
    prompt.inputs.arguments(0, 5)
    assert vision.lengths == [first]
    prompt.inputs.arguments(5, first + 3)
    prompt.inputs.arguments(first + 3, second)
    assert vision.lengths == [first, second - first]
    prompt.inputs.prepare([], second)
    assert vision.lengths == [first, second - first, total - second]
    for step in (2048, 5):
        np.testing.assert_allclose(read_prompt(model, prompt, step)[2], expected, atol=1e-4)


@pytest.mark.parametrize("name", SPLIT)
def test_embeddings_of_segments_are_those_of_the_whole_prompt(loaded: Load, name: str) -> None:
    model = loaded(name)
    turns = [["<image>", "<image>", "A?"], ["B."], ["<image>", "And?"]]
    prompt = encoded(model, turns, image(0), image(1, (48, 96)), image(2))
    assert isinstance(prompt.inputs, MediaInputs)
    assert len(prompt.inputs.segments) == 3
    length = len(prompt.token_ids)
    prompt.inputs.prepare([], 0)
    split = prompt.inputs.arguments(0, length)
    prompt.inputs.segments = [Segment(0, length, prompt.inputs.arrays)]
    prompt.inputs.release()
    prompt.inputs.prepare([], 0)
    whole = prompt.inputs.arguments(0, length)
    for feature in split:
        for own, expected in zip(flat(split[feature]), flat(whole[feature]), strict=True):
            np.testing.assert_allclose(np.array(own), np.array(expected), atol=1e-4)


def flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_released_inputs_hold_no_embeddings(loaded: Load) -> None:
    model = loaded("qwen2_vl")
    prompt = encoded(model, QUESTION, image(0))
    assert prompt.inputs is not None
    read_prompt(model, prompt)
    with pytest.raises(RuntimeError, match="not prepared"):
        prompt.inputs.arguments(0, 1)


def test_prompt_of_another_thread_is_read(loaded: Load) -> None:
    model = loaded("mistral3")
    _, _, expected = read_prompt(model, encoded(model, QUESTION, image(0)))
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(encoded(model, QUESTION, image(0))))
    thread.start()
    thread.join()
    _, _, logits = read_prompt(model, found[0])
    np.testing.assert_array_equal(logits, expected)


def test_prompt_whose_embeddings_do_not_match_its_tokens_is_refused(loaded: Load) -> None:
    prompt = encoded(loaded("qwen2_vl"), QUESTION, image(0))
    assert isinstance(prompt.inputs, MediaInputs)
    longer = encoded(loaded("qwen2_vl"), [["Look:", "<image>", "What is this here?"]], image(0))
    assert isinstance(longer.inputs, MediaInputs)
    embed = longer.inputs.model.get_input_embeddings
    given = mx.array(longer.token_ids)[None]
    prompt.inputs.model = CountingModel(prompt.inputs.model)
    prompt.inputs.model.get_input_embeddings = lambda _, *args, **named: embed(
        given, *args, **{**named, "mask": mx.ones_like(given)}
    )
    with pytest.raises(PromptError, match="input embeddings for"):
        prompt.inputs.prepare([], 0)


def _first_tokens(prompt: Any, count: int) -> Any:
    """Return a prompt with the first tokens only, whose inputs are those of the whole prompt."""
    return type(prompt)(
        token_ids=prompt.token_ids[:count], cache_key=prompt.cache_key, inputs=prompt.inputs
    )


def test_tokens_of_an_image_that_attend_to_each_other_are_processed_in_one_pass(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "gemma4"
    shutil.copytree(checkpoint("gemma4"), path)
    config = json.loads((path / "config.json").read_text())
    config["text_config"]["use_bidirectional_attention"] = "vision"
    (path / "config.json").write_text(json.dumps(config))
    model = load_model(path)
    prompt = encoded(model, [["<image>", "or", "<image>", "Why?"]], image(0), image(1))
    assert isinstance(prompt.inputs, MediaInputs)
    assert prompt.inputs.single_pass_end == prompt.inputs.media_end < len(prompt.token_ids)
    whole = read_prompt(model, prompt)[2]
    np.testing.assert_allclose(read_prompt(model, prompt, 3)[2], whole, atol=1e-4)
    prompt.inputs.single_pass_end = 0
    assert np.abs(read_prompt(model, prompt, 3)[2] - whole).max() > 1e-3
