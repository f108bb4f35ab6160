"""Drafts of several requests in one batch, and the caches that they leave behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from adversarial_drafters import ALWAYS, Replay, drafter_of, drafters
from cached_models import random_llama
from mlx_lm.tokenizer_utils import TokenizerWrapper
from speculation_checks import Comparison, babbling_model, outcome

from proxy_engine import CacheOptions, GenerationResult, InferenceEngine, RawPrompt
from proxy_engine.generation import Batch
from proxy_engine.requests import continuous_batch
from state_machines import RegexStateMachine

FORMATS: list[Any] = [
    None,
    RegexStateMachine("(ab|a|b|:){1,12}x?|12{1,9}"),
    {"type": "array", "items": {"enum": ["red", "ab", 12]}, "minItems": 2, "maxItems": 5},
    {"type": "object", "properties": {"ab": {"type": "string"}}, "required": ["ab"]},
]


def arguments(number: int) -> dict[str, Any]:
    """A format, sampler, seed and limits that depend on ``number``."""
    return {
        "response_format": FORMATS[number % 4],
        "temperature": 0.0 if number % 3 == 0 else 1.0,
        "seed": number,
        "max_tokens": 20 + number % 7,
        "min_tokens": number % 4,
        "fast_forward": number % 5 > 0,
    }


def padded(engine_of: Callable[[], InferenceEngine]) -> InferenceEngine:
    """Return an engine whose rows take different numbers of tokens, as on a GPU."""
    with patch.object(continuous_batch, "Batch", partial(Batch, pads=True)):
        return engine_of()


class Requests:
    """Requests with prompts of different lengths, and their answers without drafts."""

    def __init__(self, engine: InferenceEngine, numbers: Sequence[int]) -> None:
        self._engine = engine
        self._numbers = numbers
        self.plain = [
            engine.generate(self._prompt(number), **arguments(number), speculation="off")
            for number in numbers
        ]

    def _prompt(self, number: int) -> str:
        return f"prompt {'x' * (7 * number % 50)} {number}"

    def run(self, kinds: Sequence[str]) -> list[GenerationResult[Any]]:
        """Run all requests at once; ``kinds`` are their drafters."""
        begun: list[Any] = []
        made: list[Replay] = []
        vocabulary = self._engine.vocabulary
        special = [*vocabulary.end_token_ids, *vocabulary.special_tokens.values()]
        prompts = [
            list(self._engine._core.prepare(self._prompt(n), None, {}).prompt_ids)
            for n in self._numbers
        ]

        def make(prompt_ids: Sequence[int]) -> list[Replay]:
            place = prompts.index(list(prompt_ids))
            texts = [[*prompt_ids, *self.plain[place].token_ids]]
            own = drafter_of(
                kinds[place], texts, seed=place, vocabulary=vocabulary.size, special=special
            )
            made.append(own)
            return [own]

        queued = threading.Event()
        self._engine._core.worker.submit(lambda: queued.wait(20))
        with drafters(make):
            for number in self._numbers:
                options = {**arguments(number), "speculation": ALWAYS}
                answer = options.pop("response_format")
                begun.append(self._engine._core.queue(self._prompt(number), answer, options))
            queued.set()
            results = [queued.future.result(60)() for queued in begun]
        assert [problem for drafter in made for problem in drafter.problems] == []
        return results


def test_rows_of_a_padded_batch_share_the_passes_of_their_drafts(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    def made() -> InferenceEngine:
        return InferenceEngine(babbling_model(tiny_tokenizer), tiny_tokenizer, batch_size=3)

    with padded(made) as engine:
        requests = Requests(engine, [0, 12, 24])
        results = requests.run(["right", "wrong", "mistaken"])
    for result, plain in zip(results, requests.plain, strict=True):
        assert outcome(result) == outcome(plain)
        assert result.usage.drafted_tokens > 0
    right, wrong, mistaken = (result.usage for result in results)
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
