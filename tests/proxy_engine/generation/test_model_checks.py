"""Batches and drafts are used only with models that compute the same logits as alone."""

from __future__ import annotations

from types import SimpleNamespace
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
from cached_models import KINDS, fresh_model, is_close, model_of, read
from mlx.nn.layers.base import Module
from mlx.utils import tree_map
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine import InferenceEngine
from proxy_engine.generation import Batch
from proxy_engine.generation.cache_layers import merge
from proxy_engine.generation.model_checks import ModelChecks


@pytest.mark.parametrize("kind", KINDS)
def test_probe_accepts_models_that_run_in_batches(kind: str) -> None:
    probe = ModelChecks(model_of(kind))
    assert probe.can_decode() == (kind != "chunked")
    # mlx-lm's recurrent layers process padding as tokens, except those that mask it; Nemotron-H
    # computes padded rows wrongly.
    assert probe.can_pad() == (kind not in ("chunked", "hybrid", "recurrent"))


@pytest.mark.parametrize("architecture", ["afm7", "gemma2", "gpt_bigcode"])
def test_probe_rejects_models_with_wrong_batches(architecture: str) -> None:
    model = small_model(architecture)
    probe = ModelChecks(model)
    assert not probe.can_decode()
    assert not probe.can_pad()
    batch = Batch(model)
    batch.add(_row(), make_prompt_cache(model))
    assert not batch.can_add(make_prompt_cache(model))


def _row() -> Any:
    return SimpleNamespace(row=0, tail=[], padding=0, drafting=None)


class Rounded(Module):
    """A model whose logits differ by noise in a pass of several rows."""

    def __init__(self, inner: Module, noise: float) -> None:
        super().__init__()
        self.inner = inner
        self._noise = noise

    @property
    def layers(self) -> Any:
        return self.inner.layers

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        logits: mx.array = self.inner(inputs, cache=cache)
        if inputs.shape[0] > 1:
            logits = logits + self._noise * mx.random.normal(logits.shape, key=mx.random.key(0))
        return logits


@pytest.mark.parametrize(("noise", "expected"), [(1e-4, True), (0.02, True), (3.0, False)])
def test_probe_tolerates_rounding(noise: float, expected: bool) -> None:
    assert ModelChecks(Rounded(fresh_model("default"), noise)).can_decode() == expected


def test_probe_runs_once_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh_model("default")
    probe = ModelChecks(model)
    for _ in range(2):
        batch = Batch(model, probe=probe)
        batch.add(_row(), make_prompt_cache(model))
        assert batch.can_add(make_prompt_cache(model))
        monkeypatch.setattr("proxy_engine.generation.model_checks._after_merging", None)


@pytest.mark.parametrize("architecture", ["afm7", "gemma2"])
def test_models_with_wrong_batches_run_one_request_at_a_time(
    architecture: str, tiny_tokenizer: Any
) -> None:
    prompts = ["a", "hello world " * 4, "xyz"]
    options: Any = {"max_tokens": 8, "min_tokens": 8, "temperature": 0.0}
    with InferenceEngine(small_model(architecture), tiny_tokenizer) as engine:
        alone = [engine.generate(prompt, **options).token_ids for prompt in prompts]
        together = engine.generate_batch(prompts, **options)
    assert [result.token_ids for result in together] == alone


# --- the width of a pass --------------------------------------------------------------------

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
    checks = ModelChecks(model)
    found = [checks.check_wide_pass(cache_of(model, length), DRAFT) for length in (3, len(TEXT))]
    assert all(found) == (architecture not in WRONG_WIDE_PASSES)
    assert checks.is_wide_pass_known_wrong(cache_of(model, len(TEXT))) != found[-1]


def test_tokens_that_attend_to_later_ones_are_found_in_any_text() -> None:
    model = small_model("phi3small")
    assert not ModelChecks(model).check_wide_pass(cache_of(model, 3), DRAFT)


def test_drafts_wait_for_a_check_beyond_the_window() -> None:
    model = small_model("gemma3_text")
    checks = ModelChecks(model)
    assert checks.check_wide_pass(cache_of(model, WINDOW - 5), DRAFT)
    crossing = cache_of(model, WINDOW - 1)
    assert not checks.check_wide_pass(crossing, DRAFT)
    assert not checks.is_wide_pass_known_wrong(crossing)
    assert checks.check_wide_pass(cache_of(model, WINDOW), DRAFT)
    assert checks.check_wide_pass(crossing, DRAFT)


@pytest.mark.parametrize("architecture", ["qwen3", "gemma3_text", "falcon_h1", "llama4"])
def test_check_restores_the_cache(architecture: str) -> None:
    model = small_model(architecture)
    for length in (3, len(TEXT)):
        cache = cache_of(model, length)
        assert ModelChecks(model).check_wide_pass(cache, DRAFT)
        for tokens in ([17], DRAFT, [3]):
            expected = read(model, [*TEXT[:length], *tokens], make_prompt_cache(model))
            assert is_close(read(model, tokens, cache), expected)
            cache = cache_of(model, length)


def test_rows_of_a_batch_are_checked_together() -> None:
    model = small_model("qwen3")
    cache = merge([cache_of(model, 3), cache_of(model, 9)])
    assert ModelChecks(model).check_wide_pass(cache, DRAFT)
    assert [layer.offset.tolist() for layer in cache] == [[3, 9]] * len(cache)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_rounding_of_halves_is_tolerated(dtype: mx.Dtype) -> None:
    model = small_model("gemma3_text")
    model.update(tree_map(lambda array: array.astype(dtype), model.parameters()))
    for length in (3, len(TEXT)):
        assert ModelChecks(model).check_wide_pass(cache_of(model, length), DRAFT)
