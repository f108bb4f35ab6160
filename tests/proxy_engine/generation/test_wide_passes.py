"""Models whose logits depend on the width of a pass are found before they draft."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from architectures import (
    ARCHITECTURES,
    REPRESENTATIVES,
    VOCABULARY,
    WINDOW,
    WRONG_WIDE_PASSES,
    small_model,
)
from cached_models import is_close, read
from mlx.nn.layers.base import Module
from mlx.utils import tree_map
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.generation.cache_layers import merge
from proxy_engine.generation.wide_passes import WidePasses

TEXT = [(7919 * n * n + 31) % VOCABULARY for n in range(3 * WINDOW)]
DRAFT = [5, 90, 41]


def cache_of(model: Module, length: int) -> list[Any]:
    cache = make_prompt_cache(model)
    read(model, TEXT[:length], cache)
    return cache


@pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(one, marks=[] if one in (*REPRESENTATIVES, "plamo3") else pytest.mark.soak)
        for one in ARCHITECTURES
    ],
)
def test_models_with_wrong_wide_passes_are_found(architecture: str) -> None:
    model = small_model(architecture)
    passes = WidePasses(model)
    found = [passes.are_right(cache_of(model, length), DRAFT) for length in (3, len(TEXT))]
    assert all(found) == (architecture not in WRONG_WIDE_PASSES)
    assert passes.are_wrong(cache_of(model, len(TEXT))) != found[-1]


def test_tokens_that_attend_to_later_ones_are_found_in_any_text() -> None:
    model = small_model("phi3small")
    assert not WidePasses(model).are_right(cache_of(model, 3), DRAFT)


def test_drafts_wait_for_a_check_beyond_the_window() -> None:
    model = small_model("gemma3_text")
    passes = WidePasses(model)
    assert passes.are_right(cache_of(model, WINDOW - 5), DRAFT)
    crossing = cache_of(model, WINDOW - 1)
    assert not passes.are_right(crossing, DRAFT)
    assert not passes.are_wrong(crossing)
    assert passes.are_right(cache_of(model, WINDOW), DRAFT)
    assert passes.are_right(crossing, DRAFT)


@pytest.mark.parametrize("architecture", ["qwen3", "gemma3_text", "falcon_h1", "llama4"])
def test_check_restores_the_cache(architecture: str) -> None:
    model = small_model(architecture)
    for length in (3, len(TEXT)):
        cache = cache_of(model, length)
        assert WidePasses(model).are_right(cache, DRAFT)
        for tokens in ([17], DRAFT, [3]):
            expected = read(model, [*TEXT[:length], *tokens], make_prompt_cache(model))
            assert is_close(read(model, tokens, cache), expected)
            cache = cache_of(model, length)


def test_rows_of_a_batch_are_checked_together() -> None:
    model = small_model("qwen3")
    cache = merge([cache_of(model, 3), cache_of(model, 9)])
    assert WidePasses(model).are_right(cache, DRAFT)
    assert [layer.offset.tolist() for layer in cache] == [[3, 9]] * len(cache)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_rounding_of_halves_is_tolerated(dtype: mx.Dtype) -> None:
    model = small_model("gemma3_text")
    model.update(tree_map(lambda array: array.astype(dtype), model.parameters()))
    for length in (3, len(TEXT)):
        assert WidePasses(model).are_right(cache_of(model, length), DRAFT)
