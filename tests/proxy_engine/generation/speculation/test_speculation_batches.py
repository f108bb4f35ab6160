"""Drafts of several requests in one batch, and the caches that they leave behind."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import mlx_lm.models
import pytest
from adversarial_drafters import ALWAYS, Mistaken, Replay, Wrong, drafters
from architectures import (
    ARCHITECTURES,
    NOT_BUILT,
    REPRESENTATIVES,
    WINDOW,
    WRONG_WIDE_PASSES,
    small_model,
)
from cached_models import random_llama
from engine_parts import prepared
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object
from speculation_checks import Comparison, babbling_model, outcome

from proxy_engine import CacheOptions, InferenceEngine, RawPrompt
from proxy_engine.generation import Batch
from proxy_engine.requests import continuous_batch


def test_rows_of_a_padded_batch_share_the_passes_of_their_drafts(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    """As on a GPU, rows take different numbers of tokens."""
    prompts = ["prompt 0", f"prompt {'x' * 34} 12", f"prompt {'x' * 18} 24"]
    with (
        patch.object(continuous_batch, "Batch", partial(Batch, pads=True)),
        InferenceEngine(babbling_model(tiny_tokenizer), tiny_tokenizer, batch_size=3) as engine,
    ):
        arguments: dict[str, Any] = {"max_tokens": 24, "temperature": 1.0, "seed": 1}
        plain = [engine.generate(one, **arguments, speculation="off") for one in prompts]
        ids = [list(prepared(engine, one).prompt.token_ids) for one in prompts]

        def make(prompt_ids: Sequence[int]) -> list[Replay]:
            place = ids.index(list(prompt_ids))
            texts = [[*prompt_ids, *plain[place].token_ids]]
            return [[Replay(texts), Wrong(texts), Mistaken(texts, 1, 320)][place]]

        with drafters(make):
            results = engine.generate_batch(prompts, **arguments, speculation=ALWAYS)
    assert list(map(outcome, results)) == list(map(outcome, plain))
    right, wrong, mistaken = (result.usage for result in results)
    assert wrong.drafted_tokens > 20 > wrong.accepted_tokens
    assert right.forward_passes <= right.completion_tokens / 3
    assert right.forward_passes <= mistaken.forward_passes < wrong.forward_passes


CACHES: dict[str, CacheOptions] = {
    "plain": CacheOptions(),
    "quantized": CacheOptions(kv_bits=8, kv_group_size=32, quantized_kv_start=0),
    "rotating": CacheOptions(max_kv_size=24),
}


@pytest.mark.parametrize("cache", CACHES)
def test_prompt_cache_after_drafts_holds_the_tokens_of_the_answer(
    tiny_tokenizer: TokenizerWrapper, cache: str
) -> None:
    """A second request continues the first one's cache."""
    model = random_llama(320)
    with InferenceEngine(model, tiny_tokenizer, cache=CACHES[cache]) as drafting:
        first = Comparison(drafting, RawPrompt("hello"), max_tokens=12)
        first.run("mistaken")
        text = first.plain.text[:9]
        longer = drafting.generate(RawPrompt(f"hello{text}! "), max_tokens=12)
    with InferenceEngine(model, tiny_tokenizer, cache=CACHES[cache]) as plain:
        plain.generate(RawPrompt("hello"), max_tokens=12, speculation="off")
        expected = plain.generate(RawPrompt(f"hello{text}! "), max_tokens=12, speculation="off")
    assert longer.token_ids == expected.token_ids
    assert longer.usage.cached_tokens == expected.usage.cached_tokens


# Greedy answers with drafts are those without, for the architectures of mlx-lm.


# Longer than sliding windows.
PROMPT = "hello world, " * 2
RECORD: dict[str, Any] = closed_object(
    ab={"type": "string", "maxLength": 12}, n={"type": "integer", "minimum": 0, "maximum": 999}
)
ANSWERS: dict[str, dict[str, Any]] = {
    "text": {"max_tokens": 20, "min_tokens": 20},
    "object": {"max_tokens": 60, "response_format": RECORD},
}

some_by_default = pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(one, marks=[] if one in REPRESENTATIVES else pytest.mark.soak)
        for one in ARCHITECTURES
        if one not in WRONG_WIDE_PASSES
    ],
)


@some_by_default
def test_greedy_answer_is_that_without_drafts(
    architecture: str, tiny_tokenizer: TokenizerWrapper
) -> None:
    drafted = accepted = 0
    with InferenceEngine(small_model(architecture), tiny_tokenizer) as engine:
        for seed, options in enumerate(ANSWERS.values()):
            result = Comparison(engine, PROMPT, **options).run("mistaken", seed=seed)
            drafted += result.usage.drafted_tokens
            accepted += result.usage.accepted_tokens
    assert drafted > accepted > 0


@pytest.mark.parametrize("architecture", sorted(WRONG_WIDE_PASSES))
def test_models_with_wrong_wide_passes_do_not_draft(
    architecture: str, tiny_tokenizer: TokenizerWrapper
) -> None:
    assert len(PROMPT) > WINDOW
    with InferenceEngine(small_model(architecture), tiny_tokenizer) as engine:
        for options in ANSWERS.values():
            result = Comparison(engine, PROMPT, **options).run("right")
            assert result.usage.drafted_tokens == 0


def test_architectures_that_are_not_tested_exist() -> None:
    modules = {module.name for module in pkgutil.iter_modules(mlx_lm.models.__path__)}
    assert modules.issuperset(NOT_BUILT)
    assert modules.issuperset(REPRESENTATIVES)
