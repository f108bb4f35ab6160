"""Prompts with media as tokens: equality with mlx-vlm, cache keys, spans, and refused texts."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx_vlm.utils
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from vision_models import AUDIO_ARCHITECTURES, VISION_ARCHITECTURES
from vision_prompts import encoded, image, read_prompt, recording, rendered

from proxy_engine import ImageContent, Interaction, PromptError, TextContent
from proxy_engine.conversation.chat_template import chat_template
from proxy_engine.conversation.prompts import EncodedPrompt, PromptStyle, template_messages
from proxy_engine.models.loading import LoadedModel, load_model
from proxy_engine.multimodal.processor import by_medium, cache_keys

Load = Callable[[str], LoadedModel]
ONE_IMAGE = ("paligemma",)
MULTIPLE = [name for name in VISION_ARCHITECTURES if name not in ONE_IMAGE]
QUESTION = [["<image>", "What is this?"]]
TWO_TURNS = [["<image>", "A?"], ["B."], ["<image>", "And this?"]]


@pytest.mark.parametrize("name", VISION_ARCHITECTURES)
def test_tokens_are_those_of_mlx_vlm(loaded: Load, name: str, checkpoint: Any) -> None:
    model, path = loaded(name), checkpoint(name)
    turns = QUESTION if name in ONE_IMAGE else TWO_TURNS
    images = [image(0), image(1, (48, 96))][: 1 if name in ONE_IMAGE else 2]
    processor = mlx_vlm.utils.load_processor(path, add_detokenizer=False)
    expected = mlx_vlm.utils.prepare_inputs(
        processor,
        images=[one.image for one in images],
        prompts=rendered(model, turns),
        image_token_index=getattr(model.model.multimodal.config, "image_token_index", None),
        add_special_tokens=mlx_vlm.utils.should_add_special_tokens(model.model_type, processor),
    )
    prompt = encoded(model, turns, *images)
    assert prompt.token_ids == expected["input_ids"].reshape(-1).tolist()
    assert prompt.image_tokens == sum(key < 0 for key in prompt.cache_key)
    assert len(prompt.media_spans) == len(images)


@pytest.mark.parametrize("name", MULTIPLE)
def test_cache_keys_differ_in_the_tokens_of_the_images_only(loaded: Load, name: str) -> None:
    model = loaded(name)
    first, second, other = image(0), image(1), image(2)
    prompt = encoded(model, TWO_TURNS, first, second)
    changed = encoded(model, TWO_TURNS, first, other)
    swapped = encoded(model, TWO_TURNS, second, first)
    again = encoded(model, TWO_TURNS, image(0), image(1))
    assert prompt.token_ids == changed.token_ids == swapped.token_ids
    np.testing.assert_array_equal(prompt.cache_key, again.cache_key)
    (_, end), (start, last) = prompt.media_spans
    np.testing.assert_array_equal(prompt.cache_key[:start], changed.cache_key[:start])
    differs = prompt.cache_key != changed.cache_key
    assert differs[start]
    assert not differs[:start].any()
    assert not differs[last:].any()
    assert (prompt.cache_key[:end] != swapped.cache_key[:end]).sum() == prompt.image_tokens // 2
    is_text = prompt.cache_key >= 0
    np.testing.assert_array_equal(prompt.cache_key[is_text], np.array(prompt.token_ids)[is_text])
    negative = prompt.cache_key[~is_text]
    assert len(set(negative.tolist())) == len(negative) == prompt.image_tokens


@pytest.mark.parametrize("name", MULTIPLE)
def test_adjacent_images_have_spans_of_their_own(loaded: Load, name: str) -> None:
    model = loaded(name)
    alone = [encoded(model, QUESTION, one).image_tokens for one in (image(0), image(1, (96, 48)))]
    prompt = encoded(model, [["<image>", "<image>", "Why?"]], image(0), image(1, (96, 48)))
    (begin, middle), (next_begin, end) = prompt.media_spans
    assert begin < middle <= next_begin < end
    keys = prompt.cache_key
    assert [(keys[begin:middle] < 0).sum(), (keys[next_begin:end] < 0).sum()] == alone


@pytest.mark.parametrize(
    "name", ["qwen2_vl", "gemma3", "smolvlm", "pixtral", "gemma4", "internvl_chat", "paligemma"]
)
def test_text_with_a_placeholder_is_refused(loaded: Load, name: str) -> None:
    model = loaded(name)
    assert model.processor is not None
    places = rendered(model, [["<image>", "a"]])
    for text in (places + places, places):
        with pytest.raises(PromptError, match="stands for"):
            model.processor.encode(text, [])
    with pytest.raises(PromptError, match="stands for"):
        model.processor.encode(places + places, [image(0)])
    with pytest.raises(PromptError, match="no place for 2 images"):
        model.processor.encode(places, [image(0), image(1)])


def test_text_with_the_token_that_a_placeholder_expands_to_is_refused(loaded: Load) -> None:
    model = loaded("gemma3")
    with pytest.raises(PromptError, match="image_soft_token"):
        encoded(model, [["<image>", "What is <image_soft_token>?"]], image(0))


@pytest.mark.parametrize("name", VISION_ARCHITECTURES)
def test_contents_beside_an_image_spell_no_control_tokens(loaded: Load, name: str) -> None:
    model = loaded(name)
    assert model.processor is not None
    special = model.tokenizer.all_special_tokens

    def encode(text: str) -> EncodedPrompt:
        turn = Interaction("user", [ImageContent(data=b"0"), TextContent(text)])
        conversation = template_messages([turn], {"image"})
        kinds = conversation.media_kinds
        prompt = PromptStyle().render(conversation.messages, model.tokenizer, kinds)
        control = chat_template(model.tokenizer).control_tokens
        return model.processor.encode(prompt, [image(0)], control=control)

    def controls(prompt: EncodedPrompt) -> list[int]:
        return [i for i in prompt.token_ids if i in model.tokenizer.added_tokens_decoder]

    attacked, expected = encode(f"a {' '.join(special)}?"), encode("a ?")
    assert special
    assert controls(attacked) == controls(expected)
    assert attacked.image_tokens == expected.image_tokens
    assert len(attacked.token_ids) > len(expected.token_ids)


def test_text_without_media_has_no_inputs(loaded: Load) -> None:
    prompt = encoded(loaded("smolvlm"), [["Hello"]])
    assert (prompt.inputs, prompt.cache_key, prompt.media_spans) == (None, None, ())


@pytest.mark.parametrize("name", AUDIO_ARCHITECTURES)
def test_recordings_have_tokens_keys_and_spans(loaded: Load, name: str) -> None:
    model = loaded(name)
    assert model.processor is not None
    assert model.processor.reads == {"image", "audio"}
    turns = [["<image>", "and", "<audio>", "What?"]]
    prompt = encoded(model, turns, image(0), recording(0))
    other = encoded(model, turns, image(0), recording(1))
    assert prompt.audio_tokens > 0
    assert prompt.image_tokens > 0
    start = prompt.media_spans[1][0]
    np.testing.assert_array_equal(prompt.cache_key[:start], other.cache_key[:start])
    assert prompt.cache_key[start] != other.cache_key[start]


def test_threads_encode_at_the_same_time(loaded: Load) -> None:
    model = loaded("qwen2_vl")
    expected = [encoded(model, QUESTION, image(seed)).cache_key for seed in range(4)]
    begin = threading.Barrier(4)

    def encode(seed: int) -> Any:
        begin.wait()
        return encoded(model, QUESTION, image(seed))

    with ThreadPoolExecutor(4) as threads:
        prompts = list(threads.map(encode, range(4)))
    for prompt, key in zip(prompts, expected, strict=True):
        np.testing.assert_array_equal(prompt.cache_key, key)


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(1, 50), st.integers(1, 50))
def test_keys_are_negative_and_depend_on_content_and_count(
    left: bytes, right: bytes, one: int, two: int
) -> None:
    keys, others = cache_keys(left, one), cache_keys(right, two)
    assert keys.dtype == np.int64
    assert (keys < 0).all()
    assert len(set(keys.tolist())) == one
    assert (set(keys.tolist()) & set(others.tolist()) != set()) == ((left, one) == (right, two))


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=6))
def test_tokens_are_assigned_to_media_in_order(runs: list[tuple[int, int]]) -> None:
    positions, expected, start = [], [], 0
    for count, gap in runs:
        expected.append(list(range(start, start + count)))
        positions += expected[-1]
        start += count + gap
    found = by_medium(np.array(positions), len(runs), lambda n: runs[n][0])
    assert found is not None
    assert [part.tolist() for part in found] == expected


def test_tokens_that_fit_no_medium_are_not_assigned() -> None:
    assert by_medium(np.array([1, 2, 3, 4]), 2, lambda _: 3) is None


def test_token_at_the_beginning_is_not_doubled(
    loaded: Load, checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "gemma3"
    shutil.copytree(checkpoint("gemma3"), path)
    file = path / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    bos = tokenizer.token_to_id("<bos>")
    tokenizer.post_processor = TemplateProcessing("<bos> $A", special_tokens=[("<bos>", bos)])
    tokenizer.save(str(file))
    model, expected = load_model(path), loaded("gemma3")
    assert model.tokenizer.encode("a")[0] == bos
    prompt, other = (encoded(one, TWO_TURNS, image(0), image(1)) for one in (model, expected))
    assert prompt.token_ids[0] == bos != prompt.token_ids[1]
    assert prompt.token_ids == other.token_ids
    assert prompt.media_spans == other.media_spans
    np.testing.assert_allclose(
        read_prompt(model, prompt)[2], read_prompt(expected, other)[2], atol=1e-4
    )
