"""Drafts of several requests in one batch, and the caches that they leave behind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from adversarial_drafters import ALWAYS, Mistaken, Replay, Wrong, drafters
from cached_models import random_llama
from mlx_lm.tokenizer_utils import TokenizerWrapper
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
        ids = [
            list(engine._core.preparation.request(one, None, {}).prompt.token_ids)
            for one in prompts
        ]

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
